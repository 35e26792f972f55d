"""A client of another dialect on the chunks of Amazon Bedrock."""

from __future__ import annotations

import json

import httpx
import pytest
from support.bedrock.chunks import EVENTS, chunk, exception

from streamnorm import TextDelta
from streamnorm.codec import INVOKE_CHUNKS, decoder
from streamnorm.transports.httpx import TranscodingTransport

pytestmark = pytest.mark.anyio

ASKED = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "Snow?"}]}


def transport(stream: bytes, seen: list[httpx.Request]) -> TranscodingTransport:
    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        headers = {"content-type": "application/vnd.amazon.eventstream"}
        return httpx.Response(200, headers=headers, content=stream)

    return TranscodingTransport(
        httpx.MockTransport(answer),
        client="openai_chat",
        upstream="anthropic",
        base_url="https://bedrock-runtime.us-east-1.amazonaws.com",
        server="bedrock",
        headers={"authorization": "Bearer k1"},
        framing=INVOKE_CHUNKS,
    )


async def test_chunks_are_the_client_s_stream() -> None:
    seen: list[httpx.Request] = []
    stream = b"".join(map(chunk, EVENTS))
    async with httpx.AsyncClient(transport=transport(stream, seen)) as client:
        answer = await client.post("https://h/v1/chat/completions", json=ASKED)
    assert TextDelta(0, "It snows.") in decoder("openai_chat").feed(answer.content)
    (request,) = seen
    assert request.url.path == "/model/m/invoke-with-response-stream"
    assert request.headers["authorization"] == "Bearer k1"
    assert "model" not in json.loads(request.content)


def test_exception_is_the_error_of_a_stream_that_has_not_begun() -> None:
    stream = exception("throttlingException", message="Slow down.")
    with httpx.Client(transport=transport(stream, [])) as client:
        answer = client.post("https://h/v1/chat/completions", json=ASKED)
    assert (answer.status_code, answer.json()["error"]["message"]) == (429, "Slow down.")
