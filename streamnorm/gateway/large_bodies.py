"""Bodies and events that are too large to be worked on in the event loop.

`LargeEvents` stands between an answer and its stream: where a read may end a large event, of the
upstream or for the client, it has the pump fed in the body thread, and passes on an empty read, for
which the pump returns what that gave.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from functools import cached_property, partial
from typing import TYPE_CHECKING, TypeVar

import anyio
from anyio import to_thread

from streamnorm._core.codec.framing import SSE, Framing
from streamnorm.aio.pump import TranscodePump

if TYPE_CHECKING:
    from streamnorm.gateway.network import UpstreamResponse

T = TypeVar("T")

LARGE_BYTES = 256 * 1024
"""Size of a body beyond which the work on it takes some milliseconds, and is done in the thread."""


class BodyThread:
    """A thread for the work on large bodies, for which the event loop must not stand still.

    One body is worked on at a time: a second thread would only wait for the interpreter's lock,
    and two bodies take twice the memory.
    """

    async def run(self, size: int, work: Callable[[], T]) -> T:
        """Run work and return its result, or raise its exception.

        A cancelled caller waits for the end of the work: nothing can stop a thread, and the
        next body would be worked on beside it.

        Args:
            size: Bytes of the body; the work on a small one takes less than a thread does.
            work: A function that raises no `StopIteration`.
        """
        if size <= LARGE_BYTES:
            return work()
        return await to_thread.run_sync(_without_collections, work, limiter=self._limiter)

    @cached_property
    def _limiter(self) -> anyio.CapacityLimiter:  # which older versions make in a loop alone
        return anyio.CapacityLimiter(1)


def _without_collections(work: Callable[[], T]) -> T:
    """Run work with the garbage collector off, and return its result.

    A collection traverses all that was made of the body so far, holding the interpreter's lock.
    """
    if not gc.isenabled():
        return work()
    gc.disable()
    try:
        return work()
    finally:
        gc.enable()


class LargeEventPump(TranscodePump):
    """A pump that may be fed before the stream does so."""

    _is_fed = False  # ahead of the stream
    _fed: bytes | None = None  # bytes for the client
    _is_closed = False  # ahead of the stream

    def feed(self, data: bytes) -> bytes | None:
        """Handle the next chunk, unless `feed_ahead` did; return its bytes for the client."""
        if not self._is_fed:
            return super().feed(data)
        fed, self._is_fed, self._fed = self._fed, False, None
        return fed

    def feed_ahead(self, data: bytes) -> None:
        """Handle the next chunk; the next `feed` ignores its argument and returns the bytes."""
        self._fed = super().feed(data)
        self._is_fed = True

    def close(self) -> None:
        """Handle the end of the source, unless that was done already."""
        if not self._is_closed:
            self.close_ahead()

    def close_ahead(self) -> None:
        """Handle the end of the source."""
        self._is_closed = True
        super().close()


class LargeEvents:
    """The reads of an answer, of which those that end a large event are empty.

    Args:
        answer: The answer.
        pump: The pump of its stream.
        bodies: The thread for large bodies.
        framing: Framing of the answer.

    Attributes:
        status: HTTP status of the answer.
        content_type: Its media type, with parameters.
        error_type: Type of the error that its headers state; None if they state none.
        headers: Its headers, by lower-case name.
    """

    def __init__(
        self,
        answer: UpstreamResponse,
        pump: LargeEventPump,
        bodies: BodyThread,
        framing: Framing = SSE,
    ) -> None:
        self.status = answer.status
        self.content_type = answer.content_type
        self.error_type = answer.error_type
        self.headers = answer.headers
        self._answer = answer
        self._pump = pump
        self._bodies = bodies
        self._ends_at_lines = framing is SSE

    async def read(self) -> bytes:
        """Return the next bytes, none of an event that has been fed.

        Raises:
            StopAsyncIteration: The body has ended.
            Stalled: The upstream is late.
            aiohttp.ClientError: The connection broke.
        """
        pump = self._pump
        if pump.ended:  # what follows is only read so that the connection can be used again
            return await self._answer.read()
        try:
            data = await self._answer.read()
        except StopAsyncIteration:
            with self._answer.being_decoded():
                await self._bodies.run(pump.waiting_bytes, pump.close_ahead)
            raise
        size = pump.waiting_bytes + len(data)
        # Without a line end no event can be complete.
        if size <= LARGE_BYTES or (self._ends_at_lines and b"\n" not in data):
            return data
        with self._answer.being_decoded():
            await self._bodies.run(size, partial(pump.feed_ahead, data))
        return b""

    async def close(self) -> None:
        """Close the connection, unless the body has ended: then others may use it."""
        await self._answer.close()
