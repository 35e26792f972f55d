"""Log store in the memory of one process."""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Sequence
from time import monotonic

import anyio
from msgspec import Struct, structs

from streamnorm._core.errors import StoreError
from streamnorm.log.records import (
    LOST,
    Append,
    Chunk,
    Key,
    Reading,
    Record,
    Streams,
    accepts,
    gives_way,
)


class _Stream(Struct):
    """A stored stream.

    Attributes:
        record: All but its reads; without `lease_s`.
        chunks: The reads.
        changed: Set when it changes; None if nobody waits for that.
        lease_until: When its producer is dead.
        expires_at: When its reads are forgotten, and after as long again its id.
        followed_at: When it was followed last.
    """

    record: Record
    chunks: list[Chunk]
    lease_until: float
    expires_at: float
    followed_at: float
    changed: anyio.Event | None = None

    def notify(self) -> None:
        """Wake the readers that wait for a change."""
        if self.changed is not None:
            self.changed.set()
            self.changed = None


class MemoryLogStore:
    """A `LogStore` in memory, whose content is lost with the process.

    Args:
        ttl_s: Seconds after its last change at which a stream is forgotten.
        max_bytes: Bytes of all streams.  Beyond them, those that have ended are forgotten, the
            oldest first; where all run, no more can be stored.
        clock: Returns the time in seconds.
    """

    def __init__(
        self,
        *,
        ttl_s: float,
        max_bytes: int = 256 * 1024 * 1024,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._ttl_s = ttl_s
        self._max_bytes = max_bytes
        self._bytes = 0
        self._clock = clock
        self._streams: OrderedDict[tuple[str, str], _Stream] = OrderedDict()  # last changed last
        self._cancelled: list[_Stream] = []

    async def aclaim(
        self, scope: str, id: str, record: Record, *, replaces: bool | str = False
    ) -> tuple[Record, bool]:
        """Claim an id for a new stream; see `LogStore`."""
        known = self._find(scope, id)
        if known is not None:
            if not gives_way(known.record, record, replaces=replaces):
                return self._record(known), known.record.epoch == record.epoch
            self._forget_reads(known)
        now = self._clock()
        stream = _Stream(record, [], now + record.lease_s, now + self._ttl_s, now)
        self._streams[scope, id] = stream
        self._streams.move_to_end((scope, id))
        return self._record(stream), True

    async def aappend(self, appends: Sequence[Append]) -> list[bool | StoreError]:
        """Store appends of streams; see `LogStore`."""
        results: list[bool | StoreError] = []
        for append in appends:
            try:
                results.append(self._append(append))
            except StoreError as exc:
                results.append(exc)
        return results

    async def aend(self, scope: str, id: str, epoch: str, ending: bytes) -> bool:
        """End a stream whose producer is dead; see `LogStore`."""
        stream = self._running(scope, id, epoch)
        if stream is None or self._clock() < stream.lease_until:
            return False
        stream.record = structs.replace(stream.record, ending=ending)
        self._change(scope, id, stream)
        return True

    async def afree(self, scope: str, id: str, epoch: str) -> None:
        """Release the id of a stream of which nothing was stored; see `LogStore`."""
        stream = self._running(scope, id, epoch)
        if stream is not None and not stream.chunks:
            del self._streams[scope, id]
            stream.notify()

    async def acancel(self, scope: str, id: str) -> bool:
        """Ask the producer of a stream to stop; see `LogStore`."""
        stream = self._find(scope, id)
        if stream is None or not stream.record.is_running:
            return False
        stream.record = structs.replace(stream.record, is_cancelled=True)
        self._cancelled.append(stream)
        return True

    async def acancelled(self) -> set[str]:
        """Return the epochs of the running streams that were cancelled; see `LogStore`."""
        self._cancelled = [stream for stream in self._cancelled if stream.record.is_running]
        return {stream.record.epoch for stream in self._cancelled}

    async def afollow(self, followed: Streams, produced: Streams) -> set[str]:
        """Record the streams that are followed; see `LogStore`."""
        now = self._clock()
        for epoch, key in followed.items():
            if (stream := self._running(*key, epoch)) is not None:
                stream.followed_at = now
        return {epoch for epoch, key in produced.items() if self._is_unfollowed(key, epoch)}

    async def aread(
        self, scope: str, id: str, after: int, max_bytes: int, wait_s: float
    ) -> Reading | None:
        """Return a stream's record and the chunks after a position; see `LogStore`."""
        stream = self._find(scope, id)
        if stream is None:
            return None
        if stream.record.is_running and stream.record.count <= after and wait_s > 0:
            stream.changed = changed = stream.changed or anyio.Event()
            with anyio.move_on_after(wait_s):
                await changed.wait()
            if (stream := self._find(scope, id)) is None:
                return None
        found: list[Chunk] = []
        size = 0
        for chunk in _behind(stream.chunks, after):
            size += sum(map(len, chunk.reads))
            if found and size > max_bytes:
                break
            found.append(chunk)
        return Reading(self._record(stream), found)

    async def aclose(self) -> None:
        """Do nothing: there is nothing to close."""

    def _append(self, append: Append) -> bool:
        scope, id, _, chunk, lease_s, ending = append
        stream = self._find(scope, id)
        if stream is None:
            raise StoreError(LOST)
        if not accepts(stream.record, append):
            return False
        count, size = stream.record.count, stream.record.size
        if chunk.last != count:
            added = sum(map(len, chunk.reads))
            self._make_room(added)
            self._bytes += added
            stream.chunks.append(chunk)
            count, size = chunk.last, size + added
        stream.record = structs.replace(stream.record, count=count, size=size, ending=ending)
        stream.lease_until = self._clock() + lease_s
        self._change(scope, id, stream)
        return True

    def _find(self, scope: str, id: str) -> _Stream | None:
        self._expire()
        return self._streams.get((scope, id))

    def _running(self, scope: str, id: str, epoch: str) -> _Stream | None:
        stream = self._find(scope, id)
        if stream is None or stream.record.epoch != epoch or not stream.record.is_running:
            return None
        return stream

    def _is_unfollowed(self, key: Key, epoch: str) -> bool:
        stream = self._running(*key, epoch)
        if stream is None or stream.record.linger_s is None:
            return False
        return self._clock() - stream.followed_at >= stream.record.linger_s

    def _record(self, stream: _Stream) -> Record:
        return structs.replace(stream.record, lease_s=stream.lease_until - self._clock())

    def _change(self, scope: str, id: str, stream: _Stream) -> None:
        stream.expires_at = self._clock() + self._ttl_s
        self._streams.move_to_end((scope, id))
        stream.notify()

    def _expire(self) -> None:
        """Delete the bytes of expired streams, and the streams' ids one `ttl_s` later."""
        now = self._clock()
        while self._streams:
            key, stream = next(iter(self._streams.items()))
            if stream.expires_at > now:
                return
            if stream.record.is_expired:
                del self._streams[key]
            else:
                self._forget_reads(stream)
                stream.expires_at += self._ttl_s
                self._streams.move_to_end(key)  # as one that has changed now

    def _make_room(self, size: int) -> None:
        """Delete the bytes of ended streams until `size` new bytes fit.

        Raises:
            StoreError: It takes those that run.
        """
        ended = (one for one in self._streams.values() if one.record.ending is not None)
        while self._bytes + size > self._max_bytes:
            oldest = next(ended, None)
            if oldest is None:
                raise StoreError("the store has no memory left")
            self._forget_reads(oldest)

    def _forget_reads(self, stream: _Stream) -> None:
        self._bytes -= stream.record.size
        stream.record = structs.replace(stream.record, is_expired=True, size=0)
        stream.chunks = []
        stream.notify()


def _behind(chunks: list[Chunk], after: int) -> list[Chunk]:
    """Return the chunks that extend beyond a position."""
    start = bisect_right(chunks, after, key=lambda chunk: chunk.first + len(chunk.reads) - 1)
    return chunks[start:]
