"""`EventStreamResponse` of a stream in another framing than server-sent events."""

from __future__ import annotations

from typing import Any

import pytest
from support.bedrock.chunks import EVENTS, chunk, invoked
from support.http.asgi_client import HEADERS, Client
from support.http.byte_source import AsyncBytes

import streamnorm
from streamnorm import Stream
from streamnorm.asgi import EventStreamResponse, MessageResponse
from streamnorm.codec import INVOKE_CHUNKS

pytestmark = pytest.mark.anyio

MESSAGES = [chunk(event) for event in EVENTS]
TYPE = "application/vnd.amazon.eventstream"
BINARY = {**HEADERS, "content-type": TYPE}
# boto3 requires the second of an InvokeModel stream.
CHUNKED = {**BINARY, "x-amzn-bedrock-content-type": "application/json"}


def transcode(**options: object) -> Stream[bytes]:
    source = AsyncBytes(MESSAGES, waits=True)
    fields = {"dialect": "anthropic", "framing": INVOKE_CHUNKS, **options}
    return streamnorm.transcode(source, **fields)  # type: ignore[arg-type]  # a test's dict


async def send(stream: Stream[bytes], **options: object) -> Client:
    client = Client()
    await client.request(EventStreamResponse(stream, **options))  # type: ignore[arg-type]  # a test's dict
    return client


async def test_content_type_is_that_of_the_framing_that_is_written() -> None:
    client = await send(transcode(to="anthropic", to_framing=INVOKE_CHUNKS))
    assert client.headers == CHUNKED
    assert b"".join(client.bodies) == b"".join(MESSAGES)
    assert (await send(transcode(to="openai_chat"))).headers == HEADERS
    assert (await send(transcode(to="bedrock_converse"))).headers == BINARY
    given = {"Content-Type": "application/x-own"}
    stream = transcode(to="anthropic", to_framing=INVOKE_CHUNKS)
    assert (await send(stream, headers=given)).headers["content-type"] == "application/x-own"


async def test_content_type_of_passed_bytes_is_that_of_their_framing() -> None:
    stream = streamnorm.tap(
        AsyncBytes(MESSAGES), lambda _: None, dialect="anthropic", framing=INVOKE_CHUNKS
    )
    assert (await send(stream)).headers == CHUNKED
    assert streamnorm.events(AsyncBytes([]), dialect="anthropic").media_type == "text/event-stream"


async def test_event_stream_has_no_pings() -> None:
    stream = transcode(to="anthropic", to_framing=INVOKE_CHUNKS)
    client = await send(stream, keepalive_s=0)
    assert client.bodies == [*MESSAGES, b""]
    translated = transcode(to="anthropic", to_framing=INVOKE_CHUNKS, verbatim=False)
    assert len(invoked(b"".join((await send(translated, keepalive_s=0)).bodies)).events) == 6


@pytest.mark.parametrize(
    "options",
    [{"to": "bedrock_converse"}, {"to": "anthropic", "to_framing": INVOKE_CHUNKS}],
    ids=["converse", "chunks"],
)
async def test_error_before_the_stream_is_worded_as_aws_words_it(options: dict[str, Any]) -> None:
    """Without its header boto3 reports the status as the code."""
    error = b'{"error": {"message": "Slow down.", "type": "rate_limit_error"}}'
    stream = streamnorm.transcode(AsyncBytes([error]), dialect="openai_chat", **options)
    client = await send(stream)
    assert client.headers["x-amzn-errortype"] == "ThrottlingException"
    assert b"".join(client.bodies) == b'{"message":"Slow down."}'


async def test_error_in_place_of_a_whole_answer_is_worded_as_aws_words_it() -> None:
    error = b'{"error": {"message": "Slow down.", "type": "rate_limit_error"}}'
    stream = streamnorm.events(AsyncBytes([error]), dialect="openai_chat")
    client = Client()
    await client.request(MessageResponse(stream, to="bedrock_converse"))
    assert client.headers["x-amzn-errortype"] == "ThrottlingException"
    assert b"".join(client.bodies) == b'{"message":"Slow down."}'
