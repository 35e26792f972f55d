"""The stream to one client: its head, its chunks, and pings while it is silent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from streamnorm.asgi.exchange import Exchange

__all__ = ["ClientStream"]

_HEADERS = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-cache, no-transform",
    "x-accel-buffering": "no",  # nginx would collect the stream
}


class ClientStream:
    """The stream to one client.

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
        self._loop = asyncio.get_running_loop()
        self._began_at = self._sent_at = self._loop.time()
        # A server blocks a send while its write buffer is full; a ping must wait for it.
        self._lock = asyncio.Lock()

    async def start(self, headers: Mapping[str, str]) -> None:
        """Send status 200, unless that was done."""
        async with self._lock:
            await self._start(headers)

    async def send(self, data: bytes, *, more: bool = True) -> None:
        """Send a chunk; `more=False` completes the response."""
        async with self._lock:
            await self._exchange.send(data, more=more)
            self._sent_at = self._loop.time()

    async def keep_alive(self, look_s: float) -> None:
        """Send pings until there are none.

        Args:
            look_s: Seconds after which `may_start` is asked for the first time.
        """
        await asyncio.sleep(look_s)
        while True:
            async with self._lock:
                now = self._loop.time()
                if self.is_started or self._may_start(now - self._began_at):
                    if now - self._sent_at >= self._keepalive_s or not self.is_started:
                        await self._start({})
                        if not (ping := self.ping()):
                            return
                        await self._exchange.send(ping)
                        self._sent_at = self._loop.time()
                    next_look = self._sent_at + self._keepalive_s
                else:
                    next_look = now + look_s
            await asyncio.sleep(max(0.0, next_look - self._loop.time()))

    async def _start(self, headers: Mapping[str, str]) -> None:
        if not self.is_started:
            self.is_started = True
            pairs = {**headers, **_HEADERS}.items()
            raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in pairs]
            await self._exchange.start(200, raw)
