"""Streams in another framing than server-sent events, read and transcoded over a source."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest
from support.bedrock.chunks import EVENTS, chunk, exception, invoked

import streamnorm
from streamnorm import Completed, TextDelta, Truncated, UpstreamError
from streamnorm.codec import INVOKE_CHUNKS

pytestmark = pytest.mark.anyio

HEADERS = {"content-type": "application/vnd.amazon.eventstream"}
STREAM = b"".join(map(chunk, EVENTS))


def response(data: bytes) -> httpx.Response:
    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(data), 50):
            yield data[start : start + 50]

    return httpx.Response(200, headers=HEADERS, content=pieces())


async def test_events_of_chunks() -> None:
    stream = streamnorm.events(response(STREAM), dialect="anthropic", framing=INVOKE_CHUNKS)
    events = [event async for event in stream]
    assert TextDelta(0, "It snows.") in events
    assert isinstance(stream.outcome, Completed)


async def test_cut_within_a_message_is_truncated() -> None:
    stream = streamnorm.events(
        response(STREAM[:-20]), dialect="anthropic", framing=INVOKE_CHUNKS, errors="yield"
    )
    _ = [event async for event in stream]
    assert isinstance(stream.outcome, Truncated)


async def test_exception_is_raised_as_the_error_of_the_provider() -> None:
    data = chunk(EVENTS[0]) + exception("throttlingException", message="Slow down.")
    stream = streamnorm.events(response(data), dialect="anthropic", framing=INVOKE_CHUNKS)
    with pytest.raises(UpstreamError, match=r"Slow down\.") as caught:
        _ = [event async for event in stream]
    assert (caught.value.code, caught.value.status) == ("throttlingException", 429)


async def test_chunks_become_the_stream_of_another_dialect_and_back() -> None:
    options = {"dialect": "anthropic", "to": "openai_chat", "framing": INVOKE_CHUNKS}
    chat = [piece async for piece in streamnorm.transcode(response(STREAM), **options)]
    assert b'"content":"It snows."' in b"".join(chat)

    async def source() -> AsyncIterator[bytes]:
        for piece in chat:
            yield piece

    back = streamnorm.transcode(
        source(), dialect="openai_chat", to="anthropic", to_framing=INVOKE_CHUNKS
    )
    found = invoked(b"".join([piece async for piece in back]))
    assert [event["type"] for event in found.events] == [event["type"] for event in EVENTS]


def test_events_of_a_synchronous_source() -> None:
    stream = streamnorm.iter_events(iter([STREAM]), dialect="anthropic", framing=INVOKE_CHUNKS)
    assert TextDelta(0, "It snows.") in list(stream)


@pytest.mark.parametrize("accept", [None, "*/*"])
async def test_connect_asks_for_the_framing(accept: str | None) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        assert request.headers["accept"] == (accept or HEADERS["content-type"])
        assert request.headers["accept-encoding"] == "identity"
        return response(STREAM)

    headers = {} if accept is None else {"accept": accept}
    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as client:
        stream = streamnorm.connect(
            client,
            "POST",
            "https://h/model/m/invoke-with-response-stream",
            json={},
            headers=headers,
            dialect="anthropic",
            framing=INVOKE_CHUNKS,
        )
        assert TextDelta(0, "It snows.") in [event async for event in stream]
