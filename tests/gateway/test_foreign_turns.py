"""Requests with history of other upstreams, for an upstream of the client's own dialect."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from support.gateway.calls import GENERATE, opened
from support.gateway.calls import asked as requested
from support.gateway.servers import served
from support.http.scripted_upstream import Answered, ScriptedUpstream

from streamnorm._bodies import request_of
from streamnorm.gateway import UpstreamConfig, response_state

pytestmark = pytest.mark.anyio


async def sent(
    dialect: str, path: str, body: dict[str, Any], server: str | None = None
) -> tuple[bytes, Any]:
    """Return the body as a client of a dialect sends it, and as an upstream of it gets it.

    The client sends what its vendor refuses, too: an unknown field, an empty signature.
    """
    upstream = ScriptedUpstream({path: Answered({}, 500)})
    data = json.dumps(body).encode()
    async with served(upstream, strict=False) as url:
        config = UpstreamConfig(dialect=dialect, base_url=url, server=server)
        async with opened({"local": config}) as app:
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


async def test_second_call_with_an_id_gets_one_of_its_own_for_its_vendor() -> None:
    """Two servers that count the calls of each answer have answered before it was Anthropic."""
    call = {"type": "tool_use", "id": "call_0", "name": "f", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "call_0", "content": "ok"}
    turn = [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    said = [{"role": "user", "content": "Hi."}, *turn, *turn]
    body = {"model": "m", "max_tokens": 9, "messages": said}
    _, received = await sent("anthropic", "/v1/messages", body, "anthropic")
    assert received["messages"][:3] == said[:3]
    assert received["messages"][3]["content"] == [{**call, "id": "call_0_2"}]
    assert received["messages"][4]["content"] == [{**result, "tool_use_id": "call_0_2"}]


async def test_request_without_values_of_others_passes_unchanged() -> None:
    for blocks in ((thinking("c2ln"),), (thinking(""),), ({"type": "text", "text": "an sn1.x"},)):
        data, received = await sent("anthropic", "/v1/messages", claude_body(*blocks))
        assert received == data


async def test_text_that_looks_like_a_value_of_others_passes_unchanged() -> None:
    body = claude_body({"type": "text", "text": "sn1.openai.gAAA is a signature"})
    data, received = await sent("anthropic", "/v1/messages", body)
    assert received == data


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


async def test_reasoning_goes_back_to_the_aggregator_that_sent_it() -> None:
    reasoning = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "c2ln"}
    said = [
        {"role": "user", "content": "1"},
        {**reasoning, "format": "anthropic-claude-v1"},
        {"role": "user", "content": "2"},
    ]
    body = {"model": "m", "input": said, "store": False}
    data, received = await sent("openai_responses", "/v1/responses", body)
    assert received == data


async def test_history_that_passes_is_decoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    count = 0

    def decoded(*args: Any, **options: Any) -> Any:
        nonlocal count
        count += 1
        return request_of(*args, **options)

    monkeypatch.setattr(response_state, "request_of", decoded)
    reasoning = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "c2ln"}
    body = {"model": "m", "input": [{"role": "user", "content": "1"}, reasoning], "store": False}
    data, received = await sent("openai_responses", "/v1/responses", body)
    assert (received, count) == (data, 1)
