"""A proxy in front of a gateway that records clients' WebSocket messages and can cut."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from websockets.frames import Frame
from websockets.http11 import Request
from websockets.server import ServerProtocol

__all__ = ["SentCreate", "SocketTap"]


class SentCreate(NamedTuple):
    """A `response.create` sent by a client.

    Attributes:
        connection: Number of its connection, from 1.
        message: The message.
    """

    connection: int
    message: dict[str, Any]


class SocketTap:
    """A byte proxy that records creates.

    Args:
        url: URL of the gateway, without a path.
        cut_at: Number of the create, from 1, at whose first event the connection is reset;
            0 for none.
        on_event: Called at the first event of each create's answer, with the create's number.

    Attributes:
        url: URL of the proxy, without a path.
        creates: The creates that clients have sent, in order.
    """

    def __init__(
        self, url: str, cut_at: int = 0, on_event: Callable[[int], None] = lambda number: None
    ) -> None:
        self.url = ""
        self.creates: list[SentCreate] = []
        self._address = (urlsplit(url).hostname, urlsplit(url).port)
        self._cut_at = cut_at
        self._on_event = on_event
        self._connections = 0

    @asynccontextmanager
    async def running(self) -> AsyncIterator[SocketTap]:
        """Serve on a loopback port."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        try:
            yield self
        finally:
            server.close()

    async def _serve(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        gateway, to_gateway = await asyncio.open_connection(*self._address)
        number = 0  # of the create that has no event yet
        connection = 0
        reader = ServerProtocol(max_size=None)

        def read(data: bytes) -> None:
            nonlocal connection, number
            reader.receive_data(data)
            for event in reader.events_received():
                if isinstance(event, Request):
                    reader.send_response(reader.accept(event))
                    self._connections += 1
                    connection = self._connections
                elif isinstance(event, Frame) and event.data[:1] == b"{":
                    message = json.loads(bytes(event.data))
                    if message["type"] == "response.create":
                        self.creates.append(SentCreate(connection, message))
                        number = len(self.creates)
            reader.data_to_send()  # the gateway answers

        def write(_: bytes) -> None:
            nonlocal number
            answered, number = number, 0
            if not answered:
                return
            self._on_event(answered)
            if answered == self._cut_at:
                to_client.transport.abort()
                to_gateway.transport.abort()

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(_copy(client, to_gateway, read))
            tasks.create_task(_copy(gateway, to_client, write))


async def _copy(
    source: asyncio.StreamReader, target: asyncio.StreamWriter, look: Callable[[bytes], None]
) -> None:
    """Copy all bytes, then close the other side."""
    with suppress(OSError):
        while data := await source.read(65536):
            look(data)
            target.write(data)
            await target.drain()
    target.close()
