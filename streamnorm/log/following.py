"""Streams of a log, followed from any position as events or as bytes of a dialect."""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate, islice, takewhile
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

import msgspec
from anyio.lowlevel import checkpoint
from msgspec import structs

from streamnorm._core.bodies.request import Reply
from streamnorm._core.codec.framing import SSE, add_id, list_events
from streamnorm._core.errors import LogError, RemoteProtocolError
from streamnorm._core.events import Event
from streamnorm._core.losses import Note
from streamnorm._core.source_failures import SourceStopped
from streamnorm.aio.pump import Pump, TranscodePump
from streamnorm.aio.stream import Stream
from streamnorm.aio.transcoding import EventPump
from streamnorm.log.cursors import START, Position
from streamnorm.log.records import Chunk, Ending, Origin, read_options
from streamnorm.log.tails import LargeRead, read_size

if TYPE_CHECKING:
    from streamnorm._transcoder import TranscodeOptions, WriterOptions
    from streamnorm.aio.pump import Errors, ReadOptions
    from streamnorm.log.tails import Tail

T = TypeVar("T")

_NO_READS = Chunk(1, [], [])
_JOINED_BYTES = 64 * 1024
# What is written of reads at hand becomes one item, since each costs its consumer a write to its
# client; up to so many bytes, since a thousand slow clients hold one each.
_ITEM_BYTES = 16 * 1024
_CR = 13


class LogReader:
    """Reader of a logged stream, which returns the source's bytes and ends as the source ended.

    Args:
        tail: The last reads of the stream.
        origin: The origin.
        joined_before: Number of a read; of those before it the reader's client has all that they
            give, so that several may be returned as one.
        large_read: The right to read much at once, as long as the client is behind; None to read
            less.

    Attributes:
        origin: As above.
        position: Number of the last read that was returned; one more for the end.
        gap_ms: Milliseconds between its arrival and that of the one before.
        status: HTTP status of the response; None if the source is none.
        content_type: The `content-type`.
        error_type: Type of the error that a header states.
        headers: Those that a stream depends on.
        has_lost_stream: Whether the log failed: what is read then is not the stream's.
        last_fields: Fields of the response that the last event has in place of others; set with the
            last read.
    """

    def __init__(
        self,
        tail: Tail,
        origin: Origin,
        joined_before: int = 0,
        large_read: LargeRead | None = None,
    ) -> None:
        self.origin = origin
        self.position = 0
        self.gap_ms = 0
        self.status, self.content_type = origin.status, origin.content_type
        self.error_type, self.headers = origin.error_type, origin.headers
        self.has_lost_stream = False
        self.last_fields: dict[str, Any] = {}
        self._tail = tail
        self._joined_before = joined_before
        self._large_read = large_read
        self._chunk: Chunk = _NO_READS
        self._next = 0  # in the chunk

    async def read(self) -> bytes:
        """Return the bytes of the source's next read.

        Raises:
            StopAsyncIteration: The source ended completely.
            Exception: It ended in another way, or the store has failed.
        """
        if self._tail.on_read is not None:
            await self._tail.note_reader()
        while True:
            if self._next == len(self._chunk.reads):
                self._chunk, self._next = await self._read_tail(), 0
                if not self._chunk.reads:
                    break
            if 0 < self.position < self._joined_before - 2:
                await checkpoint()  # of the event loop: a long stream takes some time
                return self._join()
            data = self._take_next()
            if self.position > 1:  # the first is the origin
                return data
        self.position += 1
        self._learn_end()
        if self.ending is None or self.ending.cause == "eof":
            raise StopAsyncIteration
        raise _failure_of(self.ending)

    def _take_next(self) -> bytes:
        """Return the bytes of the next read in the stored chunk."""
        chunk, number = self._chunk, self._next
        data, self.gap_ms = chunk.reads[number], chunk.gaps_ms[number]
        self._next = number + 1
        self.position += 1
        if self._next == len(chunk.reads):  # it may be the last of all
            self._learn_end()
        return data

    async def _read_tail(self) -> Chunk:
        """Return the chunk of reads after the position; an empty chunk at the end of the stream."""
        left = self._joined_before - self.position
        try:
            if left <= 0:
                self._large_read = None
                return await self._tail.read(self.position)
            chunk = await self._tail.read(self.position, read_size(self._large_read))
        except Exception:
            self.has_lost_stream = True
            raise
        # What its client has is returned at once: a reader that waits for its client holds the
        # less that `Tail.read` returns by itself.
        return Chunk(chunk.first, chunk.reads[:left], chunk.gaps_ms[:left])

    def _join(self) -> bytes:
        """Join and return the bytes of the next reads before `joined_before`, up to a size."""
        reads, start = self._chunk.reads, self._next
        end = min(len(reads), start + self._joined_before - 1 - self.position)
        ends = accumulate(map(len, islice(reads, start, end)))
        before_last = list(takewhile(_JOINED_BYTES.__gt__, ends))
        self._next = min(end, start + len(before_last) + 1)
        self.position += self._next - start
        return b"".join(reads[start : self._next])

    @property
    def is_stored(self) -> bool:
        """Whether the store has the stream."""
        return not self._tail.is_broken

    @property
    def ending(self) -> Ending | None:
        """How the stream ended; None while it runs."""
        return self._tail.ending

    def _learn_end(self) -> None:
        """Set `last_fields` once all bytes are returned, because the end comes next."""
        ending = self._tail.ending
        if ending is not None and ending.response and self.position >= self._tail.count:
            self.last_fields = ending.response

    async def close(self) -> None:
        """Drop the stored bytes that were not yet returned."""
        self._chunk, self._next = _NO_READS, 0
        self._large_read = None

    def read_at_hand(self) -> bytes | None:
        """Return the next bytes if they have arrived and are new to the client, else None."""
        if self._next == len(self._chunk.reads) or self.position < self._joined_before:
            return None
        return self._take_next()


class _Stopped(SourceStopped):
    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def _failure_of(ending: Ending) -> Exception:
    """Return the exception that readers get in place of the source's exception."""
    if ending.cause == "timeout":
        return TimeoutError()
    if ending.cause == "undecodable":
        return RemoteProtocolError(ending.reason)
    return _Stopped(ending.reason) if ending.reason else ConnectionError()


class _Places:
    """Positions of a followed stream's items; counts the items that the client already has.

    Args:
        reader: The reader of the stream.
        prefix: What cursors begin with.
        after: The position of the last item that the reader has.
    """

    def __init__(self, reader: LogReader, prefix: str, after: Position) -> None:
        self._reader = reader
        self._prefix = prefix.encode()
        self._after = after
        self._is_found = after == START  # whether its item has come
        self._last: tuple[int, int] = START

    @property
    def is_behind(self) -> bool:
        """Whether all items of the source's latest read precede the client's position."""
        return self._reader.position < self._after.read and not self._reader.has_lost_stream

    def skip(self, count: int) -> int:
        """Return how many items of the source's latest read the client already has.

        Raises:
            LogError: The reader's item was none of the stream's.
        """
        if self._reader.has_lost_stream:
            return 0
        read, event = self._after
        position = self._reader.position
        skipped = count
        if position == read and event < count:
            self._is_found = True
            skipped = event + 1
        elif position > read and count:
            if not self._is_found:
                raise LogError("the cursor names no place in the stream", code="bad_cursor")
            skipped = 0
        if skipped < count:
            self._last = position, count - 1
        return skipped

    def pass_event(self) -> bytes | None:
        """Return the cursor of the latest read's only event; None if `skip` must decide."""
        reader, position = self._reader, self._reader.position
        if position <= self._after.read or not self._is_found or reader.has_lost_stream:
            return None
        self._last = position, 0
        return b"%b%d" % (self._prefix, position)

    def cursor(self, waiting: int = 0) -> str:
        """Return the cursor of the last item that is not pending; "" without such an item."""
        read, event = self._last
        return self.write(read, event - waiting).decode() if read else ""

    def write(self, read: int, event: int) -> bytes:
        """Return a position as a cursor."""
        if event:
            return b"%b%d.%d" % (self._prefix, read, event)
        return b"%b%d" % (self._prefix, read)


class _BytesPump(TranscodePump):
    """Pump that returns a followed stream as bytes of a dialect."""

    def __init__(
        self,
        reader: LogReader,
        tail: Tail,
        origin: Origin,
        to: str,
        places: _Places,
        fields: dict[str, Any],
        **options: Unpack[TranscodeOptions],
    ) -> None:
        self._tail = tail
        self._reader = reader
        self._places = places
        self._fields = fields  # of the reply, of which the encoder writes the response
        super().__init__(reader, origin.dialect, to, on_end=None, **options)
        self._transcoder.set_minted_id(origin.minted_id)
        self._marks_events = self.framing is SSE
        # What precedes a loss is returned before `strict` raises that.
        self._joins = self._marks_events and not options.get("strict")

    @property
    def cursor(self) -> str:
        """Cursor of the last returned event."""
        return self._places.cursor()

    def feed(self, data: bytes) -> bytes | None:
        """Process the next bytes, and the bytes after them that have already arrived."""
        written = self._feed_read(data)
        if not self._joins or self.ended:
            return written
        read_at_hand = self._reader.read_at_hand
        if (following := read_at_hand()) is None:
            return written
        pieces = [written or b""]
        size = len(pieces[0])
        while following is not None:
            if written := self._feed_read(following):
                pieces.append(written)
                size += len(written)
            following = None if self.ended or size >= _ITEM_BYTES else read_at_hand()
        joined = b"".join(pieces)
        if self.ended:
            joined += b"".join(self.pending)
            self.pending = [joined] if joined else []
            return None
        return joined or None

    def _feed_read(self, data: bytes) -> bytes | None:
        if self._reader.last_fields:
            self._replace_fields()
        written = super().feed(data)
        return None if written is None else self._mark(written)

    def _close(self) -> None:
        self._replace_fields()
        super()._close()

    def _replace_fields(self) -> None:
        self._fields.update(self._reader.last_fields)

    def _finish(self, pieces: list[bytes]) -> None:
        super()._finish(pieces)
        marked = [self._mark(piece) for piece in self.pending]
        self.pending = [piece for piece in marked if piece is not None]

    def _mark(self, written: bytes) -> bytes | None:
        """Return the events that are new to the client, each with its cursor as `id:`."""
        # What most reads give: one event, whose lines end by LF.
        if (
            self._marks_events
            and written.find(b"\n\n") == len(written) - 2
            and _CR not in written
            and not self._tail.is_broken
            and (cursor := self._places.pass_event()) is not None
        ):
            return b"%bid: %b\n\n" % (written[:-1], cursor)
        if self._places.is_behind:
            return None
        if not self._marks_events:
            return None if self._places.skip(1) else written
        events = list_events(written)
        skipped = self._places.skip(len(events))
        if skipped == len(events):
            return None
        # Nobody could read on from there.
        if self._tail.is_broken or self._reader.has_lost_stream:
            return b"".join(events[skipped:])
        cursor = self._places.write(self._reader.position, 0)
        if len(events) == 1:  # as of most reads
            return add_id(written, cursor)
        return b"".join(
            [
                add_id(event, b"%b.%d" % (cursor, number) if number else cursor)
                for number, event in enumerate(events[skipped:], skipped)
            ]
        )


class _EventPump(EventPump):
    """Pump that returns a followed stream as events."""

    def __init__(
        self,
        reader: LogReader,
        origin: Origin,
        errors: Errors,
        places: _Places,
        **options: Unpack[ReadOptions],
    ) -> None:
        self._places = places
        super().__init__(reader, origin.dialect, errors=errors, **options)

    @property
    def cursor(self) -> str:
        """Cursor of the last returned event."""
        return self._places.cursor(len(self.pending))

    def feed(self, data: bytes) -> Event | None:
        event = super().feed(data)
        if event is not None:
            return None if self._places.skip(1) else event
        if not self.ended:
            self._skip()
        return None

    def _finish(self, events: list[Event], accumulated: list[Event]) -> None:
        super()._finish(events, accumulated)
        self._skip()

    def _skip(self) -> None:
        count = len(self.pending)
        self.pending = self.pending[: count - self._places.skip(count)]  # the last is the next


class FollowedStream(Stream[T]):
    """A stream read from a log, created by `Log.follow`.

    Attributes:
        to: Dialect of its bytes; None for events.
        created: When its source was opened, in seconds since 1970; None where that is not stored.
    """

    def __init__(
        self,
        pump: Pump[T],
        reader: LogReader,
        cursor: Callable[[], str],
        reply: Reply,
        to: str | None = None,
    ) -> None:
        super().__init__(pump, reader)
        self.to = to
        self.created = reader.origin.created
        self._cursor = cursor
        self._log_reader = reader
        self._reply = reply

    @property
    def notes(self) -> tuple[Note, ...]:
        """The decoder's notes, and `not_stored` if the log lacks the stream."""
        notes = super().notes
        return notes if self._log_reader.is_stored else (*notes, Note("not_stored", "stream", 1))

    @property
    def is_cancelled(self) -> bool:
        """Whether the stream was cancelled, which is known once it has ended."""
        ending = self._log_reader.ending
        return ending is not None and ending.state == "cancelled"

    @property
    def reply(self) -> Reply:
        """`Reply` of the stream's request, for `encode_message`."""
        response = {**self._reply.response, **self._log_reader.last_fields}
        return structs.replace(self._reply, response=response)

    @property
    def cursor(self) -> str:
        """Cursor of the last returned item; "" before the first.

        `follow` with `after=cursor` gives what is behind it.  Each server-sent event has its own
        cursor as its `id:`.
        """
        return self._cursor()


def follow_bytes(
    tail: Tail, reader: LogReader, to: str, after: Position, tag: str, options: WriterOptions
) -> FollowedStream[bytes]:
    """Return a logged stream as bytes of a dialect.

    Args:
        tail: The last reads of the stream.
        reader: Reader of the stream.
        to: The dialect.
        after: Position of the last event that the reader has.
        tag: Tag of its cursors.
        options: Options of the transcoder, those of the origin excluded.
    """
    origin = reader.origin
    places = _Places(reader, f"{tail.epoch}-{tag}.", after)
    reply = _reply_of(origin)
    pump = _BytesPump(
        reader,
        tail,
        origin,
        to,
        places,
        reply.response,
        **options,
        **read_options(origin),
        reply=reply,
    )
    return FollowedStream(pump, reader, lambda: pump.cursor, reply, to)


def follow_events(
    tail: Tail, reader: LogReader, after: Position, tag: str, errors: Errors
) -> FollowedStream[Event]:
    """Return a logged stream as events; arguments as for `follow_bytes`."""
    origin = reader.origin
    places = _Places(reader, f"{tail.epoch}-{tag}.", after)
    pump = _EventPump(reader, origin, errors, places, **read_options(origin))
    return FollowedStream(pump, reader, lambda: pump.cursor, _reply_of(origin))


def _reply_of(origin: Origin) -> Reply:
    return Reply() if origin.reply is None else msgspec.json.decode(origin.reply, type=Reply)
