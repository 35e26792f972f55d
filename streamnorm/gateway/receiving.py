"""Receiving of upstream answers: time limits, codings, masked keys, large events.

An event that is large, of the upstream or for the client, is decoded in the body thread: where a
read may end one, the pump of the stream is fed there, and the stream gets an empty read, for which
the pump returns the bytes for the client.
"""

from __future__ import annotations

import asyncio
import gc
import re
import sys
from collections.abc import Awaitable, Callable, Generator, Iterator
from contextlib import contextmanager
from functools import cached_property, partial
from typing import TYPE_CHECKING, Self, TypeVar

import aiohttp
import anyio
from aiohttp.http_exceptions import HttpProcessingError
from anyio import to_thread

from streamnorm._core.codec.framing import SSE, Framing
from streamnorm._core.source_failures import SourceStopped
from streamnorm.aio.pump import LargeEventPump, Pump
from streamnorm.gateway.chunked_body import BrokenFraming, ChunkedBody
from streamnorm.gateway.scrubbing import KeyMask, UpstreamKey
from streamnorm.http.codings import CONTENT_ENCODING, ResponseDecoder, content_codings
from streamnorm.http.headers import error_type_in

if TYPE_CHECKING:
    from streamnorm.gateway.config import Timeouts
    from streamnorm.gateway.websocket_answers import SocketAnswer
    from streamnorm.gateway.websocket_steering import Steering

T = TypeVar("T")

_POLL_INTERVAL_S = 0.01  # the timer of an answer fires no more often
_LINES_AT_ONCE = 1000  # decoding an event without text takes up to 20 µs
_LINES = re.compile(rb"(?:[^\r\n]*[\r\n]){%d}" % _LINES_AT_ONCE)

LARGE_BYTES = 256 * 1024
"""Size of a body beyond which the work on it takes some milliseconds, and is done in the thread."""


class BodyThread:
    """A worker thread for large bodies, so that the event loop is not blocked.

    One body is worked on at a time: a second thread would only wait for the interpreter's lock,
    and two bodies take twice the memory.
    """

    async def run(self, size: int, work: Callable[[], T]) -> T:
        """Run a function in the thread; return its result or raise its exception.

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
    """Run a function without garbage collection, and return its result.

    A collection traverses all that was made of the body so far, holding the interpreter's lock.
    """
    if not gc.isenabled():
        return work()
    gc.disable()
    try:
        return work()
    finally:
        gc.enable()


class _GraceOver(Exception):
    """The server did not close a finished answer within the grace period."""


class Stalled(TimeoutError):
    """An upstream sent nothing, or no event of its answer, for too long."""


class ServerStopping(SourceStopped):
    """The gateway stops, and the answer's grace period is over."""

    reason = "the gateway stopped"


class UpstreamResponse:
    """An upstream's response: the reader of a `Stream`.

    A read that comes too late fails with `Stalled`.  One timer watches all reads: it is set
    again when it fires, not with each read.  Progress is what the timer finds new: a stream of
    pings, comments or empty frames alone ends after `progress_s`, and at most the shortest of the
    bounds later.  The time in which the client reads nothing is not the upstream's.

    Args:
        response: The response, of which nothing was read.
        lost: Done once its connection is closed; None if the whole body has arrived.
        times: Time limits of the upstream.
        start: When the request was sent.
        on_close: Called once the answer is closed.
        key: A key that stands as `x` in headers and body, or None.
        body: The body, if it is not read from `response`.

    Attributes:
        status: HTTP status.
        headers: Headers by lower-case name.
        content_type: `content-type`, or None.
        error_type: Type of the error that the headers state, or None.
        steering: Input that the client adds to the response; None if it can add none.
        read: Returns the next bytes of the decoded body, or raises: `StopAsyncIteration` at its
            end, `Stalled`, `aiohttp.ClientError` if the connection broke, `RemoteProtocolError`
            if the body cannot be decoded.
    """

    def __init__(
        self,
        response: aiohttp.ClientResponse | SocketAnswer,
        lost: asyncio.Future[None] | None,
        times: Timeouts,
        start: float,
        on_close: Callable[[UpstreamResponse], None],
        key: UpstreamKey | None = None,
        body: ChunkedBody | None = None,
    ) -> None:
        self._response = response
        self._content = response.content if body is None else body
        self._times = times
        self._loop = asyncio.get_running_loop()
        self.status: int | None = response.status
        self.headers = {name.lower(): value for name, value in response.headers.items()}
        if key is not None:
            hide = key.replace_in_header
            self.headers = {name: hide(value) for name, value in self.headers.items()}
        self.content_type = self.headers.get("content-type")
        self.error_type = error_type_in(self.headers)
        self.steering: Steering | None = None
        self._coding = self.headers.get(CONTENT_ENCODING, "")
        self._decoder: ResponseDecoder | None = None
        self._pieces: Iterator[bytes] = iter(())  # decoded from the last read
        self._rest = b""  # lines of the last read that are still to be returned
        is_coded = bool(self._coding and content_codings(self._coding))
        self._uncut_bytes = sys.maxsize if is_coded else _LINES_AT_ONCE
        self._is_coded = is_coded
        self._mask = None if key is None else KeyMask(key)
        self.read: Callable[[], Awaitable[bytes]] = (
            self._read_decoded if is_coded else self._read_received
        )
        if self._mask is not None:
            self.read = partial(self._read_masked, self.read, self._mask)
        self._pump: Pump[bytes] | None = None
        self._passing: LargeEventPump | None = None  # fed where bytes arrive
        self._waits_since: float | None = None  # since when a read is under way
        self._returned_at = start  # when the last read ended
        self._is_decoding = False  # in a thread, what was read
        self._is_due = False  # a check, once that has ended
        self._is_blocked = False  # whether the timer has fired since then: the client is late
        self._blocked_s = 0.0  # seconds in which it was
        self._progress_at = start  # of a clock that stops while the client is late
        self._reads = 0
        self._last_count: int = 0  # of frames, or of reads, at the last check
        self._on_close = on_close
        self._lost = lost
        if self._lost is None:
            self._end_lost()
        else:
            self._lost.remove_done_callback(_retrieve)  # of an earlier answer
            self._lost.add_done_callback(_retrieve)
            self._lost.add_done_callback(self._end_lost)
        self._timer = self._loop.call_at(start + times.first_byte_s, self._check)

    async def read_all(self, max_bytes: int) -> bytes:
        """Return the whole body, or the beginning of a body above `max_bytes`.

        Raises:
            Stalled: The upstream is late.
            aiohttp.ClientError: The connection broke.
            RemoteProtocolError: The body cannot be decoded.
        """
        parts: list[bytes] = []
        size = 0
        while size <= max_bytes:
            try:
                parts.append(await self.read())
            except StopAsyncIteration:
                break
            size += len(parts[-1])
        return b"".join(parts)

    def watch(self, pump: Pump[bytes]) -> None:
        """Set the pump whose progress is measured."""
        self._pump = pump

    def decode_ahead(
        self, pump: LargeEventPump, bodies: BodyThread, framing: Framing = SSE
    ) -> None:
        """Decode large events of a pump in the body thread.

        Args:
            pump: The pump of the stream.
            bodies: The thread for large bodies.
            framing: Framing of the answer.
        """
        self.watch(pump)
        ends_at_lines = framing is SSE
        self.read = partial(self._read_ahead, self.read, pump, bodies, ends_at_lines=ends_at_lines)

    @contextmanager
    def suspend_time_limits(self) -> Generator[None]:
        """Suspend the time limits while a thread decodes a chunk.

        The pump counts its frames meanwhile, so its progress is judged afterwards.
        """
        self._is_decoding = True
        try:
            yield
        finally:
            self._is_decoding = False
            self._returned_at = self._loop.time()
            if self._is_due:
                self._is_due = False
                self._check()

    def pass_on(self, pump: LargeEventPump, write: Callable[[bytes], bool]) -> None:
        """Write what the pump makes of further bytes where they arrive.

        A task that is woken for each event costs as much as its decoding and encoding.  A read
        that waits goes on waiting then, until something is left for the stream: a chunk that
        `write` does not take, or the end.

        Args:
            pump: The pump that decodes ahead.
            write: Sends a chunk to the client if it need not wait; returns whether it did.
        """
        if not self._is_coded and isinstance(self._content, ChunkedBody):
            self._passing = pump
            self._content.pass_on = partial(self._pass_on, pump, write)

    def keep_reads(self) -> list[bytes]:
        """Return a list that collects all further chunks."""
        kept: list[bytes] = []
        self.read = partial(_read_kept, self.read, kept)
        return kept

    def fail(self, cause: Exception) -> None:
        """End the body with an exception, which a pending read raises."""
        if not self._content.is_eof():
            self._content.set_exception(cause)

    async def close(self) -> None:
        """Close the connection, or return it to the pool if the body has ended."""
        self._timer.cancel()
        # They refer to this object, or to its pump.
        self.read, self._pump, self._passing = _read_closed, None, None
        if isinstance(self._content, ChunkedBody):
            self._content.pass_on = None
        self._on_close(self)
        if self._lost is not None:
            self._lost.remove_done_callback(self._end_lost)
        # Bytes of an unread body would be read as the next response.
        if self._content.at_eof():
            self._response.release()
        else:
            self._response.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.close()

    async def _read_received(self) -> bytes:
        """Return the next received bytes of the body, up to a bounded number of lines.

        Raises:
            StopAsyncIteration: The body has ended.
            Stalled: The upstream is late.
            aiohttp.ClientError: The connection broke.
        """
        if self._rest:
            await self._give_way()
            return self._first_lines(self._rest)
        self._begin_read()
        try:
            data = await self._content.readany()
        except _GraceOver as exc:
            raise StopAsyncIteration from exc
        except HttpProcessingError as exc:  # of aiohttp's parser in Python
            raise BrokenFraming from exc
        self._end_read()
        if not data:
            raise StopAsyncIteration
        self._reads += 1
        if self._reads == 1:  # in time; no event of it is read before this returns
            self._progress_at, self._is_blocked = self._returned_at, True
            self._last_count = int(self._pump is None)
            self._timer.cancel()
            self._timer = self._loop.call_at(self._next_check(self._returned_at), self._check)
        if len(data) > self._uncut_bytes:
            return self._first_lines(data)
        return data

    async def _read_ahead(
        self,
        read: Callable[[], Awaitable[bytes]],
        pump: LargeEventPump,
        bodies: BodyThread,
        *,
        ends_at_lines: bool,
    ) -> bytes:
        """Return the next bytes; b"" if the body thread has decoded them."""
        if pump.ended:  # what follows is only read so that the connection can be used again
            return await read()
        try:
            data = await read()
        except StopAsyncIteration:
            with self.suspend_time_limits():
                await bodies.run(pump.waiting_bytes, pump.close_ahead)
            raise
        size = pump.waiting_bytes + len(data)
        # Without a line end no event can be complete.
        if pump.is_fed or size <= LARGE_BYTES or (ends_at_lines and b"\n" not in data):
            return data
        with self.suspend_time_limits():
            await bodies.run(size, partial(pump.feed_ahead, data))
        return b""

    def _pass_on(self, pump: LargeEventPump, write: Callable[[bytes], bool], data: bytes) -> bool:
        """Pass on received bytes; return False if the stream has to read them or what they gave."""
        if _has_many_lines(data) or pump.waiting_bytes + len(data) > LARGE_BYTES:
            return False
        self._waits_since = self._loop.time()
        if self._mask is not None:
            data = self._mask.feed(data)
        return pump.pass_on(data, write)

    def _first_lines(self, data: bytes) -> bytes:
        """Return the first lines of a chunk, and store the remaining lines for the next read."""
        first = _LINES.match(data) if _has_many_lines(data) else None
        if first is None:
            self._rest = b""
            return data
        self._rest = data[first.end() :]
        return first[0]

    async def _give_way(self) -> None:
        """Yield to other tasks between two parts of one chunk."""
        self._begin_read()
        await asyncio.sleep(0)
        self._end_read()

    async def _read_decoded(self) -> bytes:
        """Return the next decoded bytes of a compressed body."""
        if self._decoder is None:  # a coding that is not supported is a failure of the body
            self._decoder = ResponseDecoder(self._coding)
        data = self._rest or next(self._pieces, None)
        if data is not None:  # a read may become thousands of pieces
            await self._give_way()
        while data is None:
            self._pieces = self._decoder.feed(await self._read_received())
            data = next(self._pieces, None)
        return self._first_lines(data)

    async def _read_masked(self, read: Callable[[], Awaitable[bytes]], mask: KeyMask) -> bytes:
        """Return the next bytes of a body, with keys masked."""
        data = b""
        while not data:
            try:
                data = await read()
            except StopAsyncIteration:
                if held := mask.close():
                    return held  # the next read ends again
                raise
            if self._passing is not None and self._passing.is_fed:
                return data  # which was masked where it arrived
            data = mask.feed(data)
        return data

    def _begin_read(self) -> None:
        self._waits_since = since = self._loop.time()
        if self._is_blocked:
            self._is_blocked = False
            self._blocked_s += since - self._returned_at

    def _end_read(self) -> None:
        self._waits_since = None
        self._returned_at = self._loop.time()

    def _end_lost(self, _lost: asyncio.Future[None] | None = None) -> None:
        """End the body, since its connection is closed.

        aiohttp does so itself, unless it closes the connection because of a broken chunk.
        """
        if self._content.exception() is None:
            self.fail(BrokenFraming())

    def _next_check(self, now: float) -> float:
        """Return the time at which to check again whether the upstream is late."""
        times = self._times
        poll_interval_s = min(times.finish_grace_s, times.idle_s, times.progress_s)
        return now + max(poll_interval_s, _POLL_INTERVAL_S)

    def _check(self) -> None:
        """End the body if the upstream is late; else schedule the next check."""
        self._timer.cancel()
        if self._is_decoding:
            self._is_due = True
            return
        now, times = self._loop.time(), self._times
        if not self._reads:
            self.fail(Stalled("no first byte"))
            return
        next_check = self._next_check(now)
        # To count in each read would cost as much as all else that is done there.
        count = self._reads if self._pump is None else self._pump.progress
        since = self._waits_since
        self._is_blocked = since is None
        until = self._returned_at if since is None else now
        if count != self._last_count:
            self._last_count, self._progress_at = count, until - self._blocked_s
        progress_at = self._progress_at + self._blocked_s
        if self._pump is not None and self._pump.lacks_only_terminal:
            end = progress_at + times.finish_grace_s  # pings do not extend it
            if until >= end:
                # No `feed_eof`: aiohttp would use the connection for another request.
                self.fail(_GraceOver())
                return
        else:
            # Pings hide a dead upstream for ever: they are no progress (Wei-Shaw/sub2api#1707).
            end = progress_at + times.progress_s
            if since is not None:
                end = min(since + times.idle_s, end)
            if until >= end:
                self.fail(Stalled("nothing, or nothing of the answer"))
                return
        if since is not None:
            next_check = min(end, next_check)
        self._timer = self._loop.call_at(next_check, self._check)


def _has_many_lines(data: bytes) -> bool:
    if len(data) <= _LINES_AT_ONCE:
        return False
    return data.count(b"\n") + data.count(b"\r") > _LINES_AT_ONCE


async def _read_closed() -> bytes:
    raise StopAsyncIteration


async def _read_kept(read: Callable[[], Awaitable[bytes]], kept: list[bytes]) -> bytes:
    data = await read()
    kept.append(data)
    return data


def _retrieve(lost: asyncio.Future[None]) -> None:
    """Retrieve a lost connection's exception, so that asyncio does not log it."""
    if not lost.cancelled():
        lost.exception()
