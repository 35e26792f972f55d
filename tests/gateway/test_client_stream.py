"""`ClientStream`: chunks and pings to a client that reads slowly do not overlap."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import anyio
import pytest
from support.unloaded_loop import UnloadedLoop

from streamnorm.asgi.responses import Message, open_exchange
from streamnorm.asgi.writing import WritingSend
from streamnorm.gateway.messages import ClientStream

pytestmark = pytest.mark.anyio

KEEPALIVE_S = 0.001
IDLE_S = 60.0
PING = b": ping\n\n"
CHUNK = b"data: {}\n\n"
MIB = 1024 * 1024


class SlowServer:
    """A server whose buffer is full while it sends `blocked`, until `release`."""

    def __init__(self, blocked: bytes) -> None:
        self.bodies: list[bytes] = []
        self.is_blocked = asyncio.Event()
        self.release = asyncio.Event()
        self.sent_ping = asyncio.Event()
        self.overlaps = 0
        self._blocked = blocked
        self._is_sending = False

    async def receive(self) -> Message:
        await asyncio.Event().wait()
        raise AssertionError

    async def send(self, message: Message) -> None:
        self.overlaps += self._is_sending
        self._is_sending = True
        if message.get("body") == self._blocked and not self.release.is_set():
            self.is_blocked.set()
            await self.release.wait()
        self.bodies.append(message.get("body", b""))
        if self.bodies[-1] == PING:
            self.sent_ping.set()
        self._is_sending = False


async def test_no_ping_is_sent_while_a_chunk_is_blocked() -> None:
    server = SlowServer(CHUNK)
    async with open_exchange(server.receive, server.send) as exchange:
        stream = ClientStream(exchange, lambda: PING, KEEPALIVE_S, lambda _: True)
        with stream.watch(KEEPALIVE_S, IDLE_S):
            await stream.start({})
            sending = asyncio.create_task(stream.send(CHUNK))
            await server.is_blocked.wait()
            await asyncio.sleep(20 * KEEPALIVE_S)
            assert CHUNK not in server.bodies
            server.release.set()
            await sending
            await server.sent_ping.wait()  # pings go on
    assert server.overlaps == 0


async def test_chunk_waits_for_a_blocked_ping() -> None:
    server = SlowServer(PING)
    async with open_exchange(server.receive, server.send) as exchange:
        stream = ClientStream(exchange, lambda: PING, KEEPALIVE_S, lambda _: True)
        with stream.watch(KEEPALIVE_S, IDLE_S):
            await stream.start({})
            await server.is_blocked.wait()
            sending = asyncio.create_task(stream.send(CHUNK, more=False))
            await asyncio.sleep(20 * KEEPALIVE_S)
            assert not sending.done()
            server.release.set()
            await sending
    assert server.bodies[:3] == [b"", PING, CHUNK]
    assert server.overlaps == 0


async def test_chunk_that_would_wait_is_not_written() -> None:
    class Writing(SlowServer, WritingSend):
        __call__ = SlowServer.send

        def write(self, body: bytes) -> bool:
            self.bodies.append(body)
            return True

    server = Writing(CHUNK)
    async with open_exchange(server.receive, server) as exchange:
        stream = ClientStream(exchange, lambda: PING, 60.0, lambda _: True)
        await stream.start({})
        assert stream.write(b"1")
        assert not stream.write(b"x" * (MIB + 1))
        sending = asyncio.create_task(stream.send(CHUNK))
        await server.is_blocked.wait()
        assert not stream.write(b"2")
        server.release.set()
        await sending
        assert stream.write(b"3")
    assert server.bodies == [b"", b"1", CHUNK, b"3"]


@pytest.mark.parametrize("extra", [-1, 0, 1])
async def test_large_chunk_is_sent_in_pieces(extra: int) -> None:
    size = 3 * MIB + extra
    data = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    expected = [MIB, MIB, MIB - 1] if extra < 0 else [MIB] * 3 + [1] * extra

    async def chunks() -> AsyncIterator[bytes]:
        yield data

    for sends_all in (False, True):
        server = SlowServer(PING)
        async with open_exchange(server.receive, server.send) as exchange:
            stream = ClientStream(exchange, lambda: b"", 60.0, lambda _: True)
            await stream.start({})
            if sends_all:
                await stream.send_all(chunks())
            else:
                await stream.send(data, more=False)
        assert b"".join(server.bodies) == data
        assert [len(body) for body in server.bodies if body] == expected


@pytest.mark.parametrize("blocked", [CHUNK, PING])
async def test_client_that_reads_nothing_is_cut_off(blocked: bytes) -> None:
    server = SlowServer(blocked)
    async with open_exchange(server.receive, server.send) as exchange:
        stream = ClientStream(exchange, lambda: PING, KEEPALIVE_S, lambda _: True)
        with stream.watch(KEEPALIVE_S, KEEPALIVE_S):
            await stream.start({})
            if blocked is CHUNK:
                await stream.send(CHUNK)
            await asyncio.Event().wait()
    assert server.is_blocked.is_set()
    assert exchange.has_left


@pytest.mark.parametrize(("send_s", "is_cut_off"), [(0.6, False), (0.99, False), (2.01, True)])
def test_client_is_cut_off_that_reads_nothing_for_twice_the_bound(
    send_s: float, is_cut_off: bool
) -> None:
    async def send(message: Message) -> None:
        await asyncio.sleep(send_s)

    async def send_chunks() -> bool:
        async with open_exchange(asyncio.Event().wait, send) as exchange:  # type: ignore[arg-type]
            stream = ClientStream(exchange, lambda: b"", 60.0, lambda _: True)
            with stream.watch(60.0, idle_s=1.0):
                await stream.start({})
                for _ in range(8):
                    await stream.send(CHUNK)
        return exchange.has_left

    with asyncio.Runner(loop_factory=UnloadedLoop) as runner:
        assert runner.run(send_chunks()) is is_cut_off


@pytest.mark.parametrize("blocked", [CHUNK, PING])
async def test_nothing_is_left_of_a_request_that_ends_early(blocked: bytes) -> None:
    server, before = SlowServer(blocked), asyncio.all_tasks()
    async with open_exchange(server.receive, server.send) as exchange:
        stream = ClientStream(exchange, lambda: PING, KEEPALIVE_S, lambda _: True)
        with stream.watch(KEEPALIVE_S, IDLE_S):
            await stream.start({})
            with anyio.move_on_after(20 * KEEPALIVE_S):
                if blocked is CHUNK:
                    await stream.send(CHUNK)
                await asyncio.Event().wait()
    server.release.set()
    await asyncio.sleep(20 * KEEPALIVE_S)
    assert server.is_blocked.is_set()
    assert blocked not in server.bodies
    assert asyncio.all_tasks() == before


async def test_fault_of_the_server_in_a_ping_ends_the_request() -> None:
    async def send(message: Message) -> None:
        if message.get("body") == PING:
            raise RuntimeError

    async def wait_for_a_ping() -> None:
        async with open_exchange(asyncio.Event().wait, send) as exchange:  # type: ignore[arg-type]
            stream = ClientStream(exchange, lambda: PING, KEEPALIVE_S, lambda _: True)
            with stream.watch(KEEPALIVE_S, IDLE_S):
                await stream.start({})
                await asyncio.Event().wait()

    with pytest.raises(RuntimeError):
        await wait_for_a_ping()


def test_pings_are_sent_on_an_event_loop_that_anyio_has_not_started() -> None:
    """As those of servers: outside of a task anyio would find no event loop."""
    pings = asyncio.Semaphore(0)

    async def send(message: Message) -> None:
        if message.get("body") == PING:
            pings.release()

    async def wait_for_pings() -> None:
        async with open_exchange(asyncio.Event().wait, send) as exchange:  # type: ignore[arg-type]
            stream = ClientStream(exchange, lambda: PING, KEEPALIVE_S, lambda _: True)
            with stream.watch(KEEPALIVE_S, IDLE_S):
                for _ in range(3):
                    await pings.acquire()

    asyncio.run(asyncio.wait_for(wait_for_pings(), 30))
