"""Conversations that a client of the Responses API has compacted, by any upstream."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from support.bodies.compactions import FORGED, KEY, TRIGGER, sealed
from support.bodies.history_rules import PROMPTS
from support.gateway.calls import NOWHERE, asked, called, opened, scripted
from support.gateway.servers import served
from support.http.scripted_upstream import Answered, ScriptedUpstream

from streamnorm import Message, Usage
from streamnorm._core.blocks import Reasoning, Refusal, Text, ToolCall
from streamnorm._core.events import StreamError
from streamnorm.gateway import Gateway, LogConfig, ModelConfig, UpstreamConfig
from streamnorm.sse import SSEDecoder
from streamnorm.state.compaction import Sealer
from streamnorm.testing import FakeProvider
from streamnorm.validation import validate

pytestmark = pytest.mark.anyio

RESPONSES, COMPACT = "/v1/responses", "/v1/responses/compact"
ENVIRON = {"SEAL": KEY.decode()}
UPSTREAMS = ["openai_chat", "anthropic", "gemini", "gemini_interactions"]
HISTORY = [
    {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Be."}]},
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Snow?"}]},
    {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c1", "output": "snow"},
]
TOOL = {"type": "function", "name": "look", "parameters": {"type": "object", "properties": {}}}
REQUEST = {"model": "m", "input": HISTORY, "tools": [TOOL], "store": False}
TRIGGERED = {**REQUEST, "input": [*HISTORY, TRIGGER]}
SUMMARY = Message(
    model="m",
    blocks=(Reasoning("Hm."), Text("1. Task: snow.")),
    stop_reason="end_turn",
    usage=Usage(900, 30),
)


@asynccontextmanager
async def answering(
    script: Any, dialect: str = "openai_chat", **settings: Any
) -> AsyncIterator[tuple[Gateway, FakeProvider]]:
    """Provide a gateway with a key, and the provider behind it."""
    provider = FakeProvider(script)
    settings = {"seal_key": "env:SEAL", "environ": ENVIRON, **settings}
    async with served(provider.app()) as url, opened(url, dialect=dialect, **settings) as app:
        yield app, provider


def events_of(caller: Any) -> list[dict[str, Any]]:
    return [json.loads(frame.data) for frame in SSEDecoder().feed(b"".join(caller.bodies))]


def sent_to(provider: FakeProvider, number: int = 0) -> Any:
    return provider.requests[number].body


def summary_in(item: dict[str, Any]) -> str | None:
    return Sealer([KEY]).open(item["encrypted_content"])


@pytest.mark.parametrize("dialect", [*UPSTREAMS, "openai_responses"])
async def test_stream_holds_one_sealed_item(dialect: str) -> None:
    options = {"dialect": dialect, "base_url": "", "normalize": True}
    provider = FakeProvider(SUMMARY)
    async with served(provider.app()) as url:
        local = UpstreamConfig(**{**options, "base_url": url})
        async with opened({"local": local}, seal_key="env:SEAL", environ=ENVIRON) as app:
            caller = await called(app, RESPONSES, {**TRIGGERED, "stream": True})
    assert validate(b"".join(caller.bodies), "openai_responses") == []
    events = events_of(caller)
    assert [event["type"] for event in events] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.output_item.done",
        "response.completed",
    ]
    item, response = events[3]["item"], events[4]["response"]
    assert item["type"] == "compaction"
    assert item["id"].startswith("cmp_")
    assert summary_in(item) == "1. Task: snow."
    assert response["output"] == [item]
    assert response["id"] == events[0]["response"]["id"]
    assert (response["status"], response["store"]) == ("completed", False)
    assert response["usage"]["input_tokens"], response["usage"]["output_tokens"] == (900, 30)
    assert len(provider.requests) == 1


@pytest.mark.parametrize("dialect", UPSTREAMS)
async def test_whole_response_holds_one_sealed_item(dialect: str) -> None:
    async with answering(SUMMARY, dialect) as (app, _):
        status, body = await asked(app, RESPONSES, TRIGGERED)
    assert (status, body["status"], body["object"]) == (200, "completed", "response")
    [item] = body["output"]
    assert (item["type"], summary_in(item)) == ("compaction", "1. Task: snow.")
    assert body["usage"]["total_tokens"] == 930
    assert body["created_at"] > 1e9


@pytest.mark.parametrize("dialect", UPSTREAMS)
async def test_request_for_a_summary_has_the_prefix_of_the_conversation(dialect: str) -> None:
    """So that the prompt cache of the upstream serves it."""
    async with answering([SUMMARY, SUMMARY], dialect) as (app, provider):
        await called(app, RESPONSES, {**REQUEST, "stream": True})
        await called(app, RESPONSES, {**TRIGGERED, "stream": True})
    before, request = sent_to(provider, 0), sent_to(provider, 1)
    name = PROMPTS[dialect]
    *history, last = request[name]
    assert history == before[name]
    assert "This conversation will now be replaced" in json.dumps(last)
    assert request["tools"] == before["tools"]


@pytest.mark.parametrize(
    ("dialect", "name", "expected"),
    [
        ("openai_chat", "tool_choice", "none"),
        ("anthropic", "tool_choice", {"type": "none"}),
        ("gemini", "toolConfig", {"functionCallingConfig": {"mode": "NONE"}}),
        ("gemini_interactions", "generation_config", {"tool_choice": "none"}),
    ],
)
async def test_no_tool_may_be_called(dialect: str, name: str, expected: Any) -> None:
    async with answering(SUMMARY, dialect) as (app, provider):
        await asked(app, RESPONSES, TRIGGERED)
    assert sent_to(provider)[name] == expected


@pytest.mark.parametrize("dialect", UPSTREAMS)
async def test_next_turn_goes_on_from_the_summary(dialect: str) -> None:
    async with answering([SUMMARY, "It snows."], dialect) as (app, provider):
        _, body = await asked(app, RESPONSES, TRIGGERED)
        [item] = body["output"]
        users = [HISTORY[0], HISTORY[1], item, {"role": "user", "content": "Sure?"}]
        status, body = await asked(app, RESPONSES, {**REQUEST, "input": users})
    assert status == 200
    assert body["output"][0]["content"][0]["text"] == "It snows."
    sent = json.dumps(sent_to(provider, 1))
    texts = ["Snow?", "replaced by this summary of it", "1. Task: snow.", "Sure?"]
    places = [sent.index(text) for text in texts]
    assert places == sorted(places)
    assert "sn1." not in sent


async def test_summary_can_be_compacted_again() -> None:
    async with answering([SUMMARY, SUMMARY]) as (app, provider):
        status, _ = await asked(
            app, RESPONSES, {**REQUEST, "input": [sealed("One."), HISTORY[1], TRIGGER]}
        )
    assert status == 200
    contents = [message["content"] for message in sent_to(provider)["messages"]]
    assert "One." in contents[0]
    assert contents[1:2] == ["Snow?"]


# What is no summary


PROBLEM = ", expected a summary of the conversation"


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (
            Message(blocks=(Text("1. Ta"),), stop_reason="max_tokens"),
            "the answer was cut at its limit of tokens" + PROBLEM,
        ),
        (Message(blocks=(Refusal("No."),), stop_reason="refusal"), "the model refused" + PROBLEM),
        (
            Message(blocks=(Text("I look."), ToolCall("c2", "look", "{}"))),
            "the model called a tool" + PROBLEM,
        ),
        (Message(blocks=(Text(" "),)), "the model returned no text" + PROBLEM),
        (Message(blocks=(Reasoning("Hm."),)), "the model returned no text" + PROBLEM),
    ],
)
async def test_answer_that_is_no_summary_is_an_error(
    answer: Any, message: str, *, stream: bool
) -> None:
    async with answering(answer) as (app, _):
        caller = await called(app, RESPONSES, {**TRIGGERED, "stream": stream})
    assert b"compaction" not in b"".join(caller.bodies)
    if not stream:
        assert caller.status == 502
        assert json.loads(b"".join(caller.bodies))["error"]["message"] == message
        return
    events = events_of(caller)
    assert validate(b"".join(caller.bodies), "openai_responses") == []
    assert [event["type"] for event in events[2:]] == ["error", "response.failed"]
    response = events[-1]["response"]
    assert (response["error"]["message"], response["output"]) == (message, [])
    assert response["id"] == events[0]["response"]["id"]


@pytest.mark.parametrize("stream", [False, True])
async def test_stream_that_fails_is_an_error(*, stream: bool) -> None:
    failed = StreamError("upstream", "Overloaded.", "server_error", 503)
    for answer in ([Text("1. Task: snow"), failed], [Text("1. T"), StreamError("truncated", "")]):
        async with answering([answer]) as (app, _):
            caller = await called(app, RESPONSES, {**TRIGGERED, "stream": stream})
        data = b"".join(caller.bodies)
        assert b"sn1." not in data
        if stream:
            assert events_of(caller)[-1]["type"] == "response.failed"
            assert validate(data, "openai_responses") == []
        else:
            assert (caller.status or 0) >= 500
            assert json.loads(data)["error"]["message"]


async def test_error_response_of_the_upstream_is_the_client_s() -> None:
    error = StreamError("upstream", "Too long.", "context_length_exceeded", 400)
    async with answering(error) as (app, _):
        status, body = await asked(app, RESPONSES, {**TRIGGERED, "stream": True})
    assert (status, body["error"]["message"]) == (400, "Too long.")


# `/responses/compact`


@pytest.mark.parametrize("dialect", UPSTREAMS)
async def test_compact_answers_with_the_user_s_messages_and_one_item(dialect: str) -> None:
    async with answering(SUMMARY, dialect) as (app, provider):
        body = {"model": "m", "input": HISTORY, "instructions": "I."}
        status, found = await asked(app, COMPACT, body)
    assert status == 200
    assert found.keys() == {"id", "object", "created_at", "output", "usage"}
    assert found["object"] == "response.compaction"
    user, item = found["output"]
    assert (user["role"], user["content"]) == ("user", HISTORY[1]["content"])
    assert (item["type"], summary_in(item)) == ("compaction", "1. Task: snow.")
    assert found["usage"]["total_tokens"] == 930
    assert "This conversation will now be replaced" in json.dumps(sent_to(provider))


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"model": "m", "input": 5}, "input"),
        ({"model": "m", "input": [5]}, "input[0]"),
        ({"model": "m", "input": [TRIGGER]}, "input[0]"),
        ({"model": "m", "input": [{"type": "compaction"}]}, "input[0].encrypted_content"),
    ],
)
async def test_wrong_request_to_compact_is_refused(body: Any, param: str) -> None:
    async with opened() as app:
        status, found = await asked(app, COMPACT, body)
    assert (status, found["error"]["param"]) == (400, param)


async def test_failure_of_compact_is_an_error() -> None:
    async with answering(Message(blocks=(Text("1."),), stop_reason="max_tokens")) as (app, _):
        status, body = await asked(app, COMPACT, {"model": "m", "input": "Snow?"})
    assert (status, "cut at its limit" in body["error"]["message"]) == (502, True)


# Upstreams that compact by themselves


async def test_trigger_passes_to_an_upstream_that_compacts() -> None:
    body = json.dumps({**TRIGGERED, "stream": False}).encode()
    answer = {"id": "resp_1", "object": "response", "status": "completed", "output": []}
    async with scripted({RESPONSES: answer}, "openai_responses") as (app, upstream):
        await asked(app, RESPONSES, body)
    assert [request.body for request in upstream.requests] == [body]


@pytest.mark.parametrize("path", [RESPONSES, COMPACT, "/v1/responses/input_tokens"])
async def test_own_item_is_opened_and_one_of_the_upstream_passes(path: str) -> None:
    theirs = {"type": "compaction", "encrypted_content": "gAAAA"}
    items = [HISTORY[1], theirs, sealed("It snows."), {"role": "user", "content": "Sure?"}]
    answers = {path: Answered({"input_tokens": 5, "output": [], "id": "resp_1"})}
    settings = {"seal_key": "env:SEAL", "environ": ENVIRON}
    async with scripted(answers, "openai_responses", **settings) as (app, upstream):
        await asked(app, path, {"model": "m", "input": items})
    [request] = upstream.requests
    found = request.json["input"]
    assert [found[0], found[1], found[3]] == [items[0], items[1], items[3]]
    assert "It snows." in found[2]["content"][0]["text"]
    assert request.target == path


async def test_fallback_compacts_what_the_first_upstream_cannot() -> None:
    native = ScriptedUpstream({})  # answers with 404
    provider = FakeProvider(SUMMARY)
    async with served(native) as url, served(provider.app()) as other:
        upstreams = {
            "native": UpstreamConfig(dialect="openai_responses", base_url=url),
            "chat": UpstreamConfig(dialect="openai_chat", base_url=other),
        }
        models = [ModelConfig(match="*", to=["native", "chat"])]
        settings: Any = {"seal_key": "env:SEAL", "environ": ENVIRON, "models": models}
        async with opened(upstreams, **settings) as app:
            _, body = await asked(app, RESPONSES, TRIGGERED)
    assert [request.json["input"][-1] for request in native.requests] == [TRIGGER]
    assert [item["type"] for item in body["output"]] == ["compaction"]


# Items that were not sealed here


@pytest.mark.parametrize("path", [RESPONSES, COMPACT, "/v1/responses/input_tokens"])
async def test_item_that_was_not_sealed_here_is_refused(path: str) -> None:
    settings = {"seal_key": "env:SEAL", "environ": ENVIRON}
    async with opened(NOWHERE, **settings) as app:
        for name, content in FORGED.items():
            item = {"type": "compaction", "encrypted_content": content}
            body = {**REQUEST, "input": [*HISTORY, item]}
            caller = await called(app, path, body)
            error = json.loads(b"".join(caller.bodies))["error"]
            assert (caller.status, error["code"]) == (400, "invalid_encrypted_content"), name
            assert error["param"] == "input[4].encrypted_content"
            assert error["type"] == "invalid_request_error"
            if len(content) > 20:
                assert content not in json.dumps(error)


@pytest.mark.parametrize("items", [[TRIGGER, *HISTORY], [*HISTORY, TRIGGER, TRIGGER]])
async def test_trigger_in_a_wrong_place_is_refused(items: Sequence[Any]) -> None:
    async with opened() as app:
        status, body = await asked(app, RESPONSES, {**REQUEST, "input": items})
    assert (status, body["error"]["code"]) == (400, "invalid_value")
    assert body["error"]["param"] == f"input[{items.index(TRIGGER)}]"


async def test_other_clients_send_what_they_want() -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "Hi."}], "input": [TRIGGER]}
    async with (
        served(FakeProvider("Hi.").app(), strict=False) as url,  # which knows no such field
        opened(url, seal_key="env:SEAL", environ=ENVIRON) as app,
    ):
        status, _ = await asked(app, "/v1/chat/completions", body)
    assert status == 200


async def test_summary_is_no_stream_of_the_log() -> None:
    trigger = [{"role": "user", "content": "Hello"}, {"type": "compaction_trigger"}]
    requests = [(COMPACT, "Hello"), (RESPONSES, trigger)]
    log = LogConfig(url="memory:")
    provider = FakeProvider(["Summary."] * len(requests))
    headers = [("content-type", "application/json"), ("idempotency-key", "i-1")]
    async with served(provider.app()) as url, opened(url, log=log) as app:
        for path, asked in requests:
            caller = await called(app, path, {"model": "m", "input": asked}, headers=headers)
            assert "x-streamnorm-stream" not in caller.headers
            assert json.loads(b"".join(caller.bodies))["output"][-1]["type"] == "compaction"
