"""`EventStreamResponse`: what it sends, what it refuses, and who closes what."""

from __future__ import annotations

import json
from typing import Any

import anyio
import pytest
from asgi_client import CHUNKS, HEADERS, PING, Client, Message, refused, transcode
from byte_source import AsyncBytes, Cut
from chat import content, frame
from trio.testing import MockClock

import streamnorm
from streamnorm import (
    Abandoned,
    Completed,
    EventStreamResponse,
    Failed,
    Limits,
    LocalProtocolError,
    LossyEncoding,
    TruncatedStream,
    Usage,
)

pytestmark = pytest.mark.anyio

ERROR = frame({"error": {"message": "slow down", "type": "rate_limit_error"}})


async def test_headers_say_that_it_is_a_live_stream() -> None:
    client = Client()
    await client.request(EventStreamResponse(transcode(AsyncBytes(CHUNKS))))
    assert client.status == 200
    assert client.headers == HEADERS


async def test_status_and_headers_of_the_caller_win() -> None:
    client = Client()
    given = {"X-Request-Id": "7", "Cache-Control": "no-store"}
    stream = transcode(AsyncBytes(CHUNKS))
    await client.request(EventStreamResponse(stream, status=201, headers=given))
    assert client.status == 201
    assert client.headers == {**HEADERS, "x-request-id": "7", "cache-control": "no-store"}


async def test_each_chunk_is_one_send_and_the_end_is_one_more() -> None:
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


async def test_end_closes_the_source_and_tells_the_outcome() -> None:
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
        ((b"sorry", 529), 529, "overloaded_error", "HTTP 529"),
        ((b"", 307), 502, "api_error", "HTTP 307"),
        ((b'{"error":{"message":"x","type":"y"}}', 200), 502, "api_error", "x"),
        (
            (b"<html>", 200, "text/html"),
            502,
            "api_error",
            "HTML of 6 bytes, expected an event stream",
        ),
        (
            (b"", 200),
            502,
            "api_error",
            "stream ended after 0 frames, expected the end of its message",
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
async def test_what_fails_before_the_first_byte_is_an_error_response_in_the_clients_dialect(
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


async def test_stream_that_is_closed_already_is_the_callers_mistake() -> None:
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
    assert client.status == 502
    assert b"HTTP 503" in client.bodies[0]


async def test_stream_without_a_chunk_is_an_empty_response() -> None:
    stream = transcode(AsyncBytes(CHUNKS))
    assert [chunk async for chunk in stream]
    client = Client()
    await client.request(EventStreamResponse(stream, keepalive_s=1))
    assert client.status == 200
    assert client.bodies == [b""]


# In the middle


async def test_failure_in_the_middle_is_told_by_the_stream_itself() -> None:
    client = Client()
    source = AsyncBytes([content("half")], error=Cut())
    await client.request(EventStreamResponse(transcode(source)))
    assert client.bodies[-2].startswith(b"event: error\n")
    assert client.finished


async def test_failure_that_the_bytes_cannot_tell_does_not_look_like_an_end() -> None:
    client, cut = Client(), Cut()
    stream = streamnorm.tap(AsyncBytes([content("half")], error=cut), lambda _: None)
    with pytest.raises(TruncatedStream) as raised:
        await client.request(EventStreamResponse(stream))
    assert raised.value.__cause__ is cut
    assert client.bodies == [content("half")]
    assert not client.finished


@pytest.mark.parametrize("before", [0, 1])
async def test_error_of_our_own_side_is_raised_as_it_is(before: int) -> None:
    client = Client()
    source = AsyncBytes([content("a")] * before + [content("b") + content("c", choice=1)])
    with pytest.raises(LossyEncoding):
        await client.request(EventStreamResponse(transcode(source, strict=True)))
    assert source.closed == 1
    assert not client.finished


async def test_error_of_the_server_is_raised_as_it_is() -> None:
    async def receive() -> Message:
        raise ZeroDivisionError

    source = AsyncBytes([], stays_open=True)
    with pytest.raises(ZeroDivisionError):
        await EventStreamResponse(transcode(source))({}, receive, Client().send)
    assert source.closed == 1


# The client leaves


async def leave(client: Client, source: AsyncBytes) -> None:
    await source.silent.wait()
    client.gone.set()


@pytest.mark.parametrize("before", [0, 1, 2])
async def test_client_that_leaves_closes_the_source(before: int) -> None:
    """Also before the first byte, when nothing was sent yet."""
    source, outcomes = AsyncBytes(CHUNKS[:before], stays_open=True), []
    stream = transcode(source, on_end=outcomes.append)
    client = Client()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(leave, client, source)
        await client.request(EventStreamResponse(stream))
    assert len(client.messages) == (before + 1 if before else 0)
    assert source.closed == 1
    assert outcomes == [stream.outcome] == [Abandoned()]


async def test_client_that_leaves_during_a_blocked_send_closes_the_source() -> None:
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


async def test_other_messages_of_the_client_are_no_disconnect() -> None:
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
async def test_send_that_fails_is_a_client_that_left(type: str) -> None:
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


# Keep-alive


class Slow(AsyncBytes):
    """Goes on only after a number of pings."""

    def __init__(self, pings: int) -> None:
        super().__init__(CHUNKS)
        self.pinged = 0
        self.restarts = 0
        self._enough = anyio.Event()
        self._pings = pings

    async def note(self, message: Message) -> None:
        if message.get("body") == PING:
            self.pinged += 1
            if self.pinged == self._pings:
                self._enough.set()

    async def __anext__(self) -> object:
        if self.reads == 1:
            self.restarts += 1
            await self._enough.wait()
        return await super().__anext__()


async def test_pings_fill_the_silence_and_the_read_goes_on() -> None:
    source = Slow(3)
    client = Client(source.note)
    stream = transcode(source)
    await client.request(EventStreamResponse(stream, keepalive_s=0.001))
    expected = [chunk async for chunk in transcode(AsyncBytes(CHUNKS))]
    assert source.pinged >= 3
    assert source.restarts == 1
    assert [body for body in client.bodies if body != PING] == [*expected, b""]
    assert client.bodies[0] == expected[0]
    assert client.bodies[-2:] == [expected[-1], b""]
    assert stream.outcome == Completed("end_turn", Usage())


async def test_no_ping_goes_out_before_the_head() -> None:
    """Before the first chunk the status is not known."""
    source, client = AsyncBytes([], stays_open=True), Client()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(client.request, EventStreamResponse(transcode(source), keepalive_s=0))
        await source.silent.wait()
        for _ in range(100):
            await anyio.lowlevel.checkpoint()
        client.gone.set()
    assert client.messages == []


async def test_ping_does_not_cut_in_on_a_send_that_is_blocked() -> None:
    inside = 0

    async def send(_: Message) -> None:
        nonlocal inside
        assert inside == 0
        inside += 1
        for _ in range(20):
            await anyio.lowlevel.checkpoint()
        inside -= 1

    client = Client(send)
    source = AsyncBytes(CHUNKS, waits=True)
    await client.request(EventStreamResponse(transcode(source), keepalive_s=0))
    assert client.finished
    assert PING in client.bodies


async def test_stream_without_a_form_of_ping_is_left_alone() -> None:
    source = AsyncBytes(CHUNKS, waits=True)
    client = Client()
    stream = streamnorm.tap(source, lambda _: None)
    await client.request(EventStreamResponse(stream, keepalive_s=0))
    assert client.bodies == [*CHUNKS, b""]


async def test_client_that_leaves_while_a_ping_is_sent_closes_the_source() -> None:
    async def fail(message: Message) -> None:
        if message.get("body") == PING:
            raise BrokenPipeError

    source = AsyncBytes(CHUNKS[:1], stays_open=True)
    await Client(fail).request(EventStreamResponse(transcode(source), keepalive_s=0))
    assert source.closed == 1


@pytest.mark.parametrize(
    "anyio_backend", [("trio", {"clock": MockClock(autojump_threshold=0)})], ids=["trio"]
)
async def test_silence_is_measured_from_the_last_send() -> None:
    class Timed(AsyncBytes):
        async def __anext__(self) -> object:
            await anyio.sleep((0, 6, 25, 0)[self.reads] if self.reads < 4 else 0)
            return await super().__anext__()

    sent: list[tuple[float, bool]] = []

    async def note(message: Message) -> None:
        if message.get("body"):
            sent.append((anyio.current_time() - start, message["body"] == PING))

    start = anyio.current_time()
    stream = transcode(Timed(CHUNKS))
    await Client(note).request(EventStreamResponse(stream, keepalive_s=10))
    assert sent == [(0, False), (6, False), (16, True), (26, True), (31, False), (31, False)]
