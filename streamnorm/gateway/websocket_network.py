"""Handshakes and WebSockets with upstreams, over aiohttp."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

import aiohttp
from aiohttp import WSMsgType
from aiohttp._websocket.reader import WebSocketDataQueue
from aiohttp.http_websocket import WebSocketReader

from streamnorm.gateway.network import open_session

if TYPE_CHECKING:
    from aiohttp.base_protocol import BaseProtocol
    from aiohttp.connector import Connection
    from aiohttp.http_websocket import WSMessageDecodeText, WSMessageNoDecodeText

# Load balancers and NAT forget a silent connection, after 350 s those of AWS, and report nothing.
_KEEPALIVE = (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3))
_MAX_REFUSAL_BYTES = 64 * 1024
_SWITCHING_PROTOCOLS = 101
_QUEUE_BYTES = 64 * 1024  # twice that stops the reading of a connection


class HandshakeRefused(aiohttp.ClientError):
    """A server refused a WebSocket handshake with an HTTP response.

    Attributes:
        status: HTTP status.
        headers: Headers by lower-case name.
        body: The body, as it came.
    """

    def __init__(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        super().__init__(f"status {status}, expected a WebSocket")
        self.status = status
        self.headers = {name.lower(): value for name, value in headers.items()}
        self.body = body


class _Handshake(aiohttp.ClientResponse):
    """The response to a WebSocket handshake; if a refusal, with its body."""

    async def start(self, connection: Connection) -> aiohttp.ClientResponse:
        """Read the head; if the response is a refusal, read the body, too.

        Raises:
            HandshakeRefused: The response opens no WebSocket; a redirect is not followed, which
                would send the key to another host.
        """
        await super().start(connection)
        if self.status == _SWITCHING_PROTOCOLS:
            return self
        body = b""
        while len(body) < _MAX_REFUSAL_BYTES and (data := await self.content.readany()):
            body += data
        raise HandshakeRefused(self.status, self.headers, body)


class _MessageQueue(WebSocketDataQueue):
    """The messages that a WebSocket has received and its reading task has not.

    A text message behind which none waits is first offered to a function, which spares the wake of
    a task for each event of an answer.

    Args:
        protocol: Receives the bytes of the connection.
        offer: Takes a text message, and returns whether it did; raises nothing.
    """

    def __init__(self, protocol: BaseProtocol, offer: Callable[[bytes], bool]) -> None:
        super().__init__(protocol, _QUEUE_BYTES, loop=asyncio.get_running_loop())
        self._offer = offer
        self._is_waited_for = False  # whether a task waits, and no message for it

    async def read(self) -> WSMessageDecodeText | WSMessageNoDecodeText:
        """Return the next message that was not taken."""
        # What arrives while a message is on its way to the task comes behind that.
        self._is_waited_for = not self._buffer
        return await super().read()

    def feed_data(self, data: WSMessageDecodeText | WSMessageNoDecodeText, size: int) -> None:
        """Add a message unless it was taken at once."""
        if data.type is WSMsgType.TEXT and self._is_waited_for and self._offer(data.data):
            return
        self._is_waited_for = False
        if data.type is WSMsgType.CLOSE:  # behind which none counts
            self.stop_offering()
        super().feed_data(data, size)

    def stop_offering(self) -> None:
        """Leave all further messages to the reading task."""
        self._offer = _take_none


def _take_none(_message: bytes) -> bool:
    return False


class UpstreamSocket(aiohttp.ClientWebSocketResponse[Any]):
    """A WebSocket that can pass text messages on as they arrive."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._queue: _MessageQueue | None = None
        protocol = self._conn and self._conn.protocol
        # A part of a frame that came with the handshake stays in the parser of aiohttp.
        self._is_unread = protocol is not None and not getattr(protocol, "_tail", True)

    def offer_messages(self, offer: Callable[[bytes], bool], max_bytes: int) -> None:
        """Offer each text message to a function, as `_MessageQueue` does.

        Args:
            offer: The function.
            max_bytes: Bound on a message.
        """
        protocol = self._conn and self._conn.protocol
        if protocol is None or not self._is_unread:
            return
        self._reader = self._queue = _MessageQueue(protocol, offer)
        self._parser = WebSocketReader(self._reader, max_bytes, compress=False, decode_text=False)
        protocol.set_parser(self._parser, self._reader)

    def stop_offering(self) -> None:
        """Leave all further messages to `receive`."""
        if self._queue is not None:
            self._queue.stop_offering()


async def connect(
    session: aiohttp.ClientSession, url: str, headers: Mapping[str, str], max_bytes: int
) -> UpstreamSocket:
    """Open a WebSocket to an upstream.

    Args:
        session: Session of `open_socket_session`.
        url: URL of the endpoint.
        headers: Headers of the handshake.
        max_bytes: Bound on a message.

    Raises:
        HandshakeRefused: The server answered without opening a WebSocket.
        aiohttp.ClientError: The connection failed.
    """
    # The class of the session.
    return cast(
        "UpstreamSocket",
        await session.ws_connect(
            url,
            headers=headers,
            max_msg_size=max_bytes,
            # It costs more for each event than it saves, and inflates without a bound.
            compress=0,
            decode_text=False,
        ),
    )


def open_socket_session() -> aiohttp.ClientSession:
    """Return a session for WebSockets to upstreams."""
    connector = aiohttp.TCPConnector(  # pyright: ignore[reportUnknownMemberType] - of aiohttp
        limit=0, force_close=True, socket_factory=new_socket
    )
    return open_session(connector, response_class=_Handshake, socket_class=UpstreamSocket)


def new_socket(address: tuple[int, int, int, str, object]) -> socket.socket:
    """Return a TCP socket with keep-alive, which detects a lost host."""
    family, kind, protocol = address[:3]
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE:
        if hasattr(socket, name):  # which macOS names otherwise
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return made
