"""`Log`: streams that outlive their clients and their producer."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from math import inf
from secrets import token_hex
from time import monotonic
from typing import TYPE_CHECKING, Literal, TypeAlias, Unpack, overload
from weakref import WeakValueDictionary

import anyio
from msgspec import Struct

from streamnorm._core.errors import LogError, StoreError
from streamnorm._core.events import Event, Usage
from streamnorm._registry import lookup
from streamnorm.aio.sources import AsyncReader
from streamnorm.log.committing import GroupCommit
from streamnorm.log.cursors import START, Position, read_cursor, tag_of
from streamnorm.log.following import FollowedStream, LogReader, follow_bytes, follow_events
from streamnorm.log.producing import OpenedSource, Production
from streamnorm.log.records import (
    NO_READS,
    Key,
    LogStore,
    Reading,
    Record,
    State,
    pack_options,
    unpack_ending,
    writer_options,
)
from streamnorm.log.tails import DEAD, READ_BYTES, LargeRead, Tail, read_size

if TYPE_CHECKING:
    from streamnorm._core.bodies.request import Reply
    from streamnorm._core.codec.framing import Framing
    from streamnorm._transcoder import WriterOptions
    from streamnorm.aio.pump import Errors
    from streamnorm.aio.sources import AsyncSource
    from streamnorm.log.producing import Opener

Mode: TypeAlias = Literal["require", "best_effort"]
"""What a store that fails means: no stream, or one that this process alone can read."""

DEFAULT_TTL_S = 3600.0
"""Seconds after its last change at which a stream is forgotten."""

DEFAULT_LEASE_S = 15.0
"""Seconds without news after which a producer counts as dead."""

MAX_STREAM_BYTES = 16 * 1024 * 1024
"""Bytes of one stream."""

MIN_LINGER_S = 5.0
"""The least `linger_s`: whether a stream is followed elsewhere is known each second or two."""

# How often a process tells the store which streams it follows.
_FOLLOW_S = 1.0
# By how much a reader can have left later than the store knows: it is woken each second, and tells
# the store each second.
_NOTED_LATE_S = 2.0
# How soon a producer learns that a caller in another process has cancelled its stream.
_CANCEL_POLL_S = 0.1
# Options of a reader that change no byte.
_UNSEEN = frozenset({"on_loss", "on_note", "keep_message", "strict"})


class StreamStatus(Struct, frozen=True):
    """State and size of a logged stream.

    Attributes:
        state: The state.
        reads: Number of reads stored.
        size: Bytes of them.
        usage: The usage, once it has ended.
        epoch: Id of its producer's run, which no other stream of its id has; "" if it is unknown or
            expired.
    """

    state: State
    reads: int = 0
    size: int = 0
    usage: Usage | None = None
    epoch: str = ""


class Log:
    """A log of streams, created by `open_log`.

    Ids must be unguessable, or of one client's `scope`: whoever knows both can read the stream.

    Args:
        store: The store.
        lease_s: Seconds without news after which a producer counts as dead, and its stream ends as
            truncated.
        max_bytes: Bytes of one stream; it ends there as truncated.
    """

    def __init__(
        self,
        store: LogStore,
        *,
        lease_s: float = DEFAULT_LEASE_S,
        max_bytes: int = MAX_STREAM_BYTES,
    ) -> None:
        self._store = store
        self._commits = GroupCommit(store)
        self._lease_s = lease_s
        self._max_bytes = max_bytes
        # Of the streams that are read or produced here.
        self._tails: WeakValueDictionary[Key, Tail] = WeakValueDictionary()
        self._productions: dict[Key, Production] = {}
        self._watch = anyio.Lock()
        self._told_at_s = -inf  # when the store learnt last what is followed here

    @asynccontextmanager
    async def produce(
        self,
        id: str,
        source: AsyncSource | Opener,
        *,
        dialect: str | None = None,
        server: str | None = None,
        think_tags: bool = False,
        framing: Framing | None = None,
        reply: Reply | None = None,
        scope: str = "",
        fingerprint: bytes = b"",
        mode: Mode = "require",
        linger_s: float | None = None,
        replaces: bool | str = False,
    ) -> AsyncGenerator[Production]:
        """Read a source into the log, independently of any client.

            async with log.produce(id, lambda: client.stream("POST", url, json=body)) as run:
                await run.wait()

        The block is left when the stream has ended; a block that fails, or is cancelled, ends the
        stream as truncated.  An id that has a stream already gets no second one: the source is not
        opened, and `run` is that stream.

        Args:
            id: Id of the stream.
            source: The source, as for `events`, which is closed on every path; or a function that
                opens it, which is called once the id is this producer's, and may give an
                `OpenedSource`.
            dialect: Dialect of the source; None to detect it.
            server: Name of its server.
            think_tags: Whether `<think>…</think>` is reasoning.
            framing: Framing of the source; None for that of the dialect.
            reply: What `encode_request` returned for the request that is answered.
            scope: Scope of the id: nothing is found under another; see `streamnorm.state.scope_of`.
            fingerprint: Digest of the request; one with another is refused.
            mode: `require`: a store that fails at the start is an error.  `best_effort`: the stream
                is then one that this process alone can read.  A store that fails later stops no
                stream.
            linger_s: Seconds without a reader in any process after which the stream is cancelled,
                at most three later, counted from its start on; 5 or more.  None: it needs no
                readers.
            replaces: Whether the stream takes the place of one of its id that has ended, or that
                answers another request, which ends, as for a chat that has one answer at a time; or
                the `StreamStatus.epoch` of the only stream that it replaces, once that has ended.

        Raises:
            ValueError: `linger_s` is less than 5.
            LogError: The id is that of the answer to another request.
            StoreError: The store failed.
            UnknownDialect: There is no such dialect.
            Exception: There is no stream: what the provider or the source has raised.
        """
        if linger_s is not None and not linger_s >= MIN_LINGER_S:
            raise ValueError(f"linger_s of {linger_s:g}, expected at least {MIN_LINGER_S:g}")

        def describe(found: AsyncSource) -> OpenedSource:
            return OpenedSource(
                source=found,
                dialect=dialect,
                server=server,
                think_tags=think_tags,
                framing=framing,
                reply=reply,
            )

        @asynccontextmanager
        async def open_source() -> AsyncGenerator[OpenedSource]:
            if not callable(source):
                yield describe(source)
                return
            async with source() as found:
                yield found if isinstance(found, OpenedSource) else describe(found)

        if dialect is not None:
            lookup(dialect)
        is_read = False
        try:
            production = await self._claim(
                (scope, id), fingerprint, mode, linger_s, replaces=replaces
            )
            is_read = production.is_new
        finally:
            if not is_read and not callable(source):
                await AsyncReader(source).close()
        failure: Exception | None = None
        async with anyio.create_task_group() as tasks:
            try:
                if production.is_new:
                    tasks.start_soon(production.run, open_source)
                    tasks.start_soon(self._stop_cancelled)
                    if linger_s is not None:
                        tasks.start_soon(self._stop_unfollowed)
                yield production
                await production.wait()
            except Exception as exc:  # noqa: BLE001 - raised below, not as a group of one
                failure = exc
            finally:
                # Others may hold it; who follows the stream later asks the store.
                if self._productions.get((scope, id)) is production:
                    del self._productions[scope, id]
            tasks.cancel_scope.cancel()
        if failure is not None:
            raise failure

    async def _claim(
        self,
        key: Key,
        fingerprint: bytes,
        mode: Mode,
        linger_s: float | None,
        *,
        replaces: bool | str,
    ) -> Production:
        """Claim an id for a new stream, or join the existing one."""
        joined = self._join(key, fingerprint, replaces=replaces)
        if joined is not None:
            return joined
        epoch, lease_s = token_hex(8), self._lease_s
        if linger_s is not None:
            linger_s += _NOTED_LATE_S
        claimed = Record(epoch, fingerprint, 0, 0, False, None, lease_s, linger_s=linger_s)
        commits: GroupCommit | None = self._commits
        try:
            record, is_new = await self._store.aclaim(*key, claimed, replaces=replaces)
        except StoreError:
            if mode == "require":
                raise
            # It may have begun while the store was asked.
            joined = self._join(key, fingerprint, replaces=replaces)
            if joined is not None:
                return joined
            commits, record, is_new = None, claimed, True
        _check_fingerprint(record.fingerprint, fingerprint)
        tail = self._tail(key, record, is_fed=is_new)
        if commits is None:
            tail.is_broken = True
        production = self._production(commits, key, tail, fingerprint, is_new=is_new)
        if is_new:
            if (former := self._productions.get(key)) is not None:
                former.cancel()
            self._productions[key] = production
        return production

    def _join(self, key: Key, fingerprint: bytes, *, replaces: bool | str) -> Production | None:
        """Join a stream that this process produces; return None if it produces no such stream.

        Also where its store is away, or has lost it: it is not paid for twice, nor stopped.
        """
        running = self._productions.get(key)
        if running is None or running.has_ended:
            return None
        if replaces is True and running.fingerprint != fingerprint:
            return None
        _check_fingerprint(running.fingerprint, fingerprint)
        return self._production(None, key, running.tail, fingerprint, is_new=False)

    def _production(
        self,
        commits: GroupCommit | None,
        key: Key,
        tail: Tail,
        fingerprint: bytes,
        *,
        is_new: bool,
    ) -> Production:
        lease_s, max_bytes = self._lease_s, self._max_bytes
        production = Production(commits, key, tail, lease_s=lease_s, max_bytes=max_bytes)
        production.fingerprint, production.is_new = fingerprint, is_new
        return production

    @overload
    async def follow(
        self,
        id: str,
        *,
        to: None = None,
        after: str = "",
        scope: str = "",
        errors: Errors = "raise",
    ) -> FollowedStream[Event]: ...

    @overload
    async def follow(
        self,
        id: str,
        *,
        to: str,
        after: str = "",
        scope: str = "",
        **options: Unpack[WriterOptions],
    ) -> FollowedStream[bytes]: ...

    async def follow(
        self,
        id: str,
        *,
        to: str | None = None,
        after: str = "",
        scope: str = "",
        errors: Errors = "raise",
        **options: Unpack[WriterOptions],
    ) -> FollowedStream[Event] | FollowedStream[bytes]:
        """Return a logged stream, from its start or a cursor, live to its end.

        Returns once the stream has begun.

            return EventStreamResponse(await log.follow(id, to="anthropic", after=last_event_id))

        Each server-sent event has its cursor as `id:`; what follows a cursor is the same at any
        time, in any process.  A stream whose producer died ends as truncated.

        Args:
            id: Id of the stream.
            to: Dialect to write; None for events.
            after: Cursor of the last event that the reader has; "" for the whole stream.
            scope: Scope of the id.
            errors: How events report an error, as for `streamnorm.events`.
            options: How bytes are written, as for `Transcoder`.

        Raises:
            LogError: There is no such stream, or not from there on.
            StoreError: The store failed.
            UnknownDialect: There is no such dialect.
            Exception: It never began: what the provider or the source has raised.
        """
        large_read = LargeRead.take() if after else None
        tail, count = await self._find_tail((scope, id), large_read)
        tag = tag_of(None, b"") if to is None else _tag_of_writer(to, options)
        position = _position(after, tail, tag, count)
        reader = LogReader(tail, await tail.origin(), position.read, large_read)
        if to is None:
            return follow_events(tail, reader, position, tag, errors)
        return follow_bytes(tail, reader, lookup(to).name, position, tag, options)

    async def follow_answer(
        self, id: str, *, after: str = "", scope: str = "", **options: Unpack[WriterOptions]
    ) -> FollowedStream[bytes]:
        """Return a logged stream as bytes, in the dialect of its original request.

        Args:
            id: Id of the stream.
            after: As for `follow`.
            scope: Scope of the id.
            options: Options beside those that are stored.

        Raises:
            LogError: There is no such stream, not from there on, or it was asked for in no dialect.
            StoreError: The store failed.
            Exception: It never began: what the provider or the source has raised.
        """
        large_read = LargeRead.take() if after else None
        tail, count = await self._find_tail((scope, id), large_read)
        origin = await tail.origin()
        if origin.to is None:
            raise LogError("the stream was asked for in no dialect, name one", code="no_dialect")
        asked: WriterOptions = {**writer_options(origin), **options}
        tag = _tag_of_writer(origin.to, asked)
        position = _position(after, tail, tag, count)
        reader = LogReader(tail, origin, position.read, large_read)
        return follow_bytes(tail, reader, origin.to, position, tag, asked)

    async def open_reader(self, id: str, *, scope: str = "") -> LogReader:
        """Return a reader of the original bytes of a logged stream, live to the stream's end.

        Returns once the stream has begun.  Nothing is decoded, and nothing redacted.

        Args:
            id: Id of the stream.
            scope: Scope of the id.

        Raises:
            LogError: There is no such stream, or not from its start.
            StoreError: The store failed.
            Exception: It never began: what the provider or the source has raised.
        """
        tail, _ = await self._find_tail((scope, id))
        return LogReader(tail, await tail.origin())

    async def cancel(self, id: str, *, scope: str = "") -> bool:
        """Stop a stream, in whichever process its producer is; return whether it was running.

        What was read stays, and ends as cancelled, with the usage by then.

        Raises:
            StoreError: The store failed.
        """
        production = self._productions.get((scope, id))
        if production is not None and not production.has_ended:
            production.cancel()
            return True
        return await self._store.acancel(scope, id)

    async def status(self, id: str, *, scope: str = "") -> StreamStatus:
        """Return the status of a stream.

        Raises:
            StoreError: The store failed.
        """
        try:
            record, _ = await self._find((scope, id), NO_READS)
        except LogError as exc:
            return StreamStatus("expired" if exc.code == "expired" else "unknown")
        if record.ending is None:
            return StreamStatus("running", record.count, record.size, epoch=record.epoch)
        ending = unpack_ending(record.ending)
        return StreamStatus(
            ending.state, record.count, record.size, ending.usage, epoch=record.epoch
        )

    async def aclose(self) -> None:
        """Close the store."""
        await self._store.aclose()

    async def _find(self, key: Key, after: int, max_bytes: int = READ_BYTES) -> Reading:
        """Return a stream's record in the store, and its reads after a position, up to a size.

        Ends the stream if its producer has died.

        Raises:
            LogError: The store has no record.
        """
        reading = await self._store.aread(*key, after, max_bytes, 0)
        if reading is None:
            raise LogError("no stream has this id", code="unknown")
        record = reading.record
        if record.is_expired:
            raise LogError("the stream of this id has expired", code="expired")
        if record.is_running and record.lease_s < 0:
            await self._store.aend(*key, record.epoch, DEAD)
            return await self._find(key, after, max_bytes)
        return reading

    async def _find_tail(self, key: Key, large_read: LargeRead | None = None) -> tuple[Tail, int]:
        """Return the `Tail` of a stream, and the number of reads in the stream.

        Raises:
            LogError: The store has none.
        """
        if key not in self._productions:
            # The first reads come with the record, unless a tail that readers share has them.
            known = self._tails.get(key)
            has_start = known is not None and known.has_start
            after = NO_READS if has_start else 0
            reading = await self._find(key, after, read_size(large_read))
            if key not in self._productions:  # nor has this process begun it meanwhile
                tail = self._tail(key, reading.record, is_fed=False)
                tail.begin(reading)
                return tail, reading.record.count
        tail = self._productions[key].tail
        return tail, tail.count

    def _tail(self, key: Key, record: Record, *, is_fed: bool) -> Tail:
        tail = self._tails.get(key)
        if tail is None or is_fed or tail.epoch != record.epoch:
            on_read = None if record.linger_s is None else self._tell_followed
            tail = Tail(self._store, key, record.epoch, is_fed=is_fed, on_read=on_read)
            self._tails[key] = tail
        return tail

    async def _stop_cancelled(self) -> None:
        """Stop the streams of this process that other processes have cancelled."""
        # One production at a time does it for all.
        async with self._watch:
            while True:
                await anyio.sleep(_CANCEL_POLL_S)
                try:
                    cancelled = await self._store.acancelled()
                except StoreError:
                    continue
                for production in self._productions.values():
                    if production.tail.epoch in cancelled:
                        production.cancel()

    async def _stop_unfollowed(self) -> None:
        """Stop the streams of this process that had no follower for `linger_s`."""
        while True:
            await anyio.sleep(max(0.0, self._told_at_s + _FOLLOW_S - monotonic()))
            await self._tell_followed()

    async def _tell_followed(self) -> None:
        """Report followed streams to the store, and stop the streams that nobody follows.

        Once a second: the readers and producers of a process do it for each other.
        """
        now_s = monotonic()
        if now_s < self._told_at_s + _FOLLOW_S:
            return
        self._told_at_s = now_s
        tails = [tail for tail in self._tails.values() if tail.on_read is not None]
        followed = {tail.epoch: tail.key for tail in tails if tail.take_followed()}
        fed = [production.tail for production in self._productions.values()]
        produced = {tail.epoch: tail.key for tail in fed if tail.on_read is not None}
        try:
            unfollowed = await self._store.afollow(followed, produced)
        except StoreError:
            return  # a reader needs its reads alone
        for production in self._productions.values():
            if production.tail.epoch in unfollowed:
                production.leave()


def _check_fingerprint(found: bytes, expected: bytes) -> None:
    """Check that an id belongs to a request with the same fingerprint.

    Raises:
        LogError: It is that of the answer to another.
    """
    if found != expected:
        raise LogError("the id is that of the answer to another request", code="conflict")


def _tag_of_writer(to: str, options: WriterOptions) -> str:
    """Return the tag of the cursors in a stream that is written in a dialect with options."""
    seen = {name: value for name, value in options.items() if name not in _UNSEEN}
    return tag_of(lookup(to).name, pack_options(seen))


def _position(after: str, tail: Tail, tag: str, count: int) -> Position:
    """Return the position in the cursor `after`; the start of the stream without a cursor.

    Args:
        after: The cursor; "" if it has none.
        tail: The last reads of the stream.
        tag: Tag of its cursors.
        count: Number of reads that there are.

    Raises:
        LogError: The cursor is none of the stream.
    """
    position = read_cursor(after, tail.epoch, tag) if after else START
    if position.read > count + 1:
        raise LogError("the cursor names no place in the stream", code="bad_cursor")
    return position
