"""A loopback server with scripted answers, for tests with real connections."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
from anyio.abc import SocketAttribute, SocketStream

__all__ = ["HEAD", "Server", "chunked"]

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def chunked(data: bytes) -> bytes:
    """Return a chunk of a chunked body."""
    return b"%x\r\n%b\r\n" % (len(data), data)


class Server:
    """A loopback server with scripted answers, which notices disconnects.

    Attributes:
        url: Where it listens.
        requests: The requests it read.
        connections: How many it accepted.
        asked: Set when it has read a request.
        left: Set when a client has hung up.
    """

    def __init__(self, answer: list[bytes], *, stays_open: bool = False) -> None:
        self.url = ""
        self.requests: list[bytes] = []
        self.connections = 0
        self.asked = anyio.Event()
        self.left = anyio.Event()
        self._answer = answer
        self._stays_open = stays_open

    async def serve(self, socket: SocketStream) -> None:
        self.connections += 1
        async with socket:
            try:
                while True:
                    await self._respond(socket)
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                self.left.set()

    async def _respond(self, socket: SocketStream) -> None:
        request = await socket.receive()
        while not _is_whole(request):
            request += await socket.receive()
        self.requests.append(request)
        self.asked.set()
        for piece in self._answer:
            await socket.send(piece)
        if self._stays_open:
            await socket.receive()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Server]:
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
        port = listener.extra(SocketAttribute.local_port)  # noqa: S610 - of anyio
        self.url = f"http://127.0.0.1:{port}/v1"
        async with listener, anyio.create_task_group() as tasks:
            tasks.start_soon(listener.serve, self.serve)
            yield self
            tasks.cancel_scope.cancel()


def _is_whole(request: bytes) -> bool:
    head, blank, body = request.partition(b"\r\n\r\n")
    length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
    return bool(blank) and len(body) == int(length or b"0")
