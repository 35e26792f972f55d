"""Failures of the provider, and of the connection, as a client of another dialect sees them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.http.families import FamilyUnderTest, each_family
from support.http.transcoding_clients import (
    MESSAGES,
    SSE,
    STREAMING,
    Answering,
    chat_stream,
    closable_body,
    fetch,
    transcoding,
)

from streamnorm import Failed, Truncated

pytestmark = pytest.mark.anyio
modes = pytest.mark.parametrize("mode", ["async", "sync"])


@modes
@each_family
@pytest.mark.parametrize("body", [MESSAGES, STREAMING], ids=["whole", "streamed"])
async def test_error_response_is_translated(family: FamilyUnderTest, body: Any, mode: str) -> None:
    error = {"error": {"message": "slow down", "type": "rate_limit_error"}}
    headers = {"retry-after": "7", "x-request-id": "req_1"}
    transport = transcoding(family, Answering(family, 429, json=error, headers=headers))
    response = await fetch(family, mode, transport, body)
    assert response.status_code == 429
    assert response.headers["retry-after"] == "7"
    assert response.headers["request-id"] == "req_1"
    assert response.json() == {
        "type": "error",
        "error": {"type": "rate_limit_error", "message": "slow down"},
    }
    assert isinstance(transport.outcome, Failed)
    assert transport.outcome.error.status_hint == 429


@modes
@each_family
async def test_error_response_of_the_same_dialect_is_not_changed(
    family: FamilyUnderTest, mode: str
) -> None:
    error = b'{"type":"error", "error":{"type":"x","message":"no", "new": 1}}'
    for body in (MESSAGES, STREAMING):
        transport = transcoding(family, Answering(family, 418, content=error), upstream="anthropic")
        response = await fetch(family, mode, transport, body)
        assert (response.status_code, response.content) == (418, error)


OWN_OVERFLOW = (
    b'{"type":"error", "error":{"type":"invalid_request_error", "message":'
    b'"prompt is too long: 213462 tokens > 200000 maximum"}, "request_id":"req_1"}'
)
VLLM_OVERFLOW = (
    b'{"type":"error","error":{"type":"BadRequestError","message":"This model\'s maximum context '
    b"length is 8 tokens. However, you requested 11 tokens (9 in the messages, 2 in the "
    b'completion)."}}'
)


@modes
@each_family
@pytest.mark.parametrize("body", [MESSAGES, STREAMING], ids=["whole", "streamed"])
async def test_full_context_of_a_compatible_server_is_said_in_the_vendor_s_words(
    family: FamilyUnderTest, body: Any, mode: str
) -> None:
    """Claude Code compacts the conversation at these words alone; the vendor's own pass."""
    contents = []
    for content in (VLLM_OVERFLOW, OWN_OVERFLOW):
        answering = Answering(family, 400, content=content)
        transport = transcoding(family, answering, upstream="anthropic")
        response = await fetch(family, mode, transport, body)
        assert response.status_code == 400
        contents.append(response.content)
    error = {"type": "invalid_request_error", "message": "prompt is too long: 9 tokens > 8 maximum"}
    assert json.loads(contents[0]) == {"type": "error", "error": error}
    assert contents[1] == OWN_OVERFLOW


@modes
@each_family
async def test_call_that_waits_for_the_client_is_its_bad_request(
    family: FamilyUnderTest, mode: str
) -> None:
    call = {"type": "mcp_approval_request", "id": "mcpr_1", "name": "ask", "server_label": "dice"}
    answer = {
        "id": "resp_1",
        "model": "m",
        "status": "completed",
        "output": [{**call, "arguments": "{}"}],
    }
    answering = Answering(family, json=answer)
    transport = transcoding(family, answering, upstream="openai_responses")
    response = await fetch(family, mode, transport)
    assert (response.status_code, response.json()["error"]) == (
        400,
        {
            "type": "invalid_request_error",
            "message": "mcp_approval_request waits for the client, expected a call that "
            "anthropic has",
        },
    )


NO_ANSWERS: dict[str, tuple[dict[str, Any], str]] = {
    "HTML": ({"content": b"<html>", "headers": {"content-type": "text/html"}}, "an HTML page"),
    "JSON": ({"json": {"id": 1}}, "expected"),
    "nothing": ({"headers": SSE}, "connection lost: the stream ended before its first event"),
    "malformed": ({"content": b"data: {\n\n", "headers": SSE}, "JSON"),
    "redirect": (
        {"status_code": 307, "headers": {"location": "https://evil.test/v1/messages"}},
        "HTTP 307",
    ),
}


@modes
@each_family
@pytest.mark.parametrize("body", [MESSAGES, STREAMING], ids=["whole", "streamed"])
@pytest.mark.parametrize(("answer", "words"), NO_ANSWERS.values(), ids=NO_ANSWERS)
async def test_what_is_no_answer_is_a_bad_gateway(
    family: FamilyUnderTest, answer: dict[str, Any], words: str, body: Any, mode: str
) -> None:
    answering = Answering(family, **{"status": answer.get("status_code", 200), **answer})
    transport = transcoding(family, answering)
    response = await fetch(family, mode, transport, body)
    assert response.status_code == 502
    assert response.json()["type"] == "error"
    assert words in response.json()["error"]["message"]
    assert len(answering.requests) == 1  # no redirect is followed
    assert isinstance(transport.outcome, Failed | Truncated)


@modes
@each_family
@pytest.mark.parametrize("error", ["ConnectError", "ConnectTimeout", "ReadTimeout", "ReadError"])
async def test_failed_connection_raises_the_error_of_the_package(
    family: FamilyUnderTest, error: str, mode: str
) -> None:
    kind = getattr(family.http, error)

    def fail(_: Any) -> Any:
        raise kind("no words")

    transport = transcoding(family, fail)
    with pytest.raises(kind, match="no words"):
        await fetch(family, mode, transport)
    assert isinstance(transport.outcome, Truncated)
    is_timeout = issubclass(kind, family.http.TimeoutException)
    assert transport.outcome.error.kind == ("stalled" if is_timeout else "transport")


@modes
@each_family
@pytest.mark.parametrize("body", [MESSAGES, STREAMING], ids=["whole", "streamed"])
async def test_body_that_breaks_before_its_first_event_raises_the_error_of_the_package(
    family: FamilyUnderTest, body: Any, mode: str
) -> None:
    error = family.http.ReadError("no words")
    source = closable_body(family, mode, [b": wait\n\n"], error=error)
    transport = transcoding(family, Answering(family, stream=source, headers=SSE))
    with pytest.raises(family.http.ReadError, match="no words"):
        await fetch(family, mode, transport, body)
    assert isinstance(transport.outcome, Truncated)
    assert source.closed


@modes
@each_family
async def test_stream_that_breaks_ends_with_an_error_event(
    family: FamilyUnderTest, mode: str
) -> None:
    source = closable_body(
        family, mode, chat_stream()[:2], error=family.http.ReadTimeout("no words")
    )
    transport = transcoding(family, Answering(family, stream=source, headers=SSE))
    response = await fetch(family, mode, transport, STREAMING)
    assert response.status_code == 200
    assert b"event: error" in response.content
    assert b"connection timed out after" in response.content
    assert b"message_stop" not in response.content
    assert isinstance(transport.outcome, Truncated)
    assert transport.outcome.error.kind == "stalled"


@modes
@each_family
async def test_provider_is_closed_with_the_chunk_that_reports_the_failure(
    family: FamilyUnderTest, mode: str
) -> None:
    error = b'data: {"error":{"message":"no capacity"}}\n\n'
    source = closable_body(family, mode, [*chat_stream()[:2], error, *chat_stream()])
    transport = transcoding(family, Answering(family, stream=source, headers=SSE))
    request = family.http.Request("POST", "https://x/v1/messages", json=STREAMING)
    if mode == "sync":
        body = transport.handle_request(request).stream
        while b"no capacity" not in next(body):
            pass
        assert source.closed
        assert list(body) == []
    else:
        body = (await transport.handle_async_request(request)).stream
        while b"no capacity" not in await anext(body):
            pass
        assert source.closed
        assert [data async for data in body] == []
