"""Pings that keep a connection open while its stream is silent."""

from __future__ import annotations

from collections.abc import Callable

import anyio

from streamnorm.asgi.exchange import Exchange

__all__ = ["KeepAlive"]


class KeepAlive:
    """Send the chunks of a response, and a ping after each `interval_s` of silence.

    Silence begins when a send returns, so a chunk must have been sent before.

    Args:
        exchange: Where to send chunks and pings.
        ping: Returns a ping in the client's dialect; empty if the stream has ended or
            the dialect has none.
        interval_s: Seconds from the end of one send to the next ping.
    """

    def __init__(self, exchange: Exchange, ping: Callable[[], bytes], interval_s: float) -> None:
        self._exchange = exchange
        self._ping = ping
        self._interval_s = interval_s
        # A server blocks a send while its write buffer is full; a ping must wait for it.
        self._lock = anyio.Lock()
        self._next_ping_at = anyio.current_time() + interval_s

    async def run(self) -> None:
        """Send pings until `ping` returns an empty one."""
        while True:
            await anyio.sleep_until(self._next_ping_at)
            async with self._lock:
                if anyio.current_time() < self._next_ping_at:  # a chunk was sent meanwhile
                    continue
                ping = self._ping()
                if not ping:
                    return
                await self._send(ping, more=True)

    async def send(self, body: bytes, *, more: bool = True) -> None:
        """Send a chunk of the body; `more=False` completes the response."""
        async with self._lock:
            await self._send(body, more=more)

    async def _send(self, body: bytes, *, more: bool) -> None:
        await self._exchange.send(body, more=more)
        self._next_ping_at = anyio.current_time() + self._interval_s
