"""What we write for a page is what `ai` 5, 6 and 7 read, with the readers of `useChat`.

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
    Message,
    MessageStart,
    MessageStop,
    Reasoning,
    ServerToolCall,
    Text,
    TextDelta,
    ToolCall,
    ToolResult,
    Transcoder,
    Usage,
    UsageUpdate,
    accumulate,
    message_events,
    project,
)
from streamnorm.codec import decoder
from streamnorm.frontend import Run

pytestmark = [pytest.mark.outside, pytest.mark.skipif(bool(missing()), reason=missing())]

CLIENTS = ("ai5", "ai6", "ai7")
UI = "ui_message_stream"

Parts = list[tuple[str, Any]]


class Written:
    """A recording as it was written for a page, and the message that it holds."""

    def __init__(self, dialect: str, name: str, body: bytes, server: str | None) -> None:
        self.name = f"{dialect}/{name}"
        run = Transcoder(dialect, UI, server=server)
        self.body = b"".join(run.feed(body) + run.close()).decode()
        reader = decoder(dialect, server=server)
        events = reader.feed(body) + reader.close()
        self.events = events
        self.passed, _ = project(events, UI)
        self.is_complete = isinstance(run.outcome, Completed)


@cache
def written() -> tuple[Written, ...]:
    return tuple(
        Written(dialect, each.name, each.body, each.server)
        for dialect in PROVIDERS
        for each in recordings(dialect)
    )


def expected_parts(message: Message) -> Parts:
    """Return texts, reasoning and calls of a message, as a page shows them."""
    parts: Parts = []
    for block in message.blocks:
        match block:
            case Text(text):
                parts.append(("text", text))
            case Reasoning(summaries):
                parts += [("reasoning", text) for text in summaries or ("",)]
            case ToolCall(id, name) | ServerToolCall(id, name):
                parts.append((f"tool-{name}", id))
            case _:
                pass
    return sorted(parts)


def heard_parts(heard: Heard) -> Parts:
    parts: Parts = []
    for part in heard["parts"]:
        if part["type"] in ("text", "reasoning"):
            metadata = part.get("providerMetadata", {})
            keys = ("anthropic", "streamnorm")
            is_redacted = any("redactedData" in metadata.get(key, {}) for key in keys)
            if not is_redacted:
                parts.append((part["type"], part["text"]))
        elif part["type"].startswith("tool-"):
            parts.append((part["type"], part["toolCallId"]))
    return sorted(parts)


@pytest.mark.parametrize("client", CLIENTS)
def test_every_recording_is_accepted(client: str) -> None:
    answers = ask("ui", client, [{"body": each.body} for each in written()])
    for each, heard in zip(written(), answers, strict=True):
        if each.is_complete:
            assert "error" not in heard, (each.name, heard["error"])
            assert "failure" not in heard, each.name
            assert heard["finish"] in ("stop", "length", "tool-calls", "content-filter", "other")
        else:
            assert heard["failure"], each.name
            assert "finish" not in heard, each.name


# A call is written before a result of a call that no block stands for.
NAMELESS = {"openai_responses/openai/shell-and-unknown-item"}


@pytest.mark.parametrize("client", CLIENTS)
def test_every_complete_recording_arrives_whole(client: str) -> None:
    complete = [each for each in written() if each.is_complete and each.name not in NAMELESS]
    answers = ask("ui", client, [{"body": each.body} for each in complete])
    for each, heard in zip(complete, answers, strict=True):
        message = accumulate(each.passed)
        assert heard_parts(heard) == expected_parts(message), each.name
        if message.id:
            assert heard["metadata"]["id"] == message.id != heard["id"], each.name
        # Of a tool of the provider nobody is asked.
        own = {block.id for block in message.blocks if isinstance(block, ToolCall)}
        assert set(heard["calls"]) <= own, each.name


@pytest.mark.parametrize("client", CLIENTS)
def test_results_without_a_call_of_their_id_are_shown(client: str) -> None:
    """Also where a message is continued: the client fails at a result of an unknown call."""
    nameless = [each for each in written() if each.name in NAMELESS]
    bodies: list[str] = []
    for each in nameless:
        run = Run(UI, ids={"messageId": "page-1"})
        body = b"".join([run.write(event) for event in each.events]) + run.finish()
        bodies.append(body.decode())
    assert bodies
    for body, heard in zip(bodies, ask("ui", client, [{"body": b} for b in bodies]), strict=True):
        assert "error" not in heard, heard["error"]
        outputs = [part for part in heard["parts"] if part.get("state") == "output-available"]
        assert len(outputs) == body.count('"tool-output-available"')


@pytest.mark.parametrize("client", CLIENTS)
def test_no_cut_makes_a_call_available_that_was_not_whole(client: str) -> None:
    cuts: list[tuple[str, str]] = []
    for each in recordings("anthropic"):
        if "parallel-tools" not in each.name:
            continue
        frames = each.body.split(b"\n\n")
        for at in range(1, len(frames) - 2):
            body = b"\n\n".join(frames[:at]) + b"\n\n"
            cuts.append((each.name, Written("anthropic", each.name, body, each.server).body))
    for (name, body), heard in zip(
        cuts, ask("ui", client, [{"body": body} for _, body in cuts]), strict=True
    ):
        assert heard["failure"].startswith("connection lost"), name
        stops = body.count('"type":"tool-input-available"')
        assert len(heard["calls"]) == stops, name


def test_newest_client_reads_the_citations_of_a_text() -> None:
    bodies: list[str] = []
    for dialect in PROVIDERS:
        for each in recordings(dialect):
            run = Transcoder(dialect, UI, server=each.server, page_client="ai@7")
            body = b"".join(run.feed(each.body) + run.close()).decode()
            if '"citations":[' in body and isinstance(run.outcome, Completed):
                bodies.append(body)
    assert len(bodies) > 3
    for client in CLIENTS:
        for body, heard in zip(
            bodies, ask("ui", client, [{"body": body} for body in bodies]), strict=True
        ):
            assert "error" not in heard, heard
            shown = sum(len(part.get("citations", ())) for part in heard["parts"])
            assert shown == (body.count('"type":"source-') if client == "ai7" else 0)


def results_of(message: Message) -> list[ToolResult]:
    """Return a result for each call of the client, every second one an error."""
    ids = [block.id for block in message.blocks if isinstance(block, ToolCall)]
    return [
        ToolResult(id, (Text(f"{number}"),), is_error=bool(number % 2))
        for number, id in enumerate(ids)
    ]


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
    runs: list[tuple[Written, Message, str]] = []
    for each in written():
        if not each.is_complete or each.name in NAMELESS:
            continue
        answer = accumulate(each.events)
        run = Run(UI)
        items = [*each.events, results_of(answer)]
        body = b"".join([run.write(item) for item in (*items, *items, *LAST)]) + run.finish()
        assert isinstance(run.outcome, Completed), each.name
        runs.append((each, run.message, body.decode()))
    answers = ask("ui", client, [{"body": body} for *_, body in runs])
    for (each, message, _), heard in zip(runs, answers, strict=True):
        assert "error" not in heard, (each.name, heard["error"])
        shown = accumulate(project(message_events(message), UI)[0])
        assert heard_parts(heard) == expected_parts(shown), each.name
        assert heard["finish"] == "stop", each.name
        results = {b.tool_call_id: b for b in message.blocks if isinstance(b, ToolResult)}
        found = {
            part["toolCallId"]: part.get("output", part.get("errorText"))
            for part in heard["parts"]
            if part.get("toolCallId") in results
        }
        assert found == {
            id: "".join(text.text for text in result.content if isinstance(text, Text))
            for id, result in results.items()
        }, each.name
        states = {part["state"] for part in heard["parts"] if part.get("toolCallId") in results}
        assert states <= {"output-available", "output-error"}, each.name


def corpus_streams() -> Iterator[tuple[dict[str, Any], str]]:
    root = Path(os.environ["STREAMNORM_CORPUS"]) / "frontends"
    for line in (root / "INDEX.jsonl").read_text("utf-8").splitlines():
        row = json.loads(line)
        if row["protocol"] == "ui-message-stream":
            yield row, (root / row["file"]).read_text("utf-8")


# It withdraws a step, which events that were returned cannot be.
WITHDRAWN = "forgets-started-parts-after-a-reset-step-chunk"


@needs_corpus
def test_streams_of_others_are_read_as_the_newest_client_reads_them() -> None:
    streams = [each for each in corpus_streams() if WITHDRAWN not in each[0]["file"]]
    answers = ask("ui", "ai7", [{"body": body} for _, body in streams])
    for (row, body), heard in zip(streams, answers, strict=True):
        reader = decoder(UI)
        events = reader.feed(body.encode()) + reader.close()
        if "error" in heard and "failure" not in heard:
            assert not isinstance(reader.outcome, Completed), row["file"]
            continue
        blocks = [event for event in events if isinstance(event, BlockStart)]
        if isinstance(reader.outcome, Completed):
            assert heard.get("finish") is not None or "finish" in heard["types"], row["file"]
            found = [p for p in expected_parts(accumulate(events)) if p[0] in ("text", "reasoning")]
            wanted = [p for p in heard_parts(heard) if p[0] in ("text", "reasoning")]
            assert found == wanted, row["file"]
            calls = [b.block.id for b in blocks if isinstance(b.block, ToolCall | ServerToolCall)]
            shown = [p["toolCallId"] for p in heard["parts"] if "toolCallId" in p]
            assert sorted(calls) == sorted(shown), row["file"]
        else:
            # The client takes a stream without `finish` for success, and passes over `abort`.
            is_cut = "finish" not in heard["types"] or "abort" in heard["types"]
            assert is_cut or "failure" in heard, row["file"]
