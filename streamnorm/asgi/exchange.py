"""One ASGI request: the sending half, and the watch for the client's disconnect."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

import anyio
from anyio.abc import TaskGroup

__all__ = ["Exchange", "Message", "Receive", "Scope", "Send", "open_exchange"]

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]


@asynccontextmanager
async def open_exchange(
    receive: Receive, send: Send, *, cancels: bool = True
) -> AsyncGenerator[Exchange]:
    """Provide the exchange of one request; a client disconnect cancels what runs inside.

    Args:
        receive: The server's `receive`; the request's body need not have been read.
        send: The server's `send`.
        cancels: Whether a disconnect does so; if not, what is sent after it is ignored.
    """
    try:
        async with anyio.create_task_group() as tasks:
            exchange = Exchange(send, tasks, cancels=cancels)
            tasks.start_soon(_watch_disconnect, receive, exchange)
            yield exchange
            tasks.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        # Callers handle the error itself; the task group is an implementation detail.
        raise group.exceptions[0] from group.exceptions[0].__cause__


class Exchange:
    """The sending half of one request.

    Args:
        send: The server's `send`.  An `OSError` from it means that the client disconnected.
        tasks: Task group of the request.
        cancels: Whether a disconnect cancels it.

    Attributes:
        tasks: Task group of the request, cancelled once it is answered or the client
            disconnects.
        has_left: Whether the client has disconnected.
    """

    def __init__(self, send: Send, tasks: TaskGroup, *, cancels: bool = True) -> None:
        self.tasks = tasks
        self.has_left = False
        self._server_send = send
        self._cancels = cancels

    async def start(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        """Send status and headers."""
        if self.has_left and not self._cancels:
            return
        try:
            await self._server_send(
                {"type": "http.response.start", "status": status, "headers": headers}
            )
        except OSError:
            await self._lose_client()

    async def send(self, body: bytes, *, more: bool = True) -> None:
        """Send a chunk of the body; `more=False` completes the response."""
        if self.has_left and not self._cancels:
            return
        try:
            await self._server_send({"type": "http.response.body", "body": body, "more_body": more})
        except OSError:
            await self._lose_client()

    def leave(self) -> None:
        """Note that the client has disconnected."""
        self.has_left = True
        if self._cancels:
            self.tasks.cancel_scope.cancel()

    async def _lose_client(self) -> None:
        """Handle a failed send: the client has disconnected."""
        self.leave()
        if self._cancels:
            await anyio.sleep_forever()


async def _watch_disconnect(receive: Receive, exchange: Exchange) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    exchange.leave()
