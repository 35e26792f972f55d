"""Streams in another framing than server-sent events, read and transcoded over a source."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import httpx2
import pytest
from support.bedrock.chunks import EVENTS, chunk, exception, invoked
from support.bedrock_converse.frames import START, end, stop, text

import streamnorm
from streamnorm import (
    Completed,
    MessageStart,
    MessageStop,
    NotAStream,
    TextDelta,
    Truncated,
    UpstreamError,
)
from streamnorm.codec import INVOKE_CHUNKS

pytestmark = pytest.mark.anyio

HEADERS = {"content-type": "application/vnd.amazon.eventstream"}
# botocore 1.44.5 reads the second one in answers of `InvokeModelWithResponseStream` alone.
INVOKED = {**HEADERS, "x-amzn-bedrock-content-type": "application/json"}
STREAM = b"".join(map(chunk, EVENTS))
CONVERSE = b"".join((START, text(0, "It "), text(0, "snows."), stop(0), end()))


def response(data: bytes, headers: dict[str, Any] = HEADERS, family: Any = httpx) -> Any:
    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(data), 50):
            yield data[start : start + 50]

    return family.Response(200, headers=headers, content=pieces())


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


# Framing and id that the headers of a response state

OF_CONVERSE = {**HEADERS, "x-amzn-requestid": "req-1"}
unnamed = pytest.mark.parametrize(
    ("body", "headers", "dialect"),
    [
        (CONVERSE, HEADERS, "bedrock_converse"),
        (CONVERSE, {"content-type": HEADERS["content-type"].upper()}, "bedrock_converse"),
        (STREAM, INVOKED, "anthropic"),
    ],
    ids=["converse", "converse, in capitals", "invoke"],
)


@unnamed
async def test_unnamed_stream_is_found_by_its_headers(
    body: bytes, headers: dict[str, str], dialect: str
) -> None:
    stream = streamnorm.events(response(body, headers))
    said = "".join([event.text async for event in stream if isinstance(event, TextDelta)])
    assert said == "It snows."
    assert stream.dialect == dialect
    assert isinstance(stream.outcome, Completed)


@unnamed
@pytest.mark.parametrize("family", [httpx, httpx2])
async def test_connect_finds_an_unnamed_stream_by_its_headers(
    body: bytes, headers: dict[str, str], dialect: str, family: Any
) -> None:
    def answer(_: object) -> Any:
        return response(body, headers, family)

    url = "https://bedrock-runtime.us-east-1.amazonaws.com/model/m/converse-stream"
    async with family.AsyncClient(transport=family.MockTransport(answer)) as client:
        stream = streamnorm.connect(client, "POST", url, json={})
        assert isinstance([event async for event in stream][-1], MessageStop)
        assert stream.dialect == dialect
        transcoded = streamnorm.connect(client, "POST", url, json={}, to="openai_chat")
        written = b"".join([piece async for piece in transcoded])
        assert written.endswith(b"data: [DONE]\n\n")


@unnamed
async def test_bytes_of_an_unnamed_stream_pass(
    body: bytes, headers: dict[str, str], dialect: str
) -> None:
    events: list[object] = []
    stream = streamnorm.tap(response(body, headers), events.append)
    assert b"".join([piece async for piece in stream]) == body
    assert stream.media_type == HEADERS["content-type"]
    assert isinstance(events[0], MessageStart)
    assert stream.dialect == dialect


def test_unnamed_stream_of_a_synchronous_response_is_found_by_its_headers() -> None:
    stream = streamnorm.iter_events(httpx.Response(200, headers=HEADERS, content=CONVERSE))
    assert TextDelta(0, "snows.") in list(stream)


async def test_framing_that_the_caller_names_wins() -> None:
    stream = streamnorm.events(response(CONVERSE), framing=streamnorm.codec.SSE)
    with pytest.raises(NotAStream):
        _ = [event async for event in stream]


@pytest.mark.parametrize("dialect", [None, "bedrock_converse"])
@pytest.mark.parametrize(
    ("stated", "id"), [(b"req-1", "req-1"), (b"", ""), (b"r\xe9q", ""), (b"r" * 513, "")]
)
async def test_message_of_converse_has_the_id_of_its_response(
    dialect: str | None, stated: bytes, id: str
) -> None:
    """Its messages name none, and a header may hold any bytes."""
    headers = {**HEADERS, "x-amzn-requestid": stated}
    stream = streamnorm.events(response(CONVERSE, headers), dialect=dialect)
    events = [event async for event in stream]
    assert events[0] == MessageStart(id)
    assert stream.message.id == id


async def test_id_of_the_response_is_written_in_other_dialects() -> None:
    written = streamnorm.transcode(response(CONVERSE, OF_CONVERSE), to="openai_chat")
    assert b'"id":"req-1"' in b"".join([piece async for piece in written])
    written = streamnorm.transcode(
        response(CONVERSE, OF_CONVERSE), dialect="bedrock_converse", to="anthropic"
    )
    assert b'"id":"req-1"' in b"".join([piece async for piece in written])


async def test_other_messages_keep_their_own_id() -> None:
    headers = {**INVOKED, "x-amzn-requestid": "req-1"}
    stream = streamnorm.events(response(STREAM, headers))
    _ = [event async for event in stream]
    assert stream.message.id == EVENTS[0]["message"]["id"]
