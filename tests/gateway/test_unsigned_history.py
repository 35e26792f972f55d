"""Reasoning that a client got from a provider that signs none, sent to a vendor that does.

Such a vendor refuses it, so that a task could not go on there.
"""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from support.gateway.calls import asked, opened
from support.gateway.servers import served
from support.http.scripted_upstream import Answered, ScriptedUpstream

from streamnorm.gateway import UpstreamConfig

pytestmark = pytest.mark.anyio

CALL = {"type": "tool_use", "id": "call_1", "name": "f", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "call_1", "content": "snow"}
ANSWERS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "anthropic": (
        "/v1/messages",
        "messages",
        {
            "model": "claude-sonnet-4-5",
            "max_tokens": 9,
            "messages": [
                {"role": "user", "content": "Weather?"},
                {
                    "role": "assistant",
                    "content": [{"type": "thinking", "thinking": "So.", "signature": ""}, CALL],
                },
                {"role": "user", "content": [RESULT]},
            ],
        },
    ),
    "openai": (
        "/v1/responses",
        "input",
        {
            "model": "gpt-5",
            "store": False,
            "input": [
                {"type": "message", "role": "user", "content": "Weather?"},
                {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": None},
                {"type": "function_call", "call_id": "call_1", "name": "f", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "call_1", "output": "snow"},
            ],
        },
    ),
}
DIALECTS = {"anthropic": "anthropic", "openai": "openai_responses", "deepseek": "openai_chat"}
PATHS = {vendor: path for vendor, (path, _, _) in ANSWERS.items()}
PATHS["deepseek"] = "/v1/chat/completions"
each_vendor = pytest.mark.parametrize("vendor", ANSWERS)


async def sent(
    vendor: str, body: dict[str, Any], *, server: str | None, normalize: bool = False
) -> dict[str, Any]:
    """Return the request that reaches an upstream of the client's own dialect."""
    path = PATHS[vendor]
    upstream = ScriptedUpstream({path: Answered({}, 500)})
    # Without a name, a server of the client's own dialect gets what the client sends.
    async with served(upstream, stands_for=server, strict=server is not None) as url:
        config = UpstreamConfig(
            dialect=DIALECTS[vendor], base_url=url, server=server, normalize=normalize
        )
        async with opened({"own": config}) as app:
            await asked(app, path, body)
    (request,) = upstream.requests
    found: dict[str, Any] = request.json
    return found


@each_vendor
async def test_vendor_gets_no_reasoning_that_nobody_signed(vendor: str) -> None:
    _, prompt, body = ANSWERS[vendor]
    found = await sent(vendor, body, server=vendor)
    kinds = re.findall('"type": "([a-z_]+)"', json.dumps(found[prompt]))
    assert not {"thinking", "reasoning"} & {*kinds}
    assert len({"tool_use", "tool_result", "function_call", "function_call_output"} & {*kinds}) == 2


@each_vendor
async def test_another_server_gets_the_history_as_it_is(vendor: str) -> None:
    _, _, body = ANSWERS[vendor]
    assert await sent(vendor, body, server=None) == body


async def test_reasoning_that_the_vendor_stored_passes() -> None:
    _, _, body = ANSWERS["openai"]
    stored = {**body, "store": True}
    assert await sent("openai", stored, server="openai") == stored


@pytest.mark.parametrize("server", [None, "deepseek"])
async def test_dialect_without_signatures_keeps_its_reasoning(server: str | None) -> None:
    call = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    answer = {
        "role": "assistant",
        "content": None,
        "reasoning_content": "So.",
        "tool_calls": [call],
    }
    result = {"role": "tool", "tool_call_id": "call_1", "content": "snow"}
    body = {"model": "m", "messages": [{"role": "user", "content": "Hi."}, answer, result]}
    found = await sent("deepseek", body, server=server, normalize=True)
    assert found["messages"][1]["reasoning_content"] == "So."
