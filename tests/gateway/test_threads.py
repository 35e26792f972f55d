"""Anthropic's threads, which the server of the conversation holds."""

from __future__ import annotations

from typing import Any

import pytest
from support.gateway.calls import JSON, asked, opened
from support.gateway.servers import served
from support.http.scripted_upstream import Answered, ScriptedUpstream

pytestmark = pytest.mark.anyio

MESSAGES = "/v1/messages"
REQUEST: dict[str, Any] = {
    "model": "m",
    "max_tokens": 9,
    "messages": [{"role": "user", "content": "Hi."}],
    "thread": {"type": "create"},
}
REJECTION = {"error_code": "thread_not_found"}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    "dialect", ["openai_chat", "openai_responses", "gemini", "gemini_interactions"]
)
async def test_thread_is_refused_as_the_sdk_expects_it(dialect: str, *, stream: bool) -> None:
    async with opened(dialect=dialect) as app:
        status, body = await asked(app, MESSAGES, {**REQUEST, "stream": stream})
    assert status == 400
    assert body["error"]["details"] == {
        "error_code": "thread_unsupported_request",
        "unsupported": ["thread"],
    }


async def test_rejection_of_anthropic_keeps_its_details() -> None:
    error = {"type": "not_found_error", "message": "no thread", "details": REJECTION}
    refused = Answered({"type": "error", "error": error}, 404)
    upstream = ScriptedUpstream({MESSAGES: refused})
    beta = [*JSON, ("anthropic-beta", "message-threads-2026-08-12")]
    async with served(upstream) as url, opened(url, dialect="anthropic") as app:
        status, body = await asked(app, MESSAGES, REQUEST, headers=beta)
    assert (status, body["error"]["details"]) == (404, REJECTION)
