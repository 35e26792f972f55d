"""`Production`: the producer of one stream, from its source to the store."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from secrets import token_hex
from time import monotonic, time
from typing import Any, NamedTuple, TypeAlias

import anyio
import msgspec
from msgspec import Struct, structs

from streamnorm._core.bodies.request import Reply
from streamnorm._core.codec.framing import Framing
from streamnorm._core.errors import RemoteProtocolError, StreamnormError
from streamnorm._core.events import Completed, Failed, Outcome, Usage
from streamnorm._core.source_failures import SourceStopped, broken_connection
from streamnorm._registry import lookup
from streamnorm._transcoder import WriterOptions
from streamnorm.aio.pump import Head, Pump
from streamnorm.aio.sources import AsyncReader, AsyncSource
from streamnorm.aio.stream import Stream
from streamnorm.aio.transcoding import TapPump
from streamnorm.log.committing import LAPSED, Appender, GroupCommit
from streamnorm.log.records import (
    Cause,
    Ending,
    Key,
    Origin,
    State,
    add_head,
    bound_usage,
    pack,
    pack_options,
    read_options,
)
from streamnorm.log.tails import Tail


class ObservedSource(NamedTuple):
    """A source that is decoded while it is read, so that its outcome is known.

    Attributes:
        stream: The bytes that it sends, unchanged.
        pump: Pump of that stream.
        head: Head of the response.
    """

    stream: Stream[bytes]
    pump: Pump[bytes]
    head: Head


class OpenedSource(Struct, frozen=True, kw_only=True):
    """An opened source with its dialect, server and request context.

    Attributes:
        source: The source, as for `events`, or one that is observed; it is closed on every path.
        dialect: The dialect; None to detect it.
        server: Name of its server.
        think_tags: Whether `<think>…</think>` is reasoning.
        framing: The framing; None for that of the dialect.
        reply: What `encode_request` returned for the request that is answered.
        to: Dialect that the stream is asked for in; see `Log.follow_answer`.
        options: Options of its writer, without `limits` and functions.
        last_fields: Returns fields of the response that its last event has in place of the
            reply's; called when the source has ended.
    """

    source: AsyncSource | ObservedSource
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

# The end of a stream is stored even if its task is cancelled.
_END_S = 2.0
_CANCELLED = "the stream was cancelled"
_UNFOLLOWED = "the stream was cancelled because nobody followed it"
_STOPPED = "its producer was stopped"


class Production:
    """A running producer of one stream.

    Args:
        commits: The group commit of the process; None to publish without a store.
        key: The scope and id.
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
        commits: GroupCommit | None,
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
        self._commits = commits
        self._appender = Appender(commits, key, tail, lease_s=lease_s, on_lapse=self._lapse)
        self._lease_s = lease_s
        self._max_bytes = max_bytes
        self._ending: Ending | None = None
        self._stream: Stream[bytes] | None = None
        self._has_ended = anyio.Event()
        self._reading = anyio.CancelScope()
        self._renewing = anyio.CancelScope()

    async def wait(self) -> State:
        """Wait for the stream's end; return its state.

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
        """Stop the stream; store the bytes so far, and the end `cancelled`."""
        self._stop("cancelled", _CANCELLED)

    def leave(self) -> None:
        """Stop the stream because it has no followers, as if cancelled."""
        self._stop("cancelled", _UNFOLLOWED)

    async def run(self, open_source: _Opener) -> None:
        """Read the source to its end, and store the bytes."""
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._store)
                tasks.start_soon(self._renew_lease)
                await self._read(open_source)
                self._renewing.cancel()
            await self._finish()
        except BaseException:
            self._stop("truncated", _STOPPED)
            with anyio.move_on_after(_END_S, shield=True):
                await self._store()
                await self._finish()
            raise
        finally:
            # The store is late, or failed in a way of its own: readers do not wait for it.
            if self.tail.ending is None and self.tail.failure is None:
                self._appender.lose_store()
                await self._finish()
            self._has_ended.set()

    async def _read(self, open_source: _Opener) -> None:
        """Read the source until it ends or is stopped."""
        opened_s = monotonic()
        with self._reading:
            async with AsyncExitStack() as stack:
                try:
                    opened = await stack.enter_async_context(open_source())
                    origin = origin_of(opened)
                    source = opened.source
                    if not isinstance(source, ObservedSource):
                        source = _observe(source, origin)
                    self._stream = await stack.enter_async_context(source.stream)
                except Exception as exc:  # noqa: BLE001 - whatever opens a source may raise
                    self._fail(exc)
                    return
                try:
                    await self._read_stream(source, origin, opened_s)
                except StreamnormError as exc:
                    # A failure behind the first byte stands in the ending.
                    if self._appender.is_empty:
                        self._fail(exc)
                        return
                cause, reason = _cause_of(source.pump.cause)
                state, fields = _state_of(source.stream.outcome), opened.last_fields()
                # Before the source is closed, which takes its time: the end is stored with the last
                # read, and decides about its events.
                self._end(Ending(state, cause, reason, response=fields))

    async def _read_stream(self, source: ObservedSource, origin: Origin, opened_s: float) -> None:
        pump, append = source.pump, self._appender.append
        size = elapsed_ms = 0
        async for data in source.stream:
            # It may have been stopped meanwhile, and an end has nothing behind it.
            if data and self._ending is None:
                # Times since the start are rounded, so that errors do not add up.
                gap_ms = round((monotonic() - opened_s) * 1000) - elapsed_ms
                elapsed_ms += gap_ms
                if not size:
                    append(pack(add_head(origin, source.head)), 0)
                append(data, gap_ms)
                size += len(data)
            if size > self._max_bytes:
                self._stop("truncated", f"the bound of {self._max_bytes} bytes was reached")
            # Some servers leave the connection open behind the terminal.
            if pump.outcome is not None or self._ending is not None:
                break
            if self._appender.is_full:
                await self._appender.wait_for_room()

    def _stop(self, state: State, reason: str) -> None:
        """Stop reading, and end the stream at once."""
        if self._ending is None:
            self._end(Ending(state, "lost", reason))
            self._reading.cancel()

    def _fail(self, failure: Exception) -> None:
        """Record that the stream cannot begin, unless it was stopped before."""
        if self._ending is None:
            self.failure = failure
            self._appender.abandon()

    def _lapse(self) -> None:
        """Stop reading, since another process has ended or replaced the stream."""
        self._stop("truncated", LAPSED)

    async def _store(self) -> None:
        """Wait until all appends are stored."""
        if self._commits is not None:
            await self._commits.run(self._appender)

    async def _renew_lease(self) -> None:
        with self._renewing:
            while True:
                await anyio.sleep(self._lease_s / 3)
                self._appender.renew_lease()

    def _end(self, ending: Ending) -> None:
        """Append the end of the stream, with the token counts so far."""
        if self.failure is None and self._ending is None:
            usage = Usage() if self._stream is None else self._stream.usage
            counted = structs.replace(ending, usage=bound_usage(usage))
            self._appender.close(counted)
            self._ending = counted

    async def _finish(self) -> None:
        """Report the end to readers, or release the id of a stream that never began."""
        if self.failure is not None:
            await self._appender.free()
            self.tail.fail(self.failure)
        else:
            self.tail.end(await self._appender.ending())


class _OutcomePump(TapPump):
    """The pump of a source that is read only for its outcome and usage."""

    def feed(self, data: bytes) -> bytes | None:
        self._decoder.makes_deltas = False  # which say nothing of either
        return super().feed(data)


def _observe(source: AsyncSource, origin: Origin) -> ObservedSource:
    """Return a source that is decoded while it is read."""
    reader = AsyncReader(source)
    pump = _OutcomePump(
        reader, origin.dialect, lambda _: None, keep_message=False, **read_options(origin)
    )
    return ObservedSource(Stream(pump, reader), pump, reader)


_CAUSES: dict[str, Cause] = {"malformed": "undecodable", "stalled": "timeout"}


def _cause_of(failure: Exception | None) -> tuple[Cause, str]:
    """Return the cause of a source's end, and the reason if this library stopped it.

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
    """Return the stream state for an outcome."""
    match outcome:
        case Completed():
            return "complete"
        case Failed():
            return "failed"
        case _:
            return "truncated"


def origin_of(opened: OpenedSource) -> Origin:
    """Return a stream's origin, without the head of its response.

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
        created=time(),
    )
