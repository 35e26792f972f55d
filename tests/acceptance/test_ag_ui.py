"""What we write as AG-UI is what `@ag-ui/client` 0.0.59 and 1.0.0 read.

And what we read of streams of others is what these clients read.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from acceptance.node_sdks import Heard, ask, missing
from support.streams.content import PROVIDERS
from support.streams.corpus import needs_corpus, recordings

from streamnorm import (
    BlockStart,
    BlockStop,
    Completed,
    Event,
    Failed,
    JSONDelta,
    Message,
    MessageStart,
    MessageStop,
    Reasoning,
    RedactedReasoning,
    ServerToolCall,
    StreamError,
    Text,
    TextDelta,
    ToolCall,
    ToolResult,
    Transcoder,
    Truncated,
    Usage,
    UsageUpdate,
    accumulate,
    decode_request,
    message_events,
    project,
)
from streamnorm._core.json import object_in
from streamnorm.codec import decoder
from streamnorm.frontend import Run as AgentRun
from streamnorm.sse import SSEDecoder
from streamnorm.validation import validate

pytestmark = [pytest.mark.outside, pytest.mark.skipif(bool(missing()), reason=missing())]

CLIENTS = ("0", "1")
AG_UI = "ag_ui"


# A call is written before a result of a call that no block stands for.
NAMELESS = {"openai_responses/openai/shell-and-unknown-item"}


class Run:
    """A recording as it was written as a run, and the message that it holds."""

    def __init__(self, dialect: str, name: str, body: bytes, server: str | None) -> None:
        self.name = f"{dialect}/{name}"
        transcoder = Transcoder(dialect, AG_UI, server=server)
        self.body = b"".join(transcoder.feed(body) + transcoder.close()).decode()
        reader = decoder(dialect, server=server)
        self.events = reader.feed(body) + reader.close()
        self.passed, _ = project(self.events, AG_UI)
        self.is_complete = isinstance(transcoder.outcome, Completed)


@cache
def runs() -> tuple[Run, ...]:
    return tuple(
        Run(dialect, each.name, each.body, each.server)
        for dialect in PROVIDERS
        for each in recordings(dialect)
    )


def expected(message: Message) -> dict[str, Any]:
    """Return texts, reasoning and calls of a message, as messages of a thread hold them."""
    reasoning: list[str] = []
    for block in message.blocks:
        match block:
            case Reasoning(parts) if parts or block.signature:
                reasoning += parts or ("",)
            case RedactedReasoning():
                reasoning.append("")
            case _:
                pass
    calls = [
        (block.id, block.name, block.arguments or "{}")
        for block in message.blocks
        if isinstance(block, ToolCall | ServerToolCall)
    ]
    texts = [block.text for block in message.blocks if isinstance(block, Text)]
    return {"text": "".join(texts), "reasoning": reasoning, "calls": calls}


def found(heard: Heard) -> dict[str, Any]:
    messages = heard["messages"]
    return {
        "text": "".join(_contents(messages, "assistant")),
        "reasoning": _contents(messages, "reasoning"),
        "calls": [
            (call["id"], call["function"]["name"], call["function"]["arguments"])
            for message in messages
            for call in message.get("toolCalls", ())
        ],
    }


def _contents(messages: list[dict[str, Any]], role: str) -> list[str]:
    return [each.get("content") or "" for each in messages if each["role"] == role]


@pytest.mark.parametrize("client", CLIENTS)
def test_clients_read_what_we_write(client: str) -> None:
    answers = ask("ag_ui", client, [{"body": run.body} for run in runs()])
    for run, heard in zip(runs(), answers, strict=True):
        assert "messages" in heard, (run.name, heard)
        assert (heard["error"] is None) == run.is_complete, run.name
        if run.is_complete and run.name not in NAMELESS:
            assert found(heard) == expected(accumulate(run.passed)), run.name


@pytest.mark.parametrize("client", CLIENTS)
def test_signatures_reach_the_history_of_the_page(client: str) -> None:
    signed = [run for run in runs() if run.is_complete and "REASONING_ENCRYPTED_VALUE" in run.body]
    assert signed
    for run, heard in zip(
        signed, ask("ag_ui", client, [{"body": each.body} for each in signed]), strict=True
    ):
        sent = run.body.count('"REASONING_ENCRYPTED_VALUE"')
        kept = json.dumps(heard["messages"]).count('"encryptedValue"')
        assert kept == sent, run.name


LAST: tuple[Event, ...] = (
    MessageStart("last", "m-2"),
    BlockStart(0, Text()),
    TextDelta(0, "Done."),
    BlockStop(0),
    UsageUpdate(Usage(5, 2)),
    MessageStop("end_turn"),
)


@pytest.mark.parametrize("client", CLIENTS)
def test_runs_of_an_agent_arrive_whole(client: str) -> None:
    """Each recording twice, so that ids repeat, with results, and an answer of text."""
    joined: list[tuple[str, Message, str]] = []
    for each in runs():
        if not each.is_complete or each.name in NAMELESS:
            continue
        ids = [b.id for b in accumulate(each.events).blocks if isinstance(b, ToolCall)]
        results = [ToolResult(id, (Text(f"{number}"),)) for number, id in enumerate(ids)]
        items = [*each.events, results]
        run = AgentRun(AG_UI, ids={"threadId": "t", "runId": "r"})
        body = b"".join([run.write(item) for item in (*items, *items, *LAST)]) + run.finish()
        assert isinstance(run.outcome, Completed), each.name
        joined.append((each.name, run.message, body.decode()))
    answers = ask("ag_ui", client, [{"body": body} for *_, body in joined])
    for (name, message, _), heard in zip(joined, answers, strict=True):
        assert "messages" in heard, (name, heard)
        assert heard["error"] is None, name
        shown = accumulate(project(message_events(message), AG_UI)[0])
        assert found(heard) == expected(shown), name
        # Each result stands behind the message of its call, and before the next answer.
        called: list[str] = []
        answered: dict[str, str] = {}
        for each_message in heard["messages"]:
            called += [call["id"] for call in each_message.get("toolCalls", ())]
            if each_message["role"] == "tool":
                assert each_message["toolCallId"] in called, name
                answered[each_message["toolCallId"]] = each_message["content"]
        results_of = {b.tool_call_id: b for b in shown.blocks if isinstance(b, ToolResult)}
        assert {id: answered[id] for id in results_of} == {
            id: "".join(text.text for text in result.content if isinstance(text, Text))
            for id, result in results_of.items()
        }, name


@pytest.mark.parametrize("client", CLIENTS)
def test_thread_with_any_answer_is_read_again(client: str) -> None:
    """Every result has a call, also those of OpenAI that name another id than their call's."""
    jobs = [{"body": run.body} for run in runs() if run.is_complete]
    for heard in ask("ag_ui", client, jobs):
        question = {"id": "q", "role": "user", "content": "And now?"}
        body = {"threadId": "t", "runId": "r", "messages": [*heard["messages"], question]}
        decode_request(body, AG_UI)


CALL: tuple[Event, ...] = (
    MessageStart("a", "m-1"),
    BlockStart(0, ToolCall("call_0", "f")),
    JSONDelta(0, '{"a":2}'),
    BlockStop(0),
    MessageStop("tool_use"),
)


@pytest.mark.parametrize("client", CLIENTS)
def test_call_of_an_earlier_run_is_left_alone(client: str) -> None:
    """The client appends the arguments of a second call of its id."""
    function = {"name": "f", "arguments": '{"a":1}'}
    thread = [
        {"id": "1", "role": "user", "content": "Hi"},
        {
            "id": "2",
            "role": "assistant",
            "toolCalls": [{"id": "call_0", "type": "function", "function": function}],
        },
        {"id": "3", "role": "tool", "toolCallId": "call_0", "content": "x"},
    ]
    ids = {"threadId": "t", "runId": "r"}
    run = AgentRun(AG_UI, request=decode_request({**ids, "messages": thread}, AG_UI))
    body = b"".join(map(run.write, CALL)) + run.finish()
    (heard,) = ask("ag_ui", client, [{"body": body.decode(), "messages": thread}])
    assert heard["messages"][: len(thread)] == thread
    assert [(id, text) for id, _, text in found(heard)["calls"]] == [
        *(("call_0", '{"a":1}'), ("call_0-2", '{"a":2}')),
    ]


@pytest.mark.parametrize("client", CLIENTS)
def test_call_that_is_not_whole_waits_for_nobody(client: str) -> None:
    start, call, _, stop, _ = CALL
    bodies: list[str] = []
    for arguments in ([], [JSONDelta(0, '{"a')]):
        run = AgentRun(AG_UI)
        events = (start, call, *arguments, stop, MessageStop("max_tokens"))
        bodies.append((b"".join(map(run.write, events)) + run.finish()).decode())
    for heard in ask("ag_ui", client, [{"body": body} for body in bodies]):
        assert heard["error"] is None
        assert [each.get("toolCallId") for each in heard["messages"]] == [None, "call_0"]


def test_newer_client_reads_the_calls_that_wait() -> None:
    bodies: list[str] = []
    for dialect in PROVIDERS:
        for each in recordings(dialect):
            run = Transcoder(dialect, AG_UI, server=each.server, page_client="ag-ui@1")
            body = b"".join(run.feed(each.body) + run.close()).decode()
            if isinstance(run.outcome, Completed):
                bodies.append(body)
    assert any("pendingToolCallIds" in body for body in bodies)
    answers = ask("ag_ui", "1", [{"body": body} for body in bodies])
    for body, heard in zip(bodies, answers, strict=True):
        assert "messages" in heard, heard
        assert heard["finished"]["outcome"]["type"] == "success"
        assert validate(body.encode(), AG_UI) == []


def test_newer_client_reads_that_a_run_was_cancelled() -> None:
    run = AgentRun(AG_UI, page_client="ag-ui@1")
    written = map(run.write, [MessageStart("m"), BlockStart(0, Text()), TextDelta(0, "It")])
    body = b"".join(written) + run.fail(StreamError("upstream", "stopped", "cancelled"))
    (heard,) = ask("ag_ui", "1", [{"body": body.decode()}])
    assert (heard["finished"]["outcome"], heard["error"]) == ({"type": "cancelled"}, None)
    assert [message["content"] for message in heard["messages"]] == ["It"]
    assert validate(body, AG_UI) == []


DIFFERENT = {
    # The client appends to a call of an earlier lane of chunks, and then has two calls of one id.
    "ag-ui__transform__should-handle-interleaved-chunks-with-different-message-.sse",
}


@needs_corpus
def test_we_read_of_other_servers_what_the_client_reads() -> None:
    root = Path(os.environ["STREAMNORM_CORPUS"]) / "frontends" / "ag-ui"
    bodies = {path.name: path.read_bytes() for path in sorted(root.glob("*.sse"))}
    compared = 0
    jobs = [{"body": body.decode()} for body in bodies.values()]
    for (name, body), heard in zip(bodies.items(), ask("ag_ui", "1", jobs), strict=True):
        reader = decoder(AG_UI)
        events: list[Event] = reader.feed(body) + reader.close()
        is_one_run = body.count(b'"RUN_STARTED"') == 1
        if "messages" not in heard or name in DIFFERENT or not is_one_run:
            continue
        ends = heard["error"] is not None or "finished" in heard
        outcome = Completed if "finished" in heard else Failed if ends else Truncated
        assert isinstance(reader.outcome, outcome), name
        # The client takes a cut for a success (ag-ui-protocol/ag-ui#2300).
        if outcome is Completed and b"MESSAGES_SNAPSHOT" not in body:
            assert _answers(heard) == expected(accumulate(events)), name
            compared += 1
    assert compared > 30


def _answers(heard: Heard) -> dict[str, Any]:
    answers = found(heard)
    calls = [(id, name, arguments or "{}") for id, name, arguments in answers["calls"]]
    return {**answers, "calls": calls}


@needs_corpus
def test_validator_agrees_with_the_client() -> None:
    """On each stream, and on each one with one frame dropped, repeated or broken."""
    root = Path(os.environ["STREAMNORM_CORPUS"]) / "frontends" / "ag-ui"
    # The validator has no deprecated events, which the client rewrites.
    bodies = [path.read_bytes() for path in sorted(root.glob("*.sse"))]
    streams = [b for body in bodies if b"THINKING" not in body for b in damaged(body)]
    refused = 0
    heard_all = ask("ag_ui", "1", [{"body": body.decode()} for body in streams])
    for body, heard in zip(streams, heard_all, strict=True):
        # The client takes a cut for a success.
        found = [v.message for v in validate(body, "ag_ui") if not v.message.startswith("no RUN_")]
        assert ("messages" in heard) == (not found), (found, heard, body)
        refused += bool(found)
    assert refused > 1000
    assert len(streams) - refused > 400


def damaged(body: bytes) -> Iterator[bytes]:
    """Yield a stream, and the same with one change of each kind at each of its first events."""
    yield body
    reader = SSEDecoder()
    payloads = [frame.data for frame in (*reader.feed(body), *reader.close())]
    for at, payload in enumerate(payloads[:12]):
        before, after = payloads[:at], payloads[at + 1 :]
        yield joined(before + after)
        yield joined([*before, payload, payload, *after])
        event = object_in(payload)
        for name in sorted(event)[at % max(len(event), 1) :][:1]:
            rest = {key: event[key] for key in event if key != name}
            for value in ({}, {name: None}, {name: 7}):
                yield joined([*before, json.dumps({**rest, **value}), *after])


def joined(payloads: list[str]) -> bytes:
    return "".join(f"data: {payload}\n\n" for payload in payloads).encode()
