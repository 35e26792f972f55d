"""What goes to clients: streams with their pings, and the headers of clouds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Mapping, MutableMapping
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

from streamnorm._core.codec import Dialect
from streamnorm._core.codec.framing import SSE, Framing
from streamnorm.asgi.responses import (
    EVENT_STREAM_HEADERS,
    EventSender,
    Exchange,
    Send,
    encode_headers,
    send_json,
)

_JSON = {"content-type": "application/json"}


class ClientStream(EventSender):
    """The answer to one client, which is a stream unless `send_body` comes first.

    Args:
        exchange: The client's request.
        ping: Returns a ping in the client's dialect; empty once the stream has ended.
        keepalive_s: Seconds of silence after which a ping is sent.
        may_start: Returns whether a ping may be sent, and status 200 before it, although no
            upstream has begun; called with the seconds since the request.
        framing: Framing of a stream.
        headers: Headers of a stream that the client's dialect asks for.

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
        framing: Framing = SSE,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        super().__init__(exchange, ping, keepalive_s, self._loop.time)
        self.is_started = False
        self._headers = {**EVENT_STREAM_HEADERS, **(headers or {})}
        if framing is not SSE:
            self._headers |= {"content-type": framing.media_type, **framing.headers}
        self._may_start = may_start
        self._began_at = self._sent_at
        self._timers: dict[Callable[..., None], asyncio.TimerHandle] = {}
        self._ping_task: asyncio.Task[None] | None = None
        self._ping_error: BaseException | None = None  # a fault of the server

    async def start(self, headers: Mapping[str, str]) -> None:
        """Send status 200, unless that was done."""
        self._is_sending = True
        # A ping has sent status 200 or is about to.
        if self._pinged is not None:
            await self._pinged.wait()
        await self._start(headers)
        self._is_sending = False

    async def send_body(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        """Send a body in place of a stream: of JSON, unless the headers say otherwise."""
        self._is_sending = True
        if self._pinged is not None:
            await self._pinged.wait()
        self._is_ended = True
        await send_json(self._exchange, status, encode_headers({**_JSON, **headers}), body)

    @contextmanager
    def watch(self, poll_interval_s: float, idle_s: float) -> Generator[None]:
        """Send pings while the stream is silent, and cut off a client that reads nothing.

        Such a client would hold its upstream, and its place among the requests, for as long as
        its connection lives.

        Args:
            poll_interval_s: Seconds after which `may_start` is asked for the first time, and again
                until a ping may be sent.
            idle_s: Seconds that a client has at least to read; at most twice as many.
        """
        self._call_later(poll_interval_s, self._check_silence, poll_interval_s)
        self._call_later(idle_s, self._cut_off, idle_s, None)
        try:
            yield
        finally:
            self._is_ended = True  # a ping that is being sent sets no further timer
            for timer in self._timers.values():
                timer.cancel()
            if self._ping_task is not None:
                self._ping_task.cancel()
            if self._ping_error is not None:
                raise self._ping_error

    def _call_later(self, delay_s: float, callback: Callable[..., None], *args: object) -> None:
        # A task for each would cost more than the rest of a short answer's sending.
        self._timers[callback] = self._loop.call_later(delay_s, callback, *args)

    def _check_silence(self, poll_interval_s: float) -> None:
        """Send a ping if it is time, and check again until the stream has ended."""
        if self._is_ended or self._exchange.has_left:
            return
        wait_s = self._remaining_silence_s()
        if not self.is_started and not self._is_sending:
            may_start = self._may_start(self._loop.time() - self._began_at)
            wait_s = 0 if may_start else poll_interval_s
        if wait_s > 0:
            self._call_later(wait_s, self._check_silence, poll_interval_s)
            return
        # Not in the task group: a timer is no task, and anyio finds its event loop in tasks alone.
        self._ping_task = self._loop.create_task(self._ping_and_wait(poll_interval_s))
        self._ping_task.add_done_callback(self._end_failed)

    async def _ping_and_wait(self, poll_interval_s: float) -> None:
        if await self._send_ping() and not self._is_ended:
            self._call_later(self._keepalive_s, self._check_silence, poll_interval_s)

    def _end_failed(self, ping: asyncio.Task[None]) -> None:
        """End the request of a ping that the server failed to send."""
        if not ping.cancelled() and (error := ping.exception()) is not None:
            self._ping_error = error
            self._exchange.tasks.cancel_scope.cancel()

    def _cut_off(self, idle_s: float, blocked_since: float | None) -> None:
        """Cancel the request if its client has read nothing since the last check."""
        is_blocked = self._is_sending or self._pinged is not None
        # A send that began before the last check still waits: TCP's window has been full since.
        if is_blocked and self._sent_at == blocked_since:
            self._exchange.has_left = True
            self._exchange.tasks.cancel_scope.cancel()
            return
        since = self._sent_at if is_blocked else None
        self._call_later(idle_s, self._cut_off, idle_s, since)

    async def _begin(self) -> None:
        await self._start({})

    async def _start(self, headers: Mapping[str, str]) -> None:
        # A ping may have sent the status, and headers go out once.
        if not self.is_started:
            self.is_started = True
            await self._exchange.start(200, encode_headers({**headers, **self._headers}))


def complete_headers(client: Dialect, send: Send) -> Send:
    """Return a `send` that adds the headers of a cloud; `send` itself for all other clients.

    Args:
        client: The client's dialect, as it is spoken at the path of the request.
        send: The server's `send`.
    """
    if client.cloud is None:
        return send
    # Users of botocore read the id from each answer, and support asks for it.
    request_id = {client.endpoints.request_id_header: str(uuid4())}

    async def send_with_headers(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            headers = message["headers"]
            known = {name.decode("latin-1") for name, _ in headers}
            new = {name: value for name, value in request_id.items() if name not in known}
            message = {**message, "headers": [*headers, *encode_headers(new)]}
        await send(message)

    return send_with_headers
