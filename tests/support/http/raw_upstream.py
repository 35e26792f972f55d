"""Upstream on a raw socket that also sends unrequested bytes."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from support.http.loopback import HEAD, chunked
from support.openai_chat.chunks import DONE, chunk

__all__ = ["LAST_CHUNK", "ChattyUpstream", "json_response", "stream_pieces"]

LAST_CHUNK = b"0\r\n\r\n"
_FIELDS: dict[str, Any] = {"object": "chat.completion.chunk", "created": 1, "id": "c", "model": "m"}


def json_response(text: str, *, status: str = "200 OK", headers: str = "") -> bytes:
    """Return a whole Chat Completions response over HTTP/1.1."""
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    body = json.dumps(
        {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
    )
    head = f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\n{headers}"
    return f"{head}content-length: {len(body)}\r\n\r\n{body}".encode()


def stream_pieces(text: str) -> tuple[bytes, bytes]:
    """Return a stream's first event over HTTP/1.1, and the remaining bytes."""
    first = HEAD + chunked(chunk({"role": "assistant", "content": text}, **_FIELDS))
    rest = chunked(chunk({}, "stop", **_FIELDS)) + chunked(DONE) + LAST_CHUNK
    return first, rest


class ChattyUpstream:
    """A Chat Completions server that echoes each request's text.

    Attributes:
        url: Its base URL.
        connections: The connections that it accepted, the oldest first.
        asked: For each request, the number of its connection and its text.
        heads: The heads of the requests.
        greeting: Sent on each new connection.
        extra: Sent behind the answer to the first request, in the same segment.
        status: Status of whole answers.
        accepted: Set when a connection was accepted and greeted.
        gate: Set when the rest of a stream may be sent; the first event is sent at once.
    """

    def __init__(self) -> None:
        self.url = ""
        self.connections: list[asyncio.StreamWriter] = []
        self.asked: list[tuple[int, str]] = []
        self.heads: list[bytes] = []
        self.greeting = b""
        self.extra = b""
        self.status = "200 OK"
        self.accepted = asyncio.Event()
        self.gate = asyncio.Event()

    def send(self, data: bytes, connection: int = 0) -> None:
        """Send bytes, and wait until the client's receive buffer has them."""
        self.connections[connection].write(data)

    @asynccontextmanager
    async def running(self, context: ssl.SSLContext | None = None) -> AsyncIterator[ChattyUpstream]:
        """Serve, over TLS if a context is given, while the context is open."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=context)
        scheme = "http" if context is None else "https"
        self.url = f"{scheme}://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        try:
            yield self
        finally:
            server.close()
            for writer in self.connections:
                writer.close()
            await server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number = len(self.connections)
        self.connections.append(writer)
        if self.greeting:
            writer.write(self.greeting)
        self.accepted.set()
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                await self._answer(number, reader, writer)

    async def _answer(
        self, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
        body: Any = json.loads(await reader.readexactly(int(length)))
        text = body["messages"][-1]["content"]
        self.asked.append((number, text))
        self.heads.append(head)
        extra, self.extra = self.extra, b""
        if body.get("stream"):
            first, rest = stream_pieces(text)
            writer.write(first)
            await self.gate.wait()
            writer.write(rest + extra)
        else:
            writer.write(json_response(text, status=self.status) + extra)
        await writer.drain()
