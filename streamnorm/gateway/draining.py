"""The end of a gateway: new requests are refused, running ones get their grace.

A server that stops waits for its streams, so a drain must begin before it does: at the signal.
uvicorn installs its handlers before the lifespan starts; a handler set then runs first, and
calls uvicorn's.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from math import inf
from time import monotonic
from types import FrameType
from typing import Any, TypeAlias

from streamnorm._upstream.requests import RequestRefused
from streamnorm.asgi.exchange import Exchange

_Handler: TypeAlias = Callable[[int, FrameType | None], Any]

_SIGNALS = (signal.SIGTERM, signal.SIGINT)
# Of an answer that was told to end: for its last event, and a client that does not read.
_LAST_S = 0.5
_RETRY_S = 1  # another worker may answer at once
# In which a signal that comes again is the same one: systemd sends it to all processes of a unit,
# and a parent passes it on to its children.
_REPEAT_S = 0.1


def stopping() -> RequestRefused:
    """Return the refusal of a request that comes too late."""
    headers = {"retry-after": str(_RETRY_S)}
    return RequestRefused("the gateway is stopping, try again", 503, headers=headers)


class Draining:
    """The running requests of a gateway, and the end that they get when it stops.

    Args:
        stop: Ends the answers of all upstreams with an error.

    Attributes:
        has_begun: Whether new requests are refused.
    """

    def __init__(self, stop: Callable[[], None]) -> None:
        self.has_begun = False
        self._stop = stop
        self._running: set[Exchange] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._ended = asyncio.Event()

    @contextmanager
    def running(self, exchange: Exchange) -> Generator[None]:
        """Count a request as running."""
        self._running.add(exchange)
        try:
            yield
        finally:
            self._running.discard(exchange)
            if not self._running:
                self._ended.set()

    def begin(self, grace_s: float) -> None:
        """Refuse new requests, and end those that run after their grace; the earliest counts."""
        self.has_begun = True
        loop = asyncio.get_running_loop()
        end = loop.time() + grace_s
        # A second signal may shorten the grace, and none prolongs it.
        if self._timer is None or end < self._timer.when():
            if self._timer is not None:
                self._timer.cancel()
            self._timer = loop.call_at(end, self._end)

    async def wait(self) -> None:
        """Wait until no request runs."""
        while self._running:
            self._ended.clear()
            await self._ended.wait()

    def close(self) -> None:
        """Accept requests again, for a further start; no request may run."""
        self.has_begun = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _end(self) -> None:
        self._stop()
        self._timer = asyncio.get_running_loop().call_later(_LAST_S, self._abort)

    def _abort(self) -> None:
        # Their connections are closed in the middle of the body, which is no clean end.
        for exchange in self._running:
            exchange.tasks.cancel_scope.cancel()


@contextmanager
def chain_signals(
    begin: Callable[[], None], end: Callable[[], None] | None = None
) -> Generator[None]:
    """Call a function at SIGTERM and SIGINT, and then the handler that a server has set.

    Signals that have no handler are left alone, and so are all outside the main thread.

    Args:
        begin: Called in the running loop.
        end: Called in its place if the same signal comes again; None for `begin`.
    """
    # Python sets handlers in the main thread alone.
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    set_here: list[tuple[signal.Signals, _Handler, _Handler]] = []
    for number in _SIGNALS:
        # hypercorn handles signals in its event loop, where there is no handler to chain.
        before = signal.getsignal(number)
        if callable(before):
            handler = _chain_handler(before, loop, begin, end or begin)
            signal.signal(number, handler)
            set_here.append((number, handler, before))
    try:
        yield
    finally:
        for number, handler, before in set_here:
            if signal.getsignal(number) is handler:  # else somebody has replaced it
                signal.signal(number, before)


def _chain_handler(
    handler: _Handler,
    loop: asyncio.AbstractEventLoop,
    begin: Callable[[], None],
    end: Callable[[], None],
) -> _Handler:
    repeated_from = inf

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal repeated_from
        now = monotonic()
        # A handler runs between any two instructions: the loop's state is not safe here.
        loop.call_soon_threadsafe(begin if now < repeated_from else end)
        repeated_from = min(repeated_from, now + _REPEAT_S)
        handler(number, frame)

    return handle
