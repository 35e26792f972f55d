"""`Production`: the one producer of a stream, from its source to the store."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from secrets import token_hex
from time import monotonic
from typing import Any, TypeAlias, TypeVar

import anyio
import msgspec
from msgspec import Struct, structs

from streamnorm._core.bodies.request import Reply
from streamnorm._core.codec.framing import Framing
from streamnorm._core.errors import RemoteProtocolError, StoreError, StreamnormError
from streamnorm._core.events import Completed, Failed, Outcome, Usage
from streamnorm._core.failures import SourceStopped, broken_connection
from streamnorm._registry import lookup
from streamnorm._transcoder import WriterOptions
from streamnorm.aio.stream import AsyncReader, AsyncSource, Stream
from streamnorm.aio.transcoding import TapPump
from streamnorm.log.records import (
    NO_READS,
    Cause,
    Chunk,
    Ending,
    Key,
    LogStore,
    Origin,
    State,
    add_head,
    pack,
    pack_options,
    read_options,
    unpack_ending,
)
from streamnorm.log.tails import Tail

_T = TypeVar("_T")


class OpenedSource(Struct, frozen=True, kw_only=True):
    """A source, and what is known of it once it is open, as behind a fallback to other providers.

    Attributes:
        source: The source, as for `events`; it is closed on every path.
        dialect: Its dialect; None to detect it.
        server: Name of its server.
        think_tags: Whether `<think>…</think>` is reasoning.
        framing: Its framing; None for that of the dialect.
        reply: What `encode_request` returned for the request that is answered.
        to: Dialect that the stream is asked for in; see `Log.follow_answer`.
        options: Options of its writer, without `limits` and functions.
        last_fields: Returns fields of the response that its last event has in place of the
            reply's; called when the source has ended.
    """

    source: AsyncSource
    dialect: str | None = None
    server: str | None = None
    think_tags: bool = False
    framing: Framing | None = None
    reply: Reply | None = None
    to: str | None = None
    options: WriterOptions = {}
    last_fields: Callable[[], dict[str, Any]] = dict


Opener: TypeAlias = Callable[[], AbstractAsyncContextManager[AsyncSource | OpenedSource]]
"""Opens the source once the id is the producer's, so that no second request is paid for."""

_Opener: TypeAlias = Callable[[], AbstractAsyncContextManager[OpenedSource]]

# The source is read no faster than the store takes it.
_MAX_WAITING_BYTES = 1024 * 1024
# The end of a stream is stored even if its task is cancelled.
_END_S = 2.0
# How long the readers of this process wait for a store that is away.
_RETRIES_S = 2.0
_RETRY_S = 0.1
_CANCELLED = "the stream was cancelled"
_UNFOLLOWED = "the stream was cancelled because nobody followed it"
_STOPPED = "its producer was stopped"
_LAPSED = "its producer was silent for too long"


class Production:
    """A stream while it is produced.

    Args:
        store: The store; None to feed the tail alone.
        key: Its scope and id.
        tail: What readers in this process follow.
        lease_s: Seconds without news after which its producer counts as dead.
        max_bytes: Bytes of its source.

    Attributes:
        tail: As above.
        is_new: Whether this is the stream's producer; otherwise another one is, or was.
        fingerprint: Digest of the request that it answers.
        failure: Why there is no stream: what the provider or the source has raised.
    """

    def __init__(
        self,
        store: LogStore | None,
        key: Key,
        tail: Tail,
        *,
        lease_s: float,
        max_bytes: int,
    ) -> None:
        self.tail = tail
        self.is_new = True
        self.fingerprint = b""
        self.failure: Exception | None = None
        self._store = store
        self._key = key
        self._lease_s = lease_s
        self._max_bytes = max_bytes
        self._waiting: list[bytes] = []  # reads that were not given to the store
        self._waiting_gaps_ms: list[int] = []  # before each of them
        self._waiting_bytes = 0
        self._chunk = Chunk(1, [], [])  # reads that are given to it
        self._ending: Ending | None = None
        self._stored_ending: Ending | None = None
        self._stream: Stream[bytes] | None = None
        self._has_lapsed = False  # whether others have ended the stream
        self._is_read = False  # the source has ended, or is read no more
        self._news = anyio.Event()
        self._room = anyio.Event()
        self._has_ended = anyio.Event()
        self._reading = anyio.CancelScope()
        self._renewing = anyio.CancelScope()

    async def wait(self) -> State:
        """Wait until the stream has ended; return its state.

        Raises:
            Exception: There is no stream: what the provider or the source has raised.
        """
        if not self.is_new:
            read = 0
            while reads := (await self.tail.read(read)).reads:
                read += len(reads)
        else:
            await self._has_ended.wait()
        if self.failure is not None:
            raise self.failure
        ending = self.tail.ending
        return "running" if ending is None else ending.state

    @property
    def has_ended(self) -> bool:
        """Whether the stream has ended, or failed to begin."""
        return self.tail.ending is not None or self.failure is not None

    def cancel(self) -> None:
        """Stop the stream: what was read stays, and ends as cancelled."""
        self._stop("cancelled", _CANCELLED)

    def leave(self) -> None:
        """Stop the stream since nobody follows it: as if it had been cancelled."""
        self._stop("cancelled", _UNFOLLOWED)

    async def run(self, open_source: _Opener) -> None:
        """Read a source to its end, and store it."""
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._write)
                tasks.start_soon(self._renew_lease)
                await self._read(open_source)
                self._is_read = True
                self._news.set()
        except BaseException:
            self._stop("truncated", _STOPPED)
            with anyio.move_on_after(_END_S, shield=True) as time:
                await self._finish()
            if time.cancelled_caught:  # the store is late
                self._lose_store()
                await self._finish()
            raise
        finally:
            self._has_ended.set()

    async def _read(self, open_source: _Opener) -> None:
        """Read the source into `_waiting`, until it ends or is stopped."""
        opened_s = monotonic()
        with self._reading:
            async with AsyncExitStack() as stack:
                try:
                    opened = await stack.enter_async_context(open_source())
                    origin = origin_of(opened)
                    reader = AsyncReader(opened.source)
                    pump = TapPump(
                        reader,
                        origin.dialect,
                        lambda _: None,
                        keep_message=False,
                        **read_options(origin),
                    )
                    stream = self._stream = Stream(pump, reader)
                    await stack.enter_async_context(stream)
                except Exception as exc:  # noqa: BLE001 - whatever opens a source may raise
                    self.failure = exc
                    return
                try:
                    await self._read_stream(stream, reader, origin, opened_s)
                except StreamnormError as exc:
                    # A failure behind the first byte stands in the ending.
                    if self._chunk == (1, [], []) and not self._waiting:
                        self.failure = exc
                        return
                cause, reason = _cause_of(pump.cause)
                state, fields = _state_of(stream.outcome), opened.last_fields()
                ending = Ending(state, cause, reason, response=fields)
                self._ending = self._ending or ending

    async def _read_stream(
        self, stream: Stream[bytes], reader: AsyncReader, origin: Origin, opened_s: float
    ) -> None:
        size = elapsed_ms = 0
        async for data in stream:
            # Times since the start are rounded, so that errors do not add up.
            gap_ms = round((monotonic() - opened_s) * 1000) - elapsed_ms
            elapsed_ms += gap_ms
            if not size:
                self._put(pack(add_head(origin, reader)), 0)
            self._put(data, gap_ms)
            size += len(data)
            if size > self._max_bytes:
                self._stop("truncated", f"the bound of {self._max_bytes} bytes was reached")
            # Some servers leave the connection open behind the terminal.
            if stream.outcome is not None or self._ending is not None:
                break
            if self._waiting_bytes > _MAX_WAITING_BYTES:
                self._room = anyio.Event()
                await self._room.wait()

    def _put(self, data: bytes, gap_ms: int) -> None:
        if not self._waiting:
            self._news.set()
        self._waiting.append(data)
        self._waiting_gaps_ms.append(gap_ms)
        self._waiting_bytes += len(data)

    def _stop(self, state: State, reason: str) -> None:
        """Read no more."""
        if self._ending is None:
            self._ending = Ending(state, "lost", reason)
            self._reading.cancel()

    async def _write(self) -> None:
        """Store what was read, and that the producer lives; in the end, how it ended."""
        while not (self._is_read and not self._waiting):
            await self._news.wait()
            if not self._is_read:
                self._news = anyio.Event()
            # What is read while the store is busy is stored at once afterwards.
            await self._append()
        self._renewing.cancel()
        await self._finish()

    async def _renew_lease(self) -> None:
        # Not by a deadline for each wait, which costs as much as storing a read in memory.
        with self._renewing:
            while True:
                await anyio.sleep(self._lease_s / 3)
                self._news.set()

    async def _append(self) -> None:
        """Store the reads that wait, and the end behind the last; then let readers have them."""
        if not self._chunk.reads:  # otherwise it was interrupted, and is perhaps stored
            self._chunk = Chunk(self._chunk.first, self._waiting, self._waiting_gaps_ms)
            self._waiting, self._waiting_gaps_ms, self._waiting_bytes = [], [], 0
            self._room.set()
        chunk, is_stored = self._chunk, True
        if self._store is not None:
            # The end with the last reads: who dies between them would cut a complete stream.
            is_last = self._ending is not None and not self._waiting
            ending = self._counted(self._ending) if self._ending and is_last else None
            try:
                is_stored = await self._store_chunk(self._store, chunk, ending)
                if not is_stored:
                    self._lapse()
                elif ending is not None:
                    self._stored_ending = ending
                    self.tail.ending = ending  # it decides about the events of the last read
            except StoreError:
                self._lose_store()
        self._chunk = Chunk(chunk.last + 1, [], [])
        if is_stored and chunk.reads:  # no reader gets what the others never will
            self.tail.publish(chunk)

    async def _store_chunk(self, store: LogStore, chunk: Chunk, ending: Ending | None) -> bool:
        """Store reads and the end, if there is one; try again for some time if the store fails."""
        # A server that is restarted is back soon, and an append that comes again changes nothing.
        until = anyio.current_time() + min(_RETRIES_S, self._lease_s / 3)
        packed = None if ending is None else pack(ending)
        while True:
            try:
                return await store.aappend(
                    *self._key, self.tail.epoch, chunk, self._lease_s, packed
                )
            except StoreError:
                if anyio.current_time() >= until:
                    raise
            await anyio.sleep(_RETRY_S)

    def _lapse(self) -> None:
        """Stop, since others have ended the stream, or have begun another."""
        self._has_lapsed = True
        if self._ending is None or self._ending.state in ("complete", "failed"):
            self._ending = Ending("truncated", "lost", _LAPSED)
        self._reading.cancel()

    def _lose_store(self) -> None:
        """Go on for the readers of this process alone."""
        self._store = None
        self.tail.is_broken = True

    async def _finish(self) -> None:
        """Store the end, or free the id of a stream that never began."""
        epoch = self.tail.epoch
        if self.failure is not None:
            await self._attempt(lambda store: store.afree(*self._key, epoch))
            self.tail.fail(self.failure)
            return
        while self._chunk.reads or self._waiting or self._lacks_ending:
            await self._append()
        ending = self._stored_ending
        if ending is None and self._has_lapsed:
            ending = await self._read_ending()
        if ending is None:
            assert self._ending is not None  # noqa: S101 - set by `_read`, `_stop` or `_lapse`
            ending = self._counted(self._ending)
        self.tail.end(ending)

    @property
    def _lacks_ending(self) -> bool:
        """Whether the store is to have the end, and has it not."""
        return self._store is not None and self._stored_ending is None and not self._has_lapsed

    async def _read_ending(self) -> Ending | None:
        """Return the end that a reader has stored, who took this producer for dead."""
        reading = await self._attempt(lambda store: store.aread(*self._key, NO_READS, 1, 0))
        if reading is not None:
            record = reading.record
            is_known = (record.epoch, record.count) == (self.tail.epoch, self.tail.count)
            if is_known and record.ending is not None:
                return unpack_ending(record.ending)
        self._lose_store()
        return None

    def _counted(self, ending: Ending) -> Ending:
        """Return an end with the usage by then."""
        usage = Usage() if self._stream is None else self._stream.usage
        return structs.replace(ending, usage=structs.replace(usage, extra=None))

    async def _attempt(self, step: Callable[[LogStore], Awaitable[_T]]) -> _T | None:
        if self._store is not None:
            try:
                return await step(self._store)
            except StoreError:
                self._lose_store()
        return None


_CAUSES: dict[str, Cause] = {"malformed": "undecodable", "stalled": "timeout"}


def _cause_of(failure: Exception | None) -> tuple[Cause, str]:
    """Return how a source ended, and what stopped it if that was ours, as readers are told.

    Args:
        failure: What it raised; None if it ended.
    """
    if failure is None:
        return "eof", ""
    error = broken_connection(failure, 0)
    reason = error.message if isinstance(failure, RemoteProtocolError) else ""
    if isinstance(failure, SourceStopped):
        reason = failure.reason
    return _CAUSES.get(error.kind, "lost"), reason


def _state_of(outcome: Outcome | None) -> State:
    """Return the state that a stream has by the outcome of its message."""
    match outcome:
        case Completed():
            return "complete"
        case Failed():
            return "failed"
        case _:
            return "truncated"


def origin_of(opened: OpenedSource) -> Origin:
    """Return the origin of a stream, before the head of its response is known.

    Raises:
        UnknownDialect: There is no such dialect.
    """
    return Origin(
        None if opened.dialect is None else lookup(opened.dialect).name,
        opened.server,
        None if opened.framing is None else opened.framing.name,
        opened.think_tags,
        token_hex(16),
        None if opened.reply is None else msgspec.json.encode(opened.reply),
        to=None if opened.to is None else lookup(opened.to).name,
        options=pack_options(opened.options),
    )
