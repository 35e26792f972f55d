"""One request and its answer, as an ASGI server gives them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, MutableMapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import Any, TypeAlias

import anyio
from anyio.abc import TaskGroup

__all__ = ["Exchange", "Message", "Receive", "Scope", "Send", "exchanging"]

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]


@asynccontextmanager
async def exchanging(
    receive: Receive, send: Send, *, pings: bool = False
) -> AsyncGenerator[Exchange]:
    """Give the sending half of a request, and stop what is done with it when the client leaves.

    Args:
        receive: The server's; the request's body need not have been read.
        send: The server's.
        pings: Whether `keep_alive` will be called.
    """
    try:
        async with anyio.create_task_group() as tasks:
            exchange = Exchange(send, tasks, pings=pings)
            tasks.start_soon(exchange.watch, receive)
            yield exchange
            tasks.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        # One of our own tasks failed; who called us knows nothing of tasks.
        raise group.exceptions[0] from group.exceptions[0].__cause__


class Exchange:
    """The sending half of one request.

    Args:
        send: The server's.
        tasks: All that goes on for the request; cancelled when the client leaves.
        pings: Whether `keep_alive` will be running.
    """

    def __init__(self, send: Send, tasks: TaskGroup, *, pings: bool) -> None:
        self._send = send
        self._tasks = tasks
        # A ping may not cut in on a send that is blocked.
        self._turn: AbstractAsyncContextManager[None] = anyio.Lock() if pings else nullcontext()
        self._sent_at = 0.0

    async def watch(self, receive: Receive) -> None:
        """Stop everything when the client leaves."""
        while (await receive())["type"] != "http.disconnect":
            pass
        self._tasks.cancel_scope.cancel()

    def keep_alive(self, ping: Callable[[], bytes], interval_s: float) -> None:
        """Send a ping whenever nothing was sent for a while, as long as there is one."""
        self._tasks.start_soon(self._keep_alive, ping, interval_s)

    async def _keep_alive(self, ping: Callable[[], bytes], interval_s: float) -> None:
        rest_s: float | None = interval_s
        while rest_s is not None:
            await anyio.sleep(rest_s)
            rest_s = await self._fill_silence(ping, interval_s)

    async def _fill_silence(self, ping: Callable[[], bytes], interval_s: float) -> float | None:
        """Send a ping if it is time, and return the seconds until the next; None for never."""
        async with self._turn:
            rest_s = self._sent_at + interval_s - anyio.current_time()
            if rest_s > 0:
                return rest_s
            body = ping()
            if not body:
                return None
            await self._send_body(body, more=True)
            return interval_s

    async def start(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        """Send the head of the response."""
        await self._emit({"type": "http.response.start", "status": status, "headers": headers})

    async def send(self, body: bytes, *, more: bool = True) -> None:
        """Send a piece of the body."""
        async with self._turn:
            await self._send_body(body, more=more)

    async def _send_body(self, body: bytes, *, more: bool) -> None:
        await self._emit({"type": "http.response.body", "body": body, "more_body": more})
        self._sent_at = anyio.current_time()

    async def _emit(self, message: Message) -> None:
        try:
            await self._send(message)
        except OSError:  # the client has left
            self._tasks.cancel_scope.cancel()
            await anyio.sleep_forever()
