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
async def open_exchange(receive: Receive, send: Send) -> AsyncGenerator[Exchange]:
    """Provide the exchange of one request; a client disconnect cancels what runs inside.

    Args:
        receive: The server's `receive`; the request's body need not have been read.
        send: The server's `send`.
    """
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_watch_disconnect, receive, tasks)
            yield Exchange(send, tasks)
            tasks.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        # Callers handle the error itself; the task group is an implementation detail.
        raise group.exceptions[0] from group.exceptions[0].__cause__


class Exchange:
    """The sending half of one request.

    Args:
        send: The server's `send`.  An `OSError` from it means that the client disconnected.
        tasks: Task group of the request.

    Attributes:
        tasks: Task group of the request, cancelled once it is answered or the client
            disconnects.
    """

    def __init__(self, send: Send, tasks: TaskGroup) -> None:
        self.tasks = tasks
        self._server_send = send

    async def start(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        """Send status and headers."""
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def send(self, body: bytes, *, more: bool = True) -> None:
        """Send a chunk of the body; `more=False` completes the response."""
        await self._send({"type": "http.response.body", "body": body, "more_body": more})

    async def _send(self, message: Message) -> None:
        try:
            await self._server_send(message)
        except OSError:  # the client disconnected
            self.tasks.cancel_scope.cancel()
            await anyio.sleep_forever()


async def _watch_disconnect(receive: Receive, tasks: TaskGroup) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    tasks.cancel_scope.cancel()
