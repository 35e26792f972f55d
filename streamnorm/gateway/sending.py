"""The answer to one client: a stream with pings while it is silent, or a whole body."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping

from streamnorm.asgi.error_response import send_json
from streamnorm.asgi.exchange import Exchange

__all__ = ["ClientStream", "raw_headers"]

_JSON = {"content-type": "application/json"}
_HEADERS = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-cache, no-transform",
    "x-accel-buffering": "no",  # nginx would collect the stream
}


class ClientStream:
    """The answer to one client, which is a stream unless `refuse` comes first.

    Args:
        exchange: The client's request.
        ping: Returns a ping in the client's dialect; empty once the stream has ended.
        keepalive_s: Seconds of silence after which a ping is sent.
        may_start: Returns whether a ping may be sent, and status 200 before it, although no
            upstream has begun; called with the seconds since the request.

    Attributes:
        is_started: Whether status 200 was sent.
        ping: As above; replaced once an upstream has begun.
    """

    def __init__(
        self,
        exchange: Exchange,
        ping: Callable[[], bytes],
        keepalive_s: float,
        may_start: Callable[[float], bool],
    ) -> None:
        self.is_started = False
        self.ping = ping
        self._exchange = exchange
        self._keepalive_s = keepalive_s
        self._may_start = may_start
        self._is_ended = False
        self._loop = asyncio.get_running_loop()
        self._began_at = self._sent_at = self._loop.time()
        # A server blocks a send while its write buffer is full.  A chunk waits for the ping
        # before it; no ping is sent meanwhile.  To acquire a lock for each chunk would cost more
        # than all else that is done here.
        self._ping_lock = asyncio.Lock()
        self._is_sending = False

    async def start(self, headers: Mapping[str, str]) -> None:
        """Send status 200, unless that was done."""
        await self._wait_for_ping()
        self._is_sending = True
        await self._start(headers)
        self._is_sending = False

    async def send(self, data: bytes, *, more: bool = True) -> None:
        """Send a chunk; `more=False` completes the response."""
        if self._ping_lock.locked():
            await self._wait_for_ping()
        self._is_sending = True
        self._is_ended = not more
        await self._exchange.send(data, more=more)
        self._sent_at = self._loop.time()
        self._is_sending = False

    async def send_all(self, chunks: AsyncIterator[bytes]) -> None:
        """Send chunks, as `send` does, and complete the response."""
        send, now = self._exchange.send, self._loop.time
        async for chunk in chunks:
            if self._ping_lock.locked():
                await self._wait_for_ping()
            self._is_sending = True
            await send(chunk)
            self._sent_at = now()
            self._is_sending = False
        await self.send(b"", more=False)

    async def send_body(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        """Send a JSON body in place of a stream."""
        await self._wait_for_ping()
        self._is_sending = self._is_ended = True
        await send_json(self._exchange, status, raw_headers({**headers, **_JSON}), body)

    async def keep_alive(self, look_s: float) -> None:
        """Send pings until the stream has ended or the client has left.

        Args:
            look_s: Seconds after which `may_start` is asked for the first time, and again
                until a ping may be sent.
        """
        await asyncio.sleep(look_s)
        while True:
            async with self._ping_lock:
                if self._is_ended or self._exchange.has_left:
                    return
                now = self._loop.time()
                if self._is_sending:
                    next_look = now + self._keepalive_s
                elif not self.is_started and not self._may_start(now - self._began_at):
                    next_look = now + look_s
                elif self.is_started and now < self._sent_at + self._keepalive_s:
                    next_look = self._sent_at + self._keepalive_s
                elif ping := self.ping():
                    await self._start({})
                    await self._exchange.send(ping)
                    self._sent_at = self._loop.time()
                    next_look = self._sent_at + self._keepalive_s
                else:
                    return
            await asyncio.sleep(max(0.0, next_look - self._loop.time()))

    async def cut_off(self, idle_s: float) -> None:
        """Cancel the request once its client has read nothing for a time.

        Else a client that never reads holds its upstream, and its place among the requests,
        for as long as its connection lives.

        Args:
            idle_s: Seconds that the client has at least; at most twice as many.
        """
        blocked_since = None
        while True:
            await asyncio.sleep(idle_s)
            is_blocked = self._is_sending or self._ping_lock.locked()
            if is_blocked and self._sent_at == blocked_since:
                break
            blocked_since = self._sent_at if is_blocked else None
        self._exchange.has_left = True
        self._exchange.tasks.cancel_scope.cancel()

    async def _wait_for_ping(self) -> None:
        async with self._ping_lock:
            pass

    async def _start(self, headers: Mapping[str, str]) -> None:
        if not self.is_started:
            self.is_started = True
            await self._exchange.start(200, raw_headers({**headers, **_HEADERS}))


def raw_headers(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    """Return headers as an ASGI server reads them."""
    return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
