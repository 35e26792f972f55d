"""The answer to one client: a stream with pings while it is silent, or a whole body."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Generator, Mapping
from contextlib import contextmanager

from streamnorm.asgi.exchange import Exchange
from streamnorm.asgi.responses import send_json

_JSON = {"content-type": "application/json"}
_MAX_SENT_BYTES = 1024 * 1024  # at once: servers copy what they send, in the loop
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
        # before it; no ping is sent meanwhile.
        self._pinging: asyncio.Task[None] | None = None  # set from before a ping until its end
        self._is_sending = False
        self._timers: dict[Callable[..., None], asyncio.TimerHandle] = {}

    async def start(self, headers: Mapping[str, str]) -> None:
        """Send status 200, unless that was done."""
        if self._pinging is not None:
            await self._pinging
        self._is_sending = True
        await self._start(headers)
        self._is_sending = False

    async def send(self, data: bytes, *, more: bool = True) -> None:
        """Send a chunk; `more=False` completes the response."""
        if self._pinging is not None:
            await self._pinging
        self._is_sending = True
        self._is_ended = not more
        if len(data) > _MAX_SENT_BYTES:
            data = await self._send_all_but_the_end(data)
        await self._exchange.send(data, more=more)
        self._sent_at = self._loop.time()
        self._is_sending = False

    async def send_all(self, chunks: AsyncIterator[bytes]) -> None:
        """Send chunks, as `send` does, and complete the response."""
        send, now = self._exchange.send, self._loop.time
        async for chunk in chunks:
            if self._pinging is not None:
                await self._pinging
            self._is_sending = True
            if len(chunk) > _MAX_SENT_BYTES:
                chunk = await self._send_all_but_the_end(chunk)
            await send(chunk)
            self._sent_at = now()
            self._is_sending = False
        await self.send(b"", more=False)

    async def _send_all_but_the_end(self, data: bytes) -> bytes:
        """Send a large chunk in pieces, and return the last of them."""
        last = (len(data) - 1) // _MAX_SENT_BYTES * _MAX_SENT_BYTES
        for start in range(0, last, _MAX_SENT_BYTES):
            await self._exchange.send(data[start : start + _MAX_SENT_BYTES])
            self._sent_at = self._loop.time()
        return data[last:]

    async def send_body(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        """Send a JSON body in place of a stream."""
        if self._pinging is not None:
            await self._pinging
        self._is_sending = self._is_ended = True
        await send_json(self._exchange, status, raw_headers({**headers, **_JSON}), body)

    @contextmanager
    def watched(self, poll_interval_s: float, idle_s: float) -> Generator[None]:
        """Send pings while the stream is silent, and cut off a client that reads nothing.

        Such a client would hold its upstream, and its place among the requests, for as long as
        its connection lives.

        Args:
            poll_interval_s: Seconds after which `may_start` is asked for the first time, and again
                until a ping may be sent.
            idle_s: Seconds that a client has at least to read; at most twice as many.
        """
        self._call_later(poll_interval_s, self._keep_alive, poll_interval_s)
        self._call_later(idle_s, self._cut_off, idle_s, None)
        try:
            yield
        finally:
            for timer in self._timers.values():
                timer.cancel()
            if self._pinging is not None:
                self._pinging.cancel()

    def _call_later(self, delay_s: float, callback: Callable[..., None], *args: object) -> None:
        # A task for each would cost more than the rest of a short answer's sending.
        self._timers[callback] = self._loop.call_later(delay_s, callback, *args)

    def _keep_alive(self, poll_interval_s: float) -> None:
        """Send a ping if it is time, and look again until the stream has ended."""
        if self._is_ended or self._exchange.has_left:
            return
        now = self._loop.time()
        if self._is_sending:
            wait_s = self._keepalive_s
        elif not self.is_started and not self._may_start(now - self._began_at):
            wait_s = poll_interval_s
        elif self.is_started and now < self._sent_at + self._keepalive_s:
            wait_s = self._sent_at + self._keepalive_s - now
        elif ping := self.ping():
            self._pinging = self._loop.create_task(self._send_ping(ping, poll_interval_s))
            return
        else:
            return
        self._call_later(wait_s, self._keep_alive, poll_interval_s)

    async def _send_ping(self, ping: bytes, poll_interval_s: float) -> None:
        await self._start({})
        await self._exchange.send(ping)
        self._sent_at = self._loop.time()
        self._pinging = None
        self._call_later(self._keepalive_s, self._keep_alive, poll_interval_s)

    def _cut_off(self, idle_s: float, blocked_since: float | None) -> None:
        """Cancel the request if its client has read nothing since the last look."""
        is_blocked = self._is_sending or self._pinging is not None
        if is_blocked and self._sent_at == blocked_since:
            self._exchange.has_left = True
            self._exchange.tasks.cancel_scope.cancel()
            return
        since = self._sent_at if is_blocked else None
        self._call_later(idle_s, self._cut_off, idle_s, since)

    async def _start(self, headers: Mapping[str, str]) -> None:
        if not self.is_started:
            self.is_started = True
            await self._exchange.start(200, raw_headers({**headers, **_HEADERS}))


def raw_headers(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    """Return headers as an ASGI server reads them."""
    return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
