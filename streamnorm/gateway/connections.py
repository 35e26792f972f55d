"""Connections to upstreams, used again only while nothing is on them that was not asked for.

HTTP/1.1 matches responses to requests by their order alone.  A response that an upstream sends
without a request (a second one, a late 408) would answer the next request on the connection,
which may be that of another client.  So a connection is closed once a byte arrives while no
request is on it: behind the end of a response, while it is idle, and before the first byte of the
next request is written.  What arrives after that byte cannot be told apart from its response
(RFC 9112, section 9.2).
"""

from __future__ import annotations

import asyncio
import select
import sys
from functools import partial
from typing import TYPE_CHECKING

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.http_exceptions import HttpProcessingError

from streamnorm._core.errors import LocalProtocolError

if TYPE_CHECKING:
    from aiohttp.abc import AbstractStreamWriter
    from aiohttp.connector import Connection
    from aiohttp.http import RawResponseMessage
    from aiohttp.streams import StreamReader
    from aiohttp.tracing import Trace


_REQUEST_TIMEOUT = 408
_SWITCHING_PROTOCOLS = 101


class UnrequestedBytes(aiohttp.ClientConnectionError):
    """Bytes arrived on a connection before the first byte of a request; none of it was sent.

    Attributes:
        is_new: Whether the connection had no request before.
    """

    def __init__(self, *, is_new: bool) -> None:
        super().__init__("bytes of the server before the request, expected none")
        self.is_new = is_new


class _Protocol(ResponseHandler):
    """The connection to one upstream.

    Attributes:
        is_new: Whether no request was written.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self.is_new = True
        self._is_asked = False  # a request was written, and its response has not ended
        self._has_response = False  # the head of that response, not an informational one, is read
        self._has_more = False  # another head was read behind it

    def begin_request(self) -> None:
        """Expect the response of a request whose first byte is written next.

        Raises:
            UnrequestedBytes: Bytes have arrived, which belong to no request.
        """
        if self.has_unrequested_bytes():
            self._drop()
            raise UnrequestedBytes(is_new=self.is_new)
        self._is_asked, self.is_new = True, False
        self._has_response = self._has_more = False

    def has_unrequested_bytes(self) -> bool:
        """Return whether bytes have arrived since the last response, or the connection is closed.

        Those that the loop has not read are in the buffer of the socket.
        """
        transport = self.transport
        if transport is None or transport.is_closing():
            return True
        if self.is_new and transport.get_extra_info("ssl_object") is not None:
            return False  # TLS 1.3: session tickets follow the handshake, as bytes of the socket
        return _is_readable(transport.get_extra_info("socket").fileno())

    def feed_data(self, data: tuple[RawResponseMessage, StreamReader], size: int = 0) -> None:
        """Queue a response whose head was read; all heads of one segment come after its parsing."""
        code = data[0].code
        if self._has_response:
            self._has_more = True
        elif not 100 <= code <= 199 or code == _SWITCHING_PROTOCOLS:
            self._has_response = True
            if code == _REQUEST_TIMEOUT:
                # It may have been sent before the request arrived, whose response then follows.
                self.force_close()
        super().feed_data(data, size)

    def data_received(self, data: bytes) -> None:
        """Parse bytes of a response; close the connection if no request expects one."""
        if self._is_asked:
            super().data_received(data)
            body = self._payload  # of the last head
            if self._has_more or (self._has_response and (body is None or body.is_eof())):
                self._end_response()
        elif data:  # without any, aiohttp resumes reading
            self._drop()

    def _end_response(self) -> None:
        self._is_asked = False
        # Nothing may follow in the segment with the end of the response.  If a part of a head does,
        # two blank lines complete it or break it; between two messages, the parsers ignore them.
        # They end in LF alone, which aiohttp's parser in Python expects of servers.
        if not (self._has_more or self.upgraded or self._parser is None):
            try:
                heads, _, _ = self._parser.feed_data(b"\n\n")
                self._has_more = bool(heads)
            except HttpProcessingError:
                self._has_more = True
        if self._has_more:
            self._drop()

    def _drop(self) -> None:
        """Close the connection; a request that waits for it fails."""
        self.close()
        self.set_exception(UnrequestedBytes(is_new=self.is_new))


class Connector(aiohttp.TCPConnector):
    """A pool of connections without a bound: no client waits for the stream of another.

    Args:
        reuse: Whether a connection serves one request after the other.
    """

    def __init__(self, *, reuse: bool = True) -> None:
        super().__init__(limit=0, force_close=not reuse)  # pyright: ignore[reportUnknownMemberType] - of aiohttp
        # aiohttp has no parameter for it.
        self._factory = partial(_new_protocol, asyncio.get_running_loop())

    async def connect(
        self,
        req: aiohttp.ClientRequest,
        traces: list[Trace],
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109 - of aiohttp
    ) -> Connection:
        """Return a connection on which nothing has arrived, an idle one or else a new one."""
        while True:
            connection = await super().connect(req, traces, timeout)
            protocol = _protocol_of(connection)
            # A new one is checked when the request is written.
            if protocol.is_new or not protocol.has_unrequested_bytes():
                return connection
            connection.close()


class Request(aiohttp.ClientRequest):
    """A request that is written to a connection only if nothing has arrived on it."""

    async def send(self, conn: Connection) -> aiohttp.ClientResponse:
        """Write a request; its body is written by a task, with the head before it."""
        if not self.body:
            _protocol_of(conn).begin_request()
        return await super().send(conn)

    async def write_bytes(
        self, writer: AbstractStreamWriter, conn: Connection, content_length: int | None = None
    ) -> None:
        """Write head and body, unless bytes have arrived: the wait for the head then fails."""
        try:
            if self.body:
                _protocol_of(conn).begin_request()
        except UnrequestedBytes:
            return
        await super().write_bytes(writer, conn, content_length)


def _new_protocol(loop: asyncio.AbstractEventLoop) -> ResponseHandler:
    return _Protocol(loop)


def _protocol_of(connection: Connection) -> _Protocol:
    protocol = connection.protocol
    if not isinstance(protocol, _Protocol):
        raise LocalProtocolError("a connection of another connector, expected one of `Connector`")
    return protocol


def _is_readable(descriptor: int) -> bool:
    """Return whether a socket has bytes that were not read, or its end."""
    if sys.platform == "win32":
        return bool(select.select([descriptor], [], [], 0)[0])
    # `select` knows no descriptor above 1,023.
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(0))
