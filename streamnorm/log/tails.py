"""`Tail`: the latest chunks of a stream, shared by all readers in one process."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from itertools import accumulate
from typing import ClassVar
from weakref import WeakSet

import anyio

from streamnorm._core.errors import LogError, StoreError
from streamnorm.log.records import (
    Chunk,
    Ending,
    Key,
    LogStore,
    Origin,
    Reading,
    pack,
    unpack_ending,
    unpack_origin,
)

# A reader that is further behind reads the store.
_MAX_BYTES = 256 * 1024
READ_BYTES = 384 * 1024
"""Bytes that are read from a store at once."""
_LARGE_READ_BYTES = 3 * READ_BYTES
_MAX_LARGE_READS = 8
# What such a reader holds alone: a thousand that read no more must not fill the memory.
_BEHIND_BYTES = 64 * 1024
_WAIT_S = 1.0
_RETRY_S = 0.1
DEAD = pack(Ending("truncated", "lost", "its producer died"))
"""The end of a stream whose producer was not heard of in time."""
_GONE = "the log no longer has the stream"


class LargeRead:
    """The right to read much from a store at once, which few readers have at a time.

    A question costs as much as some hundred kilobytes of its answer, but a thousand readers that
    come back together must not fill the memory.  It lasts as long as somebody keeps it.
    """

    taken: ClassVar[WeakSet[LargeRead]] = WeakSet()

    @classmethod
    def take(cls) -> LargeRead | None:
        """Return a new one; None if there are as many as there may be."""
        if len(cls.taken) >= _MAX_LARGE_READS:
            return None
        large_read = cls()
        cls.taken.add(large_read)
        return large_read


def read_size(large_read: LargeRead | None) -> int:
    """Return how many bytes to read at once with that right, or without it."""
    return READ_BYTES if large_read is None else _LARGE_READ_BYTES


class Tail:
    """The latest chunks of a stream, from a producer in this process or from the store.

    One store is asked once for all readers of a process: the first that needs more reads it for
    the others.

    Args:
        store: The store.
        key: Scope and id of the stream.
        epoch: The epoch.
        is_fed: Whether its producer is in this process.
        on_read: Called as a reader reads or waits; None if the stream runs without readers, too.

    Attributes:
        key: As above.
        epoch: As above.
        on_read: As above.
        ending: The end; None while it runs.
        failure: Why its producer got no stream; None unless that happened.
        is_broken: Whether the store lacks what readers of this process get.
        is_replaced: Whether the store lacks it because another stream has the id now.
        count: Number of reads known; the tail has the last of them.
    """

    def __init__(
        self,
        store: LogStore,
        key: Key,
        epoch: str,
        *,
        is_fed: bool,
        on_read: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self.key = key
        self.epoch = epoch
        self.on_read = on_read
        self._origin: Origin | None = None
        self.ending: Ending | None = None
        self.failure: Exception | None = None
        self.is_broken = self.is_replaced = False
        self.count = 0
        self._store = store
        self._is_fed = is_fed
        self._chunks: deque[Chunk] = deque()
        self._size = 0
        self._start: Chunk | None = None  # which a reader has asked for, if the tail lacks it
        self._lapses_at = 0.0  # unless the producer elsewhere is heard of
        self._asked = 0  # how often the store was asked for news
        self._store_failure: StoreError | None = None  # of the last time
        self._changed: anyio.Event | None = None  # for those that wait
        self._lock = anyio.Lock()
        self._waiting = 0  # readers
        self._was_read = False

    @property
    def has_start(self) -> bool:
        """Whether the tail has the first read."""
        return bool(self._chunks) and self._chunks[0].first == 1

    def begin(self, reading: Reading) -> None:
        """Append the stream's first reads; where the tail lacks them, keep them for one reader."""
        is_new = not (self._is_fed or self.count or self.ending)
        if is_new:
            self._lapses_at = anyio.current_time() + reading.record.lease_s
        if reading.chunks and reading.chunks[0].first == 1:
            if is_new:
                self._take(reading)
                self._drop_surplus()
            if not self.has_start:
                self._start = _join(reading.chunks, 0)

    async def origin(self) -> Origin:
        """Return the stream's origin once the stream has begun; an empty origin if it never began.

        Raises:
            LogError: The stream is stored no longer, or lacks its start.
            StoreError: The store failed.
            Exception: There was no stream: what the source or the provider has raised.
        """
        if self._origin is None:
            first = self._start or await self.read(0)
            if not first.reads:
                return Origin()
            self._origin = unpack_origin(first.reads[0])
        return self._origin

    def publish(self, chunk: Chunk) -> None:
        """Append a chunk to the tail, and wake the readers."""
        self._chunks.append(chunk)
        self.count += len(chunk.reads)
        self._size += sum(map(len, chunk.reads))
        # What the store lacks must stay here.
        while self._size > _MAX_BYTES and len(self._chunks) > 1 and not self.is_broken:
            self._size -= sum(map(len, self._chunks.popleft().reads))
        self._notify()

    def end(self, ending: Ending) -> None:
        """Set how the stream ended, and wake the readers."""
        self.ending = ending
        self._notify()

    def fail(self, failure: Exception) -> None:
        """Raise an error in all readers, because the stream could not begin."""
        self.failure = failure
        self._notify()

    async def read(self, after: int, max_bytes: int = _BEHIND_BYTES) -> Chunk:
        """Wait for a chunk after a position; return an empty chunk at the end of the stream.

        Args:
            after: The position.
            max_bytes: Bytes to read from the store, approximately, if the tail lacks them.

        Raises:
            LogError: The stream is stored no longer, or lacks its start.
            StoreError: The store failed.
            Exception: There was no stream: what the source or the provider has raised.
        """
        while True:
            if self.failure is not None:
                raise self.failure
            if after < self.count:
                if self._chunks and self._chunks[0].first <= after + 1:
                    return self._behind(after)
                start, self._start = self._start, None
                # One that reads no further must not hold so much.
                if start is not None and after == 0 and max_bytes >= READ_BYTES:
                    return start
                return await self._read_store(after, max_bytes)
            if self.ending is not None:
                return _join((), after)
            if self._is_fed:
                self._changed = self._changed or anyio.Event()
                self._waiting += 1
                try:
                    await self._changed.wait()
                finally:
                    self._waiting -= 1
            else:
                await self._follow(after)

    async def note_reader(self) -> None:
        """Record that the stream has a reader, if `on_read` is set."""
        if self.on_read is not None:
            self._was_read = True
            await self.on_read()

    def take_followed(self) -> bool:
        """Return whether the stream had a reader since the last call."""
        was_read, self._was_read = self._was_read, False
        return was_read or self._waiting > 0

    def _drop_surplus(self) -> None:
        """Drop of a large read what precedes its end, which one reader needs once."""
        if self._size > READ_BYTES:
            chunk = self._chunks.pop()
            sizes = [*accumulate(map(len, reversed(chunk.reads)))]
            kept = max(1, bisect_right(sizes, _MAX_BYTES))
            self._chunks.append(_join([chunk], chunk.last - kept))
            self._size = sizes[kept - 1]

    def _behind(self, after: int) -> Chunk:
        # Most readers lack the last chunk alone.
        last = self._chunks[-1]
        if last.first == after + 1:
            return last
        lacking: list[Chunk] = []
        for chunk in reversed(self._chunks):
            if chunk.first + len(chunk.reads) <= after + 1:
                break
            lacking.append(chunk)
        return _join(reversed(lacking), after)

    async def _read_store(self, after: int, max_bytes: int) -> Chunk:
        reading = self._check(await self._store.aread(*self.key, after, max_bytes, 0))
        found = _join(reading.chunks, after)
        if not found.reads:
            raise LogError(_GONE, code="trimmed")
        return found

    async def _follow(self, after: int) -> None:
        """Update the tail of another process's stream, or wait for a change."""
        await self.note_reader()
        asked = self._asked
        async with self._lock:
            if after < self.count or self.ending is not None:
                return  # another reader has learnt it
            if self._asked != asked and self._store_failure is not None:
                raise self._store_failure  # not by a time-out for each reader
            known = self.count
            reading = await self._ask()
            # Reads that `begin` has appended meanwhile may be more than the store's answer has.
            if reading is None or self.count != known:
                return
            self._take(reading)
            record = reading.record
            if record.is_running and record.lease_s < 0 and self.count >= record.count:
                # Whoever notices it first says so to all.
                await self._store.aend(*self.key, self.epoch, DEAD)

    def _take(self, reading: Reading) -> None:
        """Append the new reads of a reading; set the end if they are the last.

        Raises:
            LogError: The store lacks those that come next.
        """
        record, chunks = reading
        found = _join(chunks, self.count)
        if found.reads:
            self.publish(found)
        elif chunks or self.count < record.count:
            raise LogError(_GONE, code="trimmed")
        if self.count < record.count:
            return
        # A store that has lost reads has none of the cursors behind them.
        self.is_broken |= self.count > record.count
        if record.ending is not None:
            self.end(unpack_ending(record.ending))

    async def _ask(self) -> Reading | None:
        """Ask the store for new chunks; return None if the caller must ask again.

        Raises:
            LogError: The stream is stored no longer.
            StoreError: The store failed, and the producer was not heard of in time.
        """
        left_s = self._lapses_at - anyio.current_time()
        self._asked += 1
        try:
            reading = self._check(
                await self._store.aread(
                    *self.key, self.count, READ_BYTES, min(_WAIT_S, max(0.0, left_s))
                )
            )
        except StoreError as exc:
            # A server that is restarted, or a replica that takes over, is back within the lease.
            if anyio.current_time() < self._lapses_at:
                await anyio.sleep(_RETRY_S)
                return None
            self._store_failure = exc
            raise
        self._store_failure = None
        self._lapses_at = anyio.current_time() + reading.record.lease_s
        return reading

    def _check(self, reading: Reading | None) -> Reading:
        """Check that the store's answer is of this stream, and return the answer.

        Raises:
            LogError: It is stored no longer.
        """
        if reading is None or reading.record.epoch != self.epoch or reading.record.is_expired:
            raise LogError(_GONE, code="trimmed")
        return reading

    def _notify(self) -> None:
        if self._changed is not None:
            self._changed.set()
            self._changed = None


def _join(chunks: Iterable[Chunk], after: int) -> Chunk:
    """Return the reads after a position as one chunk."""
    found = Chunk(after + 1, [], [])
    for first, reads, gaps_ms in chunks:
        start = after + len(found.reads) + 1 - first
        if start < 0:
            break
        found.reads.extend(reads[start:])
        found.gaps_ms.extend(gaps_ms[start:])
    return found
