"""Client connections parsed by httptools, with a size limit for request heads."""

from __future__ import annotations

from collections.abc import Awaitable
from http import HTTPStatus
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from streamnorm.asgi.responses import Message
from streamnorm.asgi.writing import WritingSend
from streamnorm.cli.server import MAX_HEAD_BYTES, Connection, Connections, Part


class HttpToolsConnection(Connection, HttpToolsProtocol):
    """A client connection whose bytes httptools parses."""

    def __init__(self, connections: Connections, **settings: Any) -> None:
        super().__init__(connections, **settings)
        self._unfinished = Part.NONE
        self._unparsed_bytes = 0  # since the last whole head or part of a body
        self._running: Any = None  # the request that is being answered; `cycle` is the last one

    def data_received(self, data: bytes) -> None:
        """Parse bytes of requests; refuse a head above the size limit."""
        self._unparsed_bytes += len(data)
        super().data_received(data)
        if self._unparsed_bytes > MAX_HEAD_BYTES and not self.transport.is_closing():
            self.refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "The head is too large.")

    def connection_lost(self, exc: Exception | None) -> None:
        """Report the disconnect to the request being answered.

        uvicorn reports it to the last one, which may wait behind that.
        """
        super().connection_lost(exc)
        running = self._running
        if running is not None and not running.response_complete:
            running.disconnected = True
            running.message_event.set()

    def find_unfinished(self) -> Part:
        """Return the incomplete part of the last request."""
        return self._unfinished

    # Called by the parser

    def on_message_begin(self) -> None:
        """Start the head of a request."""
        self._unfinished = Part.HEAD
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """End the head of a request, and start answering it."""
        self._unfinished, self._unparsed_bytes = Part.BODY, 0
        super().on_headers_complete()
        # Trailers are no headers of the request, which the application has.  A request that
        # becomes a WebSocket has none, and its headers are read again.
        if not self._should_upgrade():
            self.headers = []

    def on_body(self, body: bytes) -> None:
        """Add a piece of the body to its request."""
        self._unparsed_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """End a request."""
        self._unfinished = Part.NONE
        super().on_message_complete()

    # Called by uvicorn

    def _start_asgi_task(self, cycle: Any, app: Any) -> None:
        self._running = cycle

        async def answer(scope: Any, receive: Any, _send: Any) -> None:
            await app(scope, receive, _CycleSend(cycle))

        super()._start_asgi_task(cycle, answer)


class _CycleSend(WritingSend):
    """The `send` of a request of uvicorn, called `cycle` there."""

    def __init__(self, cycle: Any) -> None:
        self._cycle = cycle

    def __call__(self, message: Message) -> Awaitable[None]:
        sending: Awaitable[None] = self._cycle.send(message)
        return sending

    def write(self, body: bytes) -> bool:
        """Write a chunk unless the client reads too slowly, or the body has no chunks."""
        cycle = self._cycle
        if cycle.flow.write_paused or not cycle.chunked_encoding:
            return False
        if cycle.disconnected or cycle.response_complete:
            return False
        if body:  # an empty chunk would end it
            cycle.transport.write(b"%x\r\n%b\r\n" % (len(body), body))
        return True
