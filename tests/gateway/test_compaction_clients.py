"""Compaction as clients see it: with the SDK, with state, and while the upstream thinks."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest
from openai import AsyncOpenAI
from support.bodies.compactions import KEY, TRIGGER
from support.gateway.servers import RunningGateway, served, served_gateway
from support.gateway.stateful_clients import StateClient, provided
from support.gateway.upstreams import ABORT, DONE, StepUpstream
from support.openai_chat.chunks import chunk, content

from streamnorm import Message, Usage
from streamnorm._core.blocks import Text
from streamnorm.gateway import Config, Gateway, UpstreamConfig
from streamnorm.sse import SSEDecoder
from streamnorm.state.compaction import Sealer
from streamnorm.testing import FakeProvider
from streamnorm.validation import validate

pytestmark = pytest.mark.anyio

SAID: Any = {"type": "message", "role": "user", "content": "Snow?"}
SUMMARY = Message(blocks=(Text("1. Task: snow."),), usage=Usage(900, 30))


def summary_in(item: Any) -> str | None:
    return Sealer([KEY]).open(item.encrypted_content)


# The official SDK


async def test_sdk_compacts_and_goes_on() -> None:
    provider = FakeProvider([SUMMARY, SUMMARY, SUMMARY, "It snows."])
    async with served(provider.app()) as upstream:
        config = Config(
            upstreams={"local": UpstreamConfig(dialect="anthropic", base_url=upstream)},
            seal_key="env:SEAL",
        )
        async with (
            served(Gateway(config, environ={"SEAL": KEY.decode()})) as url,
            AsyncOpenAI(base_url=f"{url}/v1", api_key="-", max_retries=0) as client,
        ):
            whole = await client.responses.compact(model="m", input=[SAID])
            response = await client.responses.create(model="m", input=[SAID, TRIGGER])  # type: ignore[list-item] # a dict
            async with client.responses.stream(model="m", input=[SAID, TRIGGER]) as stream:  # type: ignore[list-item] # a dict
                streamed = await stream.get_final_response()
            items: Any = [
                item.model_dump(exclude_none=True, warnings=False) for item in whole.output
            ]
            last = await client.responses.create(model="m", input=[*items, SAID])
    assert [item.type for item in whole.output] == ["message", "compaction"]
    assert (whole.object, whole.usage.total_tokens) == ("response.compaction", 930)
    for output in (whole.output[1:], response.output, streamed.output):
        [item] = output
        assert (item.type, summary_in(item)) == ("compaction", "1. Task: snow.")
    assert streamed.usage is not None
    assert streamed.usage.input_tokens == 900
    assert last.output_text == "It snows."


# State


@pytest.mark.parametrize("stream", [False, True])
async def test_stored_conversation_is_compacted_and_continued(*, stream: bool) -> None:
    provider = FakeProvider(["Warm.", SUMMARY, "It snows."])
    async with provided(provider) as app:
        client = StateClient(app)
        first = await client.create("Snow?")
        second = await client.create([TRIGGER], stream=stream, previous_response_id=first["id"])
        assert [item["type"] for item in second["output"]] == ["compaction"]
        assert (second["store"], second["previous_response_id"]) == (True, first["id"])
        status, stored = await client.ask("GET", second["id"])
        assert (status, stored["output"]) == (200, second["output"])
        third = await client.create("Sure?", previous_response_id=second["id"])
    assert third["output"][0]["content"][0]["text"] == "It snows."
    messages = [request.body["messages"] for request in provider.requests]
    roles = [[message["role"] for message in sent] for sent in messages]
    assert roles[1] == ["user", "assistant", "user"]  # with the whole history
    assert roles[2] == ["user", "user", "user"]  # the answers before are in the summary
    texts = [message["content"] for message in messages[2]]
    assert [texts[0], texts[1][-14:], texts[2]] == ["Snow?", "1. Task: snow.", "Sure?"]


async def test_stored_conversation_is_compacted_for_later() -> None:
    provider = FakeProvider(["Warm.", SUMMARY])
    async with provided(provider) as app:
        client = StateClient(app)
        first = await client.create("Snow?")
        body = {"model": "m", "previous_response_id": first["id"]}
        status, found = await client.ask("POST", "compact", body)
        missing, _ = await client.ask("POST", "compact", {**body, "previous_response_id": "x"})
    assert (status, [item["type"] for item in found["output"]]) == (200, ["message", "compaction"])
    assert missing == 400
    contents = [message["content"] for message in provider.requests[1].body["messages"]]
    assert contents[:2] == ["Snow?", "Warm."]


async def test_upstream_of_the_dialect_is_asked_for_a_summary_of_what_is_stored_here() -> None:
    """It cannot know the history."""
    provider = FakeProvider(["Warm.", SUMMARY])
    async with provided(provider, "openai_responses") as app:
        client = StateClient(app)
        first = await client.create("Snow?")
        second = await client.create([TRIGGER], previous_response_id=first["id"])
    assert [item["type"] for item in second["output"]] == ["compaction"]
    sent = provider.requests[1].body
    assert sent["store"] is False
    assert "This conversation will now be replaced" in json.dumps(sent["input"][-1])
    assert sent["input"][0]["content"] == "Snow?"


# While the upstream thinks


async def test_pings_keep_the_client_waiting() -> None:
    """As events: comments do not reset the timeout of Codex."""
    go_on = asyncio.Event()
    steps = [
        chunk({"role": "assistant", "content": "1. Ta"}),
        go_on,
        chunk({"content": "sk."}, "stop"),
        DONE,
    ]
    upstream = StepUpstream(steps)
    async with served_gateway(upstream, keepalive_s=0.005) as gateway:
        data = await _streamed(gateway, until=b"keepalive", then=go_on)
    assert validate(data, "openai_responses") == []
    types = [frame.event for frame in SSEDecoder().feed(data)]
    assert types[:3] == ["response.created", "response.in_progress", "keepalive"]
    assert types[-1] == "response.completed"


async def test_connection_that_breaks_is_an_error() -> None:
    upstream = StepUpstream([content("1. Task: snow."), ABORT])
    go_on = asyncio.Event()
    async with served_gateway(upstream) as gateway:
        data = await _streamed(gateway, until=b"", then=go_on)
    assert SSEDecoder().feed(data)[-1].event == "response.failed"
    assert b"sn1." not in data


async def test_client_that_leaves_ends_the_request_for_a_summary() -> None:
    upstream = StepUpstream([content("1. Ta"), asyncio.Event()])
    async with served_gateway(upstream) as gateway:
        async with httpx.AsyncClient() as http, _open_seals(http, gateway) as response:
            await anext(response.aiter_raw())
        await asyncio.wait_for(upstream.closed.wait(), 5)
    assert upstream.left == 1


def _open_seals(http: httpx.AsyncClient, gateway: RunningGateway) -> Any:
    body = {"model": "m", "input": [SAID, TRIGGER], "stream": True}
    return http.stream("POST", f"{gateway.url}/v1/responses", json=body)


async def _streamed(gateway: RunningGateway, *, until: bytes, then: asyncio.Event) -> bytes:
    """Return a stream; once it contains some bytes, an event is set."""
    data = b""
    async with httpx.AsyncClient() as http, _open_seals(http, gateway) as response:
        async for piece in response.aiter_raw():
            data += piece
            if until in data:
                then.set()
    return data
