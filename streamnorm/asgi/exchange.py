"""One ASGI request: its sending half, the watch for a disconnect, and pings during silence."""

from __future__ import annotations

from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Mapping,
    MutableMapping,
)
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

import anyio
from anyio.abc import TaskGroup

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]

_DISCONNECT_S = 0.02  # in which a server that has closed a connection says so
_MAX_SENT_BYTES = 1024 * 1024  # at once: servers copy what they send, in the loop

EVENT_STREAM_HEADERS = {
    "content-type": "text/event-stream; charset=utf-8",
    # nginx with `gzip on` collects what it compresses; `no-transform` forbids that (RFC 9111,
    # section 5.2.2.6).
    "cache-control": "no-cache, no-transform",
    "x-accel-buffering": "no",  # nginx would collect the stream
}
"""Headers of a response that is an event stream."""


@asynccontextmanager
async def open_exchange(
    receive: Receive, send: Send, *, cancels: bool = True
) -> AsyncGenerator[Exchange]:
    """Provide the exchange of one request; a client disconnect cancels the `async with` block.

    Args:
        receive: The server's `receive`; the request's body need not have been read.
        send: The server's `send`.
        cancels: Whether a disconnect cancels; if not, later sends are ignored.
    """
    try:
        async with anyio.create_task_group() as tasks:
            exchange = Exchange(send, tasks, cancels=cancels)
            # Only `receive` reports a disconnect: without a call to it the upstream generates on
            # (uvicorn 0.54 and hypercorn 0.18, measured 2026-11-21).
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
            # uvicorn ignores what is sent to a client that has left; ASGI 2.4 raises `OSError`.
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


class EventSender:
    """Sends the chunks of a stream, and a ping after each `keepalive_s` of silence.

    A ping never overlaps with a chunk, as a server blocks a send while its write buffer is full:
    a chunk waits for the ping before it, and no ping is sent meanwhile.  Two flags do that, since
    a lock or a timer for each chunk would cost more than the rest of its sending.

    Args:
        exchange: The exchange to send on.
        ping: Returns a ping in the client's dialect; empty once the stream has ended, or if the
            dialect has none.
        keepalive_s: Seconds from the end of one send to the next ping.
        clock: Returns the time in seconds.

    Attributes:
        ping: As above; may be replaced.
    """

    def __init__(
        self,
        exchange: Exchange,
        ping: Callable[[], bytes],
        keepalive_s: float,
        clock: Callable[[], float] = anyio.current_time,
    ) -> None:
        self.ping = ping
        self._exchange = exchange
        self._keepalive_s = keepalive_s
        self._clock = clock
        self._sent_at = clock()
        self._is_sending = False  # set before a chunk waits for a ping, so that none follows it
        self._is_ended = False
        self._pinged: anyio.Event | None = None  # set at the end of the ping that is being sent

    async def send(self, data: bytes, *, more: bool = True) -> None:
        """Send a chunk; `more=False` completes the response."""
        self._is_sending = True
        if self._pinged is not None:
            await self._pinged.wait()
        self._is_ended = not more
        if len(data) > _MAX_SENT_BYTES:
            data = await self._send_all_but_the_end(data)
        await self._exchange.send(data, more=more)
        self._sent_at = self._clock()
        self._is_sending = False

    async def send_all(self, chunks: AsyncIterator[bytes]) -> None:
        """Send chunks, as `send` does, and complete the response."""
        send, now = self._exchange.send, self._clock
        async for chunk in chunks:
            self._is_sending = True
            if self._pinged is not None:
                await self._pinged.wait()
            if len(chunk) > _MAX_SENT_BYTES:
                chunk = await self._send_all_but_the_end(chunk)
            await send(chunk)
            self._sent_at = now()
            self._is_sending = False
        await self.send(b"", more=False)

    async def keep_alive(self) -> None:
        """Send pings until the stream ends, or `ping` returns an empty one."""
        while True:
            await anyio.sleep(max(self._remaining_silence_s(), 0))
            # Claude Code ends a stream that is silent for 20 s, proxies one of 60 s.
            if self._remaining_silence_s() <= 0 and not await self._send_ping():
                return

    def _remaining_silence_s(self) -> float:
        """Return the seconds of silence left until the next ping."""
        # A ping within an event would be a part of its data.
        if self._is_sending:
            return self._keepalive_s
        return self._sent_at + self._keepalive_s - self._clock()

    async def _send_ping(self) -> bool:
        """Send a ping unless a chunk is being sent; return False after the last ping."""
        if self._is_sending:
            return True
        ping = b"" if self._is_ended else self.ping()
        if not ping:
            return False
        self._pinged = anyio.Event()
        await self._begin()
        await self._exchange.send(ping)
        self._sent_at = self._clock()
        self._pinged.set()
        self._pinged = None
        return True

    async def _begin(self) -> None:
        """Called before each ping; a subclass may have to send the status first."""

    async def _send_all_but_the_end(self, data: bytes) -> bytes:
        """Send a large chunk in pieces, and return the last of them."""
        last = (len(data) - 1) // _MAX_SENT_BYTES * _MAX_SENT_BYTES
        for start in range(0, last, _MAX_SENT_BYTES):
            await self._exchange.send(data[start : start + _MAX_SENT_BYTES])
            self._sent_at = self._clock()
        return data[last:]


def encode_headers(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    """Return headers as an ASGI server reads them."""
    return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
