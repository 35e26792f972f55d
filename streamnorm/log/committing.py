"""Group commit: one store operation at a time stores the new bytes of a process's streams.

An operation of a store costs much more than what is in it.  Reads that arrive while the store is
busy, or within a millisecond or two of its last operation, wait for the next one.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import anyio

from streamnorm._core.errors import StoreError
from streamnorm.log.records import (
    NO_READS,
    Append,
    Chunk,
    Ending,
    Key,
    LogStore,
    pack,
    unpack_ending,
)
from streamnorm.log.tails import Tail

# Seconds between two operations: after a small one, and after one that stored several streams, each
# of which saves an operation by waiting, or many reads, as of a stream that is not generated live.
_GROUP_S = 0.001
_LARGE_GROUP_S = 0.003
_MANY_READS = 8
# So that a server is busy for a short time only.
_MAX_APPENDS = 100
_MAX_APPEND_BYTES = 1024 * 1024
# A source is read no faster than the store accepts its reads.
_MAX_WAITING_BYTES = 1024 * 1024
# How long the readers of this process wait for a store that is away.
_RETRIES_S = 2.0
_RETRY_S = 0.1
LAPSED = "its producer was silent for too long"
"""Why a stream ended that others have ended, whose reason is not known."""


class Appender:
    """Appends the bytes and the end of one stream to the store, then publishes them to readers.

    Args:
        commits: The group commit of the process; None to publish without a store.
        key: Scope and id of the stream.
        tail: The last reads of the stream, for the readers of this process.
        lease_s: Seconds without news after which the producer counts as dead.
        on_lapse: Called when others have ended the stream, or have begun another.

    Attributes:
        waiting_bytes: Bytes that wait for the next operation of the store.
        is_settled: Whether nothing more will be stored.
        woken: Set when its task has something to do.
    """

    def __init__(
        self,
        commits: GroupCommit | None,
        key: Key,
        tail: Tail,
        *,
        lease_s: float,
        on_lapse: Callable[[], None],
    ) -> None:
        self.waiting_bytes = 0
        self.is_settled = commits is None
        self.woken = anyio.Event()
        self._commits = commits
        self._key = key
        self._tail = tail
        self._lease_s = lease_s
        self._on_lapse = on_lapse
        self._reads: list[bytes] = []  # that wait
        self._gaps_ms: list[int] = []  # before each of them
        self._count = 0  # of the reads before those
        self._chunk: Chunk | None = None  # of the operation that is under way, or has failed
        self._ending: Ending | None = None
        self._packed = b""  # that end
        self._sends_ending = False  # whether that operation has the end
        self._has_lapsed = False
        self._retries_until_s = 0.0  # what is being stored; 0 if nothing is
        self._room: anyio.Event | None = None  # while the source is not read on

    @property
    def is_empty(self) -> bool:
        """Whether no bytes were appended."""
        has_chunk = self._chunk is not None and bool(self._chunk.reads)
        return not (self._count or self._reads or has_chunk)

    @property
    def is_full(self) -> bool:
        """Whether reading from the source must wait."""
        return self.waiting_bytes > _MAX_WAITING_BYTES

    async def wait_for_room(self) -> None:
        """Wait until reading from the source may continue."""
        self._room = anyio.Event()
        await self._room.wait()

    def append(self, data: bytes, gap_ms: int) -> None:
        """Queue bytes for the store.

        Args:
            data: The bytes.
            gap_ms: Milliseconds since the read before.
        """
        if self._commits is None:
            self._publish(Chunk(self._count + 1, [data], [gap_ms]))
            return
        if not self._reads:
            self._commits.add(self)
        self._reads.append(data)
        self._gaps_ms.append(gap_ms)
        self.waiting_bytes += len(data)

    def renew_lease(self) -> None:
        """Queue a renewal of the producer's lease."""
        if self._commits is not None and not self.is_settled:
            self._commits.add(self)

    def close(self, ending: Ending) -> None:
        """Queue the end of the stream for the store.

        Raises:
            Exception: Fields of the response cannot be stored; nothing is appended then.
        """
        self._packed = pack(ending)  # here: what one stream cannot store must fail no other
        self._ending = ending
        if self._commits is None:
            self._tail.end(ending)  # at once: it decides about the events of the last read
        elif not self.is_settled:
            self._commits.add(self)

    def abandon(self) -> None:
        """Stop storing a stream that never began."""
        self._settle()

    def next_append(self, now_s: float) -> Append:
        """Return the part of the stream that the next store operation appends.

        Args:
            now_s: The time.
        """
        if self._chunk is None or not self._chunk.reads:  # otherwise it is perhaps stored
            self._chunk = Chunk(self._count + 1, self._reads, self._gaps_ms)
            self._drop_reads()
        if not self._retries_until_s:
            self._retries_until_s = now_s + min(_RETRIES_S, self._lease_s / 3)
        # The end with the last reads: who dies between them would cut a complete stream.
        self._sends_ending = self._ending is not None and not self._reads
        packed = self._packed if self._sends_ending else None
        return Append(*self._key, self._tail.epoch, self._chunk, self._lease_s, packed)

    def handle(self, result: bool | StoreError) -> None:
        """Process the store's result for the last append."""
        if self.is_settled:  # the producer has given up meanwhile
            return
        if isinstance(result, StoreError):
            self._handle_failure()
            return
        self._retries_until_s = 0.0
        chunk, self._chunk = self._chunk, None
        if not result:  # no reader gets what the others never will
            self._count = self._count if chunk is None else chunk.last
            self._has_lapsed = True
            self._drop_reads()
            self._settle()
            self._on_lapse()
            return
        if self._ending is not None and self._sends_ending:
            self._tail.end(self._ending)  # first: it decides about the events of the last read
            self._settle()
        if chunk is not None:
            self._publish(chunk)
        if self._commits is not None and (self._reads or (self._ending and not self.is_settled)):
            self._commits.add(self)

    def lose_store(self) -> None:
        """Continue without the store, only for readers of this process."""
        self._settle()
        self._commits = None
        self._tail.is_broken = True
        if self._ending is not None and not self._has_lapsed:
            self._tail.end(self._ending)  # first, as for what is stored
        if self._chunk is not None:
            self._publish(self._chunk)
        self._publish(Chunk(self._count + 1, self._reads, self._gaps_ms))
        self._drop_reads()

    async def free(self) -> None:
        """Release the id of a stream that never began."""
        if self._commits is not None:
            with suppress(StoreError):  # the lease lapses then, and nobody joins the stream
                await self._commits.store.afree(*self._key, self._tail.epoch)

    async def ending(self) -> Ending:
        """Return the end of the stream that readers get, which another process may have stored."""
        assert self._ending is not None  # noqa: S101 - the caller has closed the stream
        if not self._has_lapsed:
            return self._ending
        if self._commits is not None:  # otherwise there was no time to ask the store
            stored = await self._read_ending(self._commits.store)
            if stored is not None:
                return stored
            self.lose_store()
        if self._ending.state not in ("complete", "failed"):
            return self._ending
        return Ending("truncated", "lost", LAPSED, self._ending.usage)

    def _handle_failure(self) -> None:
        # A server that is restarted is back soon, and an append that comes again changes nothing.
        if self._commits is not None and anyio.current_time() < self._retries_until_s:
            self._commits.add(self)
        else:
            self.lose_store()

    def _drop_reads(self) -> None:
        self._reads, self._gaps_ms, self.waiting_bytes = [], [], 0
        if self._room is not None:
            self._room.set()
            self._room = None

    def _publish(self, chunk: Chunk) -> None:
        self._chunk = None
        if chunk.reads:
            self._count = chunk.last
            self._tail.publish(chunk)

    def _settle(self) -> None:
        self.is_settled = True
        if self._commits is not None:
            self._commits.release(self)
        self.woken.set()

    async def _read_ending(self, store: LogStore) -> Ending | None:
        """Return the end that a reader stored because it considered this producer dead."""
        try:
            reading = await store.aread(*self._key, NO_READS, 1, 0)
        except StoreError:
            return None
        if reading is None:
            return None
        record, tail = reading.record, self._tail
        tail.is_replaced = record.epoch != tail.epoch
        if record.ending is None:
            return None
        is_known = (record.epoch, record.count) == (tail.epoch, tail.count)
        return unpack_ending(record.ending) if is_known else None


class GroupCommit:
    """Stores the appends of all streams of a process, one operation at a time.

    One of their tasks does it for all.

    Args:
        store: The store.

    Attributes:
        store: As above.
    """

    def __init__(self, store: LogStore) -> None:
        self.store = store
        self._waiting: dict[Appender, None] = {}  # a set in order
        self._running: dict[Appender, None] = {}  # those that have a task
        self._leader: Appender | None = None  # the one whose task stores

    def add(self, appender: Appender) -> None:
        """Include a stream in the next store operation."""
        if not self._waiting and self._leader is not None:
            self._leader.woken.set()
        self._waiting[appender] = None

    def release(self, appender: Appender) -> None:
        """Exclude a stream from further store operations."""
        self._waiting.pop(appender, None)

    async def run(self, appender: Appender) -> None:
        """Run store operations until a stream needs no more, or wait while another task runs them.

        Once cancelled, it may be called again.
        """
        self._running[appender] = None
        try:
            if self._leader is not None and not appender.is_settled:
                appender.woken = anyio.Event()
                await appender.woken.wait()
            self._leader = self._leader or appender
            while not appender.is_settled:
                await self._step(appender)
        finally:
            del self._running[appender]
            if self._leader is appender:
                self._leader = next(iter(self._running), None)
                if self._leader is not None:
                    self._leader.woken.set()

    async def _step(self, leader: Appender) -> None:
        """Wait for appends, then store them."""
        if not self._waiting:
            leader.woken = anyio.Event()
            await leader.woken.wait()
            return
        pause_s = await self._commit()
        if not leader.is_settled:
            await anyio.sleep(pause_s)

    async def _commit(self) -> float:
        """Store waiting appends in one operation; return the seconds to the next operation."""
        appenders: list[Appender] = []
        appends: list[Append] = []
        size, now_s = 0, anyio.current_time()
        for appender in self._waiting:
            if len(appends) == _MAX_APPENDS or size >= _MAX_APPEND_BYTES:
                break
            appenders.append(appender)
            appends.append(append := appender.next_append(now_s))
            size += sum(map(len, append.chunk.reads))
        results: list[bool | StoreError] = [StoreError("the store is late")] * len(appends)
        # What waits stays there until the answer: if this task is cancelled, another stores it.
        with anyio.move_on_after(_RETRIES_S):
            try:
                results = await self.store.aappend(appends)
            except StoreError as exc:
                results = [exc] * len(appends)
        for appender in appenders:
            self._waiting.pop(appender, None)
        for appender, result in zip(appenders, results, strict=True):
            appender.handle(result)
        # Not where one stream alone cannot be stored: the others do not wait for that.
        if all(isinstance(result, StoreError) for result in results):
            return _RETRY_S
        is_small = len(appends) == 1 and len(appends[0].chunk.reads) < _MANY_READS
        return _GROUP_S if is_small else _LARGE_GROUP_S
