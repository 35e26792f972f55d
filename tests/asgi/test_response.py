"""`EventStreamResponse`: the messages it sends, error responses, and closing."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest
from support.http.asgi_client import (
    CHUNKS,
    HEADERS,
    UNANSWERED,
    Client,
    Message,
    refused,
    transcode,
)
from support.http.byte_source import AsyncBytes, Cut
from support.openai_chat.chunks import content, frame
from support.operation_counts import operations

import streamnorm
from streamnorm import (
    Abandoned,
    Completed,
    Failed,
    Limits,
    LocalProtocolError,
    LossyEncoding,
    Stream,
    TruncatedStream,
    Usage,
)
from streamnorm.asgi import EventStreamResponse

pytestmark = pytest.mark.anyio

ERROR = frame({"error": {"message": "slow down", "type": "rate_limit_error"}})
REDIRECT = " (a redirect, which is not followed: is the URL of the request right?)"


async def test_default_headers_prevent_buffering_and_caching() -> None:
    client = Client()
    await client.request(EventStreamResponse(transcode(AsyncBytes(CHUNKS))))
    assert client.status == 200
    assert client.headers == HEADERS


async def test_status_and_headers_of_the_caller_override_the_defaults() -> None:
    client = Client()
    given = {"X-Request-Id": "7", "Cache-Control": "no-store"}
    stream = transcode(AsyncBytes(CHUNKS))
    await client.request(EventStreamResponse(stream, status=201, headers=given))
    assert client.status == 201
    assert client.headers == {**HEADERS, "x-request-id": "7", "cache-control": "no-store"}


async def test_each_chunk_is_one_send_and_the_end_another() -> None:
    expected = [chunk async for chunk in transcode(AsyncBytes(CHUNKS))]
    client = Client()
    await client.request(EventStreamResponse(transcode(AsyncBytes(CHUNKS))))
    assert client.bodies == [*expected, b""]
    assert [message["more_body"] for message in client.messages[1:]] == [True] * 4 + [False]


async def test_chunk_is_sent_before_the_next_is_read() -> None:
    source = AsyncBytes(CHUNKS)
    reads = []

    async def note(_: Message) -> None:
        reads.append(source.reads)

    await Client(note).request(EventStreamResponse(transcode(source)))
    # The head waits for the first chunk.
    assert reads == [1, 1, 2, 3, 4, 4]


def calls_per_chunk(send_all: Callable[[Stream[bytes]], Awaitable[None]], backend: str) -> float:
    """Return how many functions are called per chunk, Python's and C's."""

    def calls(count: int) -> int:
        async def main() -> None:
            await send_all(transcode(AsyncBytes([content("a")] * count + CHUNKS)))

        return operations(lambda: anyio.run(main, backend=backend))

    calls(1)  # imports and caches of first use
    return (calls(600) - calls(100)) / 500


def test_chunk_without_keep_alive_costs_one_call_more_than_a_bare_send(anyio_backend: str) -> None:
    """It reads no clock and acquires no lock, of which each takes more calls."""

    async def respond(stream: Stream[bytes]) -> None:
        await Client().request(EventStreamResponse(stream))

    async def send_directly(stream: Stream[bytes]) -> None:
        send = Client().send
        async for chunk in stream:
            await send({"type": "http.response.body", "body": chunk, "more_body": True})

    more = calls_per_chunk(respond, anyio_backend) - calls_per_chunk(send_directly, anyio_backend)
    # The event loop's own work varies by fractions of a call per chunk.
    assert round(more) == 1


async def test_end_closes_the_source_and_calls_on_end() -> None:
    source, outcomes = AsyncBytes(CHUNKS), []
    stream = transcode(source, on_end=outcomes.append)
    await Client().request(EventStreamResponse(stream))
    assert source.closed == 1
    assert outcomes == [Completed("end_turn", Usage())]


# Before the first byte


@pytest.mark.parametrize(
    ("upstream", "status", "type", "message"),
    [
        ((b'{"error":{"message":"no key"}}', 401), 401, "authentication_error", "no key"),
        ((b'{"error":{"message":"slow"}}', 429), 429, "rate_limit_error", "slow"),
        ((b"sorry", 529), 529, "overloaded_error", "HTTP 529 with plain text"),
        ((b"", 307), 502, "api_error", f"HTTP 307 with an empty body{REDIRECT}"),
        ((b'{"error":{"message":"x","type":"y"}}', 200), 502, "api_error", "x"),
        (
            (b"<html>", 200, "text/html"),
            502,
            "api_error",
            "an HTML page, expected an event stream (is the URL of the request right?)",
        ),
        (
            (b"", 200),
            502,
            "api_error",
            "connection lost: the stream ended before its first event",
        ),
        (
            (b"data: " + b"x" * 400, 200, ""),
            502,
            "api_error",
            "max_event_bytes of 300 passed",
        ),
        ((ERROR, 200, ""), 429, "rate_limit_error", "slow down"),
    ],
)
async def test_failure_before_the_first_byte_is_an_error_response_in_the_clients_dialect(
    upstream: tuple[Any, ...], status: int, type: str, message: str
) -> None:
    source, outcomes = refused(*upstream), []
    stream = transcode(source, limits=Limits(max_event_bytes=300), on_end=outcomes.append)
    client = Client()
    await client.request(EventStreamResponse(stream))
    assert client.status == status
    (body,) = client.bodies
    assert client.headers == {
        "content-type": "application/json",
        "content-length": str(len(body)),
    }
    assert json.loads(body) == {"type": "error", "error": {"type": type, "message": message}}
    assert client.finished
    assert source.closed == 1
    assert isinstance(outcomes[0], (Failed, streamnorm.Truncated))


async def test_connection_that_breaks_before_the_first_byte_is_an_error_response() -> None:
    client = Client()
    await client.request(EventStreamResponse(transcode(AsyncBytes([], error=Cut("secret")))))
    assert client.status == 502
    assert client.finished
    assert b"secret" not in client.bodies[0]


async def test_error_response_of_a_tap_has_the_common_form() -> None:
    client = Client()
    stream = streamnorm.tap(refused(b'{"error":{"message":"m","code":"c"}}', 404), lambda _: None)
    await client.request(EventStreamResponse(stream))
    assert client.status == 404
    assert json.loads(client.bodies[0]) == {
        "error": {"message": "m", "type": "upstream", "code": "c"}
    }


async def test_closed_stream_raises_local_protocol_error() -> None:
    stream = transcode(AsyncBytes(CHUNKS))
    await stream.aclose()
    client = Client()
    with pytest.raises(LocalProtocolError, match="closed or broke"):
        await client.request(EventStreamResponse(stream))
    assert client.messages == []


async def test_stream_that_failed_already_is_still_an_error_response() -> None:
    stream = transcode(refused(b"", 503))
    with pytest.raises(streamnorm.UpstreamError):
        await anext(stream)
    client = Client()
    await client.request(EventStreamResponse(stream))
    assert client.status == 503
    assert b"HTTP 503" in client.bodies[0]


async def test_stream_without_a_chunk_is_an_empty_response() -> None:
    stream = transcode(AsyncBytes(CHUNKS))
    assert [chunk async for chunk in stream]
    client = Client()
    await client.request(EventStreamResponse(stream, keepalive_s=1))
    assert client.status == 200
    assert client.bodies == [b""]


# In the middle


async def test_failure_in_the_middle_is_reported_by_the_stream_itself() -> None:
    client = Client()
    source = AsyncBytes([content("half")], error=Cut())
    await client.request(EventStreamResponse(transcode(source)))
    assert client.bodies[-2].startswith(b"event: error\n")
    assert client.finished


async def test_failure_without_an_error_event_leaves_the_response_incomplete() -> None:
    client, cut = Client(), Cut()
    stream = streamnorm.tap(AsyncBytes([content("half")], error=cut), lambda _: None)
    with pytest.raises(TruncatedStream) as raised:
        await client.request(EventStreamResponse(stream))
    assert raised.value.__cause__ is cut
    assert client.bodies == [content("half")]
    assert not client.finished


@pytest.mark.parametrize("before", [0, 1])
async def test_error_of_the_application_is_raised_unchanged(before: int) -> None:
    client = Client()
    source = AsyncBytes([content("a")] * before + [content("b") + content("c", choice=1)])
    with pytest.raises(LossyEncoding):
        await client.request(EventStreamResponse(transcode(source, strict=True)))
    assert source.closed == 1
    assert not client.finished


async def test_error_of_the_server_is_raised_unchanged() -> None:
    async def receive() -> Message:
        raise ZeroDivisionError

    source = AsyncBytes([], stays_open=True)
    with pytest.raises(ZeroDivisionError):
        await EventStreamResponse(transcode(source))({}, receive, Client().send)
    assert source.closed == 1


async def test_head_request_has_the_headers_and_reads_no_further() -> None:
    """Starlette answers one by the route of GET; its client waits for no body."""
    source, outcomes = AsyncBytes(CHUNKS), []
    client = Client()
    response = EventStreamResponse(transcode(source, on_end=outcomes.append), keepalive_s=15)
    await response({"type": "http", "method": "HEAD"}, client.receive, client.send)
    assert {name: client.headers[name] for name in HEADERS} == HEADERS
    assert client.bodies == [b""]
    assert client.finished
    assert (source.reads, source.closed) == (1, 1)
    assert outcomes == [Abandoned()]


# The client leaves


async def leave(client: Client, source: AsyncBytes) -> None:
    await source.silent.wait()
    client.gone.set()


@pytest.mark.parametrize("before", [0, 1, 2])
async def test_disconnect_closes_the_source(before: int) -> None:
    """Also before the first byte, when nothing was sent yet."""
    source, outcomes = AsyncBytes(CHUNKS[:before], stays_open=True), []
    stream = transcode(source, on_end=outcomes.append)
    client = Client()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(leave, client, source)
        await client.request(EventStreamResponse(stream))
    assert len(client.messages) == (before + 1 if before else 2)
    assert before or client.messages == UNANSWERED
    assert source.closed == 1
    assert outcomes == [stream.outcome] == [Abandoned()]


async def test_disconnect_during_a_blocked_send_closes_the_source() -> None:
    blocked = anyio.Event()

    async def block(message: Message) -> None:
        if message.get("body"):
            blocked.set()
            await anyio.sleep_forever()

    source, client = AsyncBytes(CHUNKS), Client(block)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(client.request, EventStreamResponse(transcode(source)))
        await blocked.wait()
        client.gone.set()
    assert source.closed == 1


async def test_other_asgi_messages_are_no_disconnect() -> None:
    requests = iter([{"type": "http.request"}, {"type": "http.request"}])

    class Talking(Client):
        async def receive(self) -> Message:
            for request in requests:
                return request
            return await super().receive()

    client = Talking()
    await client.request(EventStreamResponse(transcode(AsyncBytes(CHUNKS, waits=True))))
    assert client.finished


@pytest.mark.parametrize("type", ["http.response.start", "http.response.body"])
async def test_failed_send_is_a_disconnect(type: str) -> None:
    async def fail(message: Message) -> None:
        if message["type"] == type:
            raise BrokenPipeError

    source, outcomes = AsyncBytes(CHUNKS), []
    stream = transcode(source, on_end=outcomes.append)
    await Client(fail).request(EventStreamResponse(stream))
    assert source.closed == 1
    assert outcomes == [Abandoned()]


async def test_cancelled_request_closes_the_source() -> None:
    source, outcomes = AsyncBytes(CHUNKS[:1], stays_open=True), []
    stream = transcode(source, on_end=outcomes.append)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(Client().request, EventStreamResponse(stream))
        await source.silent.wait()
        tasks.cancel_scope.cancel()
    assert source.closed == 1
    assert outcomes == [Abandoned()]
