"""`EventSender`: when pings are sent, and that they never overlap with chunks."""

from __future__ import annotations

from collections.abc import AsyncIterator

import anyio
import pytest
from support.http.asgi_client import CHUNKS, PING, UNANSWERED, Client, Message, transcode
from support.http.byte_source import AsyncBytes
from trio.testing import MockClock

import streamnorm
from streamnorm import Completed, Usage
from streamnorm.asgi import EventStreamResponse
from streamnorm.asgi.responses import EventSender, open_exchange

pytestmark = pytest.mark.anyio

in_virtual_time = pytest.mark.parametrize(
    "anyio_backend", [("trio", {"clock": MockClock(autojump_threshold=0)})], ids=["trio"]
)


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


async def test_pings_are_sent_during_silence_without_cancelling_the_read() -> None:
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


async def test_no_ping_is_sent_before_the_first_chunk() -> None:
    """Before the first chunk the status is not known."""
    source, client = AsyncBytes([], stays_open=True), Client()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(client.request, EventStreamResponse(transcode(source), keepalive_s=0))
        await source.silent.wait()
        for _ in range(100):
            await anyio.lowlevel.checkpoint()
        client.gone.set()
    assert client.messages == UNANSWERED


async def test_ping_waits_for_a_blocked_send() -> None:
    inside, pinged = 0, anyio.Event()

    async def send(message: Message) -> None:
        nonlocal inside
        assert inside == 0
        inside += 1
        for _ in range(20):
            await anyio.lowlevel.checkpoint()
        inside -= 1
        if message.get("body") == PING:
            pinged.set()

    async def chunks() -> AsyncIterator[bytes]:
        yield CHUNKS[0]
        await pinged.wait()  # there may be none while nothing waits
        for chunk in CHUNKS[1:]:
            yield chunk

    client = Client(send)
    with anyio.fail_after(60):
        await client.request(EventStreamResponse(transcode(chunks()), keepalive_s=0))
    assert client.finished
    assert PING in client.bodies


async def test_stream_without_pings_is_sent_unchanged() -> None:
    source = AsyncBytes(CHUNKS, waits=True)
    client = Client()
    stream = streamnorm.tap(source, lambda _: None)
    await client.request(EventStreamResponse(stream, keepalive_s=0))
    assert client.bodies == [*CHUNKS, b""]


async def test_pings_end_when_there_is_none_to_send() -> None:
    client = Client()
    async with open_exchange(client.receive, client.send) as exchange:
        with anyio.fail_after(5):
            await EventSender(exchange, lambda: b"", 0).keep_alive()
    assert client.messages == []


async def test_disconnect_during_a_ping_closes_the_source() -> None:
    async def fail(message: Message) -> None:
        if message.get("body") == PING:
            raise BrokenPipeError

    source = AsyncBytes(CHUNKS[:1], stays_open=True)
    await Client(fail).request(EventStreamResponse(transcode(source), keepalive_s=0))
    assert source.closed == 1


@in_virtual_time
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


@in_virtual_time
async def test_time_of_a_blocked_send_is_not_counted_as_silence() -> None:
    class Silent(AsyncBytes):
        async def __anext__(self) -> object:
            if self.reads == 2:
                await anyio.sleep(15)
            return await super().__anext__()

    bodies: list[tuple[float, bytes]] = []

    async def block(message: Message) -> None:
        if body := message.get("body"):
            bodies.append((anyio.current_time() - start, body))
            if len(bodies) == 2:
                await anyio.sleep(25)

    start = anyio.current_time()
    stream = transcode(Silent(CHUNKS))
    await Client(block).request(EventStreamResponse(stream, keepalive_s=10))
    assert [at for at, _ in bodies] == [0, 0, 35, 40, 40]
    assert [body == PING for _, body in bodies] == [False, False, True, False, False]
