"""Requests with history of other upstreams, for an upstream of the client's own dialect."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from support.gateway_calls import GENERATE, opened
from support.gateway_calls import asked as requested
from support.gateway_servers import served
from support.scripted_upstream import Answered, ScriptedUpstream

from streamnorm import InputMessage, Loss, Reasoning, Request, Text
from streamnorm._upstream.requests import Upstream
from streamnorm.gateway.own_history import own_history

pytestmark = pytest.mark.anyio


async def sent(dialect: str, path: str, body: dict[str, Any]) -> tuple[bytes, Any]:
    """Return the body as a client of a dialect sends it, and as an upstream of it gets it."""
    upstream = ScriptedUpstream({path: Answered({}, 500)})
    data = json.dumps(body).encode()
    async with served(upstream) as url, opened(url, dialect=dialect) as app:
        await requested(app, path, data)
    received = upstream.requests[0]
    return data, data if received.body == data else received.json


def thinking(signature: str) -> dict[str, Any]:
    return {"type": "thinking", "thinking": "Hm.", "signature": signature}


def claude_body(*blocks: dict[str, Any]) -> dict[str, Any]:
    said = [
        {"role": "user", "content": "Hi."},
        {"role": "assistant", "content": [*blocks, {"type": "text", "text": "Hello."}]},
        {"role": "user", "content": "Bye."},
    ]
    return {"model": "m", "max_tokens": 9, "messages": said, "unknown": 1}


async def test_thinking_of_others_is_removed() -> None:
    carried = thinking("sn1-of.call_1.google.c2ln")
    redacted = {"type": "redacted_thinking", "data": "sn1.openai.ZZ"}
    body = claude_body(thinking("c2ln"), thinking("sn1.openai.gAAA"), carried, redacted)
    _, received = await sent("anthropic", "/v1/messages", body)
    assert received == claude_body(thinking("c2ln"))


async def test_message_of_thinking_of_others_alone_is_removed() -> None:
    body = claude_body()
    body["messages"][1]["content"] = [thinking("sn1.openai.gAAA")]
    _, received = await sent("anthropic", "/v1/messages", body)
    assert [message["role"] for message in received["messages"]] == ["user"] * len(
        received["messages"]
    )


async def test_request_without_values_of_others_passes_unchanged() -> None:
    for blocks in ((thinking("c2ln"),), (thinking(""),), ({"type": "text", "text": "an sn1.x"},)):
        data, received = await sent("anthropic", "/v1/messages", claude_body(*blocks))
        assert received == data


async def test_text_that_looks_like_a_value_of_others_stays() -> None:
    body = claude_body({"type": "text", "text": "sn1.openai.gAAA is a signature"})
    _, received = await sent("anthropic", "/v1/messages", body)
    assert received == body


async def test_signature_of_a_call_of_others_is_removed() -> None:
    tagged = base64.b64encode(b"sn1.anthropic.c2ln").decode()
    call = {"functionCall": {"name": "f", "args": {}}}
    parts = [{**call, "thoughtSignature": tagged}, {**call, "thoughtSignature": "Z29vZ2xl"}]
    contents = [
        {"role": "user", "parts": [{"text": "Hi."}]},
        {"role": "model", "parts": parts},
        {
            "role": "user",
            "parts": [{"functionResponse": {"name": "f", "response": {"output": "1"}}}] * 2,
        },
    ]
    _, received = await sent("gemini", GENERATE, {"contents": contents})
    shown = json.dumps(received)
    assert tagged not in shown
    assert "Z29vZ2xl" in shown


def test_reasoning_that_nobody_signed_goes_to_servers_that_may_know_it() -> None:
    """The vendor itself looks such an item up by its id, and stores nothing."""
    request = Request(
        messages=(
            InputMessage("user", (Text("1"),)),
            InputMessage("assistant", (Reasoning(("Hm.",)), Text("2"))),
        )
    )
    losses: list[Loss] = []
    url = "https://host.test"
    dialect = "openai_responses"
    for server in (None, "vllm"):
        own = Upstream(dialect=dialect, base_url=url, server=server)
        assert own_history(own, losses.append)(request) is request
    for server in ("openai", "azure"):
        vendor = Upstream(dialect=dialect, base_url=url, server=server)
        assert own_history(vendor, losses.append)(request).messages[1].blocks == (Text("2"),)
    assert [loss.feature for loss in losses] == ["reasoning_dropped"] * 2


async def test_reasoning_goes_back_to_the_aggregator_that_sent_it() -> None:
    reasoning = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "c2ln"}
    named = {**reasoning, "format": "anthropic-claude-v1"}
    tagged = {**reasoning, "encrypted_content": "sn1.anthropic.c2ln"}
    said = [{"role": "user", "content": "1"}, named, tagged, {"role": "user", "content": "2"}]
    body = {"model": "m", "input": said, "store": False}
    _, received = await sent("openai_responses", "/v1/responses", body)
    assert [item.get("format") for item in received["input"]] == [None, named["format"], None]
