"""One ASGI request: the sending half, and the watch for the client's disconnect."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

import anyio
from anyio.abc import TaskGroup

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]

_DISCONNECT_S = 0.02  # in which a server that has closed a connection says so


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
        send: The server's `send`.  An `OSError` from it means that the client disconnected, and
            so does any error if the connection is closed.
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
        except Exception as exc:
            if not await self._lose_client(exc):
                raise

    async def send(self, body: bytes, *, more: bool = True) -> None:
        """Send a chunk of the body; `more=False` completes the response."""
        if self.has_left and not self._cancels:
            return
        try:
            await self._server_send({"type": "http.response.body", "body": body, "more_body": more})
        except Exception as exc:
            if not await self._lose_client(exc):
                raise

    def leave(self) -> None:
        """Note that the client has disconnected."""
        self.has_left = True
        if self._cancels:
            self.tasks.cancel_scope.cancel()

    async def _lose_client(self, exc: Exception) -> bool:
        """Handle a failed send; return whether the client has disconnected."""
        if not _is_of_closed_transport(exc):
            # uvicorn closes a connection after an answer of its own to a wrong chunk, and reports
            # that a moment later; until then h11 refuses ours.
            await anyio.sleep(_DISCONNECT_S)
            return self.has_left
        self.leave()
        if self._cancels:
            await anyio.sleep_forever()
        return True


def _is_of_closed_transport(exc: Exception) -> bool:
    """Return whether a send failed because the connection is closed."""
    # The second is uvloop's, where uvicorn does not check for the end of a connection.
    is_of_uvloop = isinstance(exc, RuntimeError) and "handler is closed" in str(exc)
    return isinstance(exc, OSError) or is_of_uvloop


async def _watch_disconnect(receive: Receive, exchange: Exchange) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    exchange.leave()
