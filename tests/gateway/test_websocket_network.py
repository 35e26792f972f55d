"""WebSockets with upstreams: messages that are passed on as they arrive, and those that wait."""

from __future__ import annotations

import asyncio
import base64
import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest
from aiohttp import WSMsgType

from streamnorm.gateway.websocket_network import UpstreamSocket, connect, open_socket_session

_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # RFC 6455, section 1.3
_PING, _CLOSE = b"\x89\x00", b"\x88\x02\x03\xe8"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"  # aiohttp has no other


pytestmark = pytest.mark.anyio


def _frame(text: bytes) -> bytes:
    return bytes([0x81, len(text)]) + text


@asynccontextmanager
async def _opened(with_head: bytes, *reads: bytes) -> AsyncIterator[UpstreamSocket]:
    """Yield a WebSocket to a server.

    Args:
        with_head: What the server sends in one segment with the response to the handshake.
        reads: What it sends afterwards, each once the former was read.
    """

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        key = head.lower().split(b"sec-websocket-key: ")[1].split(b"\r\n")[0]
        start = head.lower().index(key)
        digest = hashlib.sha1(head[start : start + len(key)] + _GUID).digest()  # noqa: S324 - of the protocol
        writer.write(
            b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n"
            b"sec-websocket-accept: %b\r\n\r\n%b" % (base64.b64encode(digest), with_head)
        )
        await begun.wait()
        for data in reads:
            writer.write(data)
            await asyncio.sleep(0.02)
        with suppress(ConnectionError):
            await reader.read()
        writer.close()
        ended.set()

    begun, ended = asyncio.Event(), asyncio.Event()
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    session = open_socket_session()
    try:
        port = server.sockets[0].getsockname()[1]
        opened = await connect(session, f"http://127.0.0.1:{port}/", {}, max_bytes=1000)
        asyncio.get_running_loop().call_soon(begun.set)
        yield opened
    finally:
        await session.close()
        await ended.wait()
        server.close()


class _Taker:
    """Takes messages, as far as it is allowed to."""

    def __init__(self) -> None:
        self.taken: list[bytes] = []
        self.takes = True
        self.has_taken = asyncio.Event()

    def __call__(self, message: bytes) -> bool:
        if self.takes:
            self.taken.append(message)
            self.has_taken.set()
        return self.takes


async def test_messages_are_taken_while_pings_are_answered() -> None:
    taker = _Taker()
    frames = _frame(b"one") + _PING + _frame(b"two")
    async with _opened(b"", frames[:3], frames[3:8], frames[8:], _CLOSE) as opened:
        opened.offer_messages(taker, 1000)
        end = await opened.receive()
    assert taker.taken == [b"one", b"two"]
    assert end.type is WSMsgType.CLOSE


async def test_no_message_is_taken_before_somebody_waits() -> None:
    taker = _Taker()
    async with _opened(b"", _frame(b"one"), _frame(b"two") + _CLOSE) as opened:
        opened.offer_messages(taker, 1000)
        await asyncio.sleep(0.05)
        received = [(await opened.receive()).data for _ in range(2)]
    assert (taker.taken, received) == ([], [b"one", b"two"])


async def test_message_behind_one_that_waits_is_not_taken() -> None:
    taker = _Taker()
    taker.takes = False
    async with _opened(b"", _frame(b"one"), _frame(b"two") + _frame(b"three")) as opened:
        opened.offer_messages(taker, 1000)
        received = [(await opened.receive()).data]
        taker.takes = True
        await asyncio.sleep(0.05)
        received += [(await opened.receive()).data for _ in range(2)]
    assert (taker.taken, received) == ([], [b"one", b"two", b"three"])


async def test_messages_behind_one_that_fills_the_queue_keep_their_order() -> None:
    """aiohttp parses the rest of a read before it returns the message that made it stop."""
    large = b"1" * 200_000
    frames = [b"\x81\x7f" + len(large).to_bytes(8, "big") + large, _frame(b"2"), _frame(b"3")]
    received: list[bytes] = []

    def take(message: bytes) -> bool:
        if len(message) > 9:
            return False
        received.append(message)
        return True

    async with _opened(b"", b"".join(frames), _CLOSE) as opened:
        opened.offer_messages(take, 1_000_000)
        while (message := await opened.receive()).type is WSMsgType.TEXT:
            received.append(message.data)
    assert received == [large, b"2", b"3"]


async def test_message_behind_a_close_is_not_taken() -> None:
    taker = _Taker()
    async with _opened(b"", _frame(b"one") + _CLOSE, _frame(b"two")) as opened:
        opened.offer_messages(taker, 1000)
        end = await opened.receive()
        await asyncio.sleep(0.05)
    assert (taker.taken, end.type) == ([b"one"], WSMsgType.CLOSE)


@pytest.mark.parametrize("cut", range(1, 8))
async def test_message_that_came_with_the_handshake_is_received(cut: int) -> None:
    taker = _Taker()
    frames = _frame(b"one") + _frame(b"two")
    async with _opened(frames[:cut], frames[cut:]) as opened:
        opened.offer_messages(taker, 1000)
        received = [(await opened.receive()).data for _ in range(2)]
        opened.stop_offering()
    assert (taker.taken, received) == ([], [b"one", b"two"])


async def test_message_beyond_the_bound_is_an_error() -> None:
    taker = _Taker()
    async with _opened(b"", _frame(b"one"), b"\x81\x7e\x04\x00" + b"x" * 1024) as opened:
        opened.offer_messages(taker, 1000)
        end = await opened.receive()
    assert (taker.taken, end.type) == ([b"one"], WSMsgType.ERROR)


async def test_after_stop_messages_are_received() -> None:
    taker = _Taker()
    async with _opened(b"", _frame(b"one"), _frame(b"two")) as opened:
        opened.offer_messages(taker, 1000)
        receiving = asyncio.create_task(opened.receive())
        await taker.has_taken.wait()
        opened.stop_offering()
        message = await receiving
    assert (taker.taken, message.data) == ([b"one"], b"two")
