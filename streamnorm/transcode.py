"""One dialect's bytes to another's, without I/O; to the same, untouched or cleaned."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypedDict

from streamnorm._registry import decoder, encoder
from streamnorm.accumulate import Accumulator
from streamnorm.codec import Delta, StreamWriter, Turns, part_of
from streamnorm.events import Event, Outcome, StreamError, Usage, UsageUpdate
from streamnorm.failures import error_outcome
from streamnorm.limits import Limits
from streamnorm.losses import Loss, Note, OnLoss, OnNote, ReasoningField
from streamnorm.messages import Message
from streamnorm.original import Original, Splitter

__all__ = ["Ordering", "TranscodeOptions", "Transcoder"]

Ordering = Literal["sequential", "interleaved"]


class TranscodeOptions(TypedDict, total=False):
    """How a stream is transcoded; see `Transcoder`."""

    ordering: Ordering
    verbatim: bool
    strict: bool
    limits: Limits
    on_loss: OnLoss | None
    on_note: OnNote | None
    server: str | None
    think_tags: bool
    model: str | None
    include_usage: bool
    reasoning: ReasoningField | None


class Transcoder:
    """Turn the stream of one dialect into the stream of another.

    What can go out goes out in the same `feed`, as one piece of bytes.  A stream that
    fails ends in the target's form of an error, never in its form of success.

    Where source and target are the same, the bytes go out as they came, a JSON array as the
    events that it is, while their events are observed; only what breaks the stream (a cut, a
    limit, an error that stood in no event) is told behind them, in the dialect's form of an
    error.  `verbatim=False`, or an option that changes what is written, makes it write the
    stream anew: names and ids once, indexes dense, one block at a time.

    Args:
        source: Dialect to read; None to find out.
        target: Dialect to write.
        ordering: `sequential` writes one block at a time, as most clients need;
            `interleaved` writes blocks as they come, for clients known to cope.
        verbatim: Whether the bytes stay as they are where both dialects are the same.
        strict: Whether to raise `LossyEncoding` at the first loss.
        limits: Bounds.
        on_loss: Called with each loss as it happens.
        on_note: Called with each note as it happens.
        server: Who sends, where that decides between two readings.
        think_tags: Read `<think>…</think>` at the start of an answer as reasoning.
        model: Model to name in place of the one that answered.
        include_usage: Whether to write the tokens in Chat Completions.
        reasoning: Field of Chat Completions that reasoning is written to; None leaves
            reasoning out, in any dialect.

    Raises:
        UnknownDialect: A dialect does not exist, or does not do its part.
    """

    def __init__(
        self,
        source: str | None,
        target: str,
        *,
        ordering: Ordering = "sequential",
        verbatim: bool = True,
        strict: bool = False,
        limits: Limits = Limits(),  # noqa: B008 - frozen
        on_loss: OnLoss | None = None,
        on_note: OnNote | None = None,
        server: str | None = None,
        think_tags: bool = False,
        model: str | None = None,
        include_usage: bool = True,
        reasoning: ReasoningField | None = "reasoning_content",
    ) -> None:
        self._decoder = decoder(
            source, server=server, think_tags=think_tags, limits=limits, on_note=on_note
        )
        self._encoder = encoder(
            target,
            model=model,
            strict=strict,
            on_loss=on_loss,
            include_usage=include_usage,
            reasoning=reasoning,
        )
        self._writer = StreamWriter(self._encoder, ordered=ordering == "sequential", limits=limits)
        self._accumulator = Accumulator(limits=limits)
        self._begun = False  # whether the tokens that came with the start were told
        self._finished = False  # whether what follows the last event was written
        # What reads, keeps and writes chunks that only continue a block, one after the other.
        self._more: Callable[[bytes], str | None]
        self._keep: Callable[[str], None] | None = None
        self._write: Callable[[str], bytes]
        self._turns: Turns | None = None  # the same, of several blocks
        self._latest = -1  # the block that the chunk before might have been continued in
        self._continued: set[int] = set()  # those of the chunks before
        changes = model is not None or not include_usage or reasoning != "reasoning_content"
        self._verbatim = verbatim and not changes
        self._original: Original | None = None  # the bytes, where they go out as they came
        self._passed = b""  # the last of them that went the short way
        self._undecided: bytes | None = b""  # those that came before the source was known
        self._splitter = Splitter()
        if self._decoder.dialect:
            self._decide()

    def feed(self, data: bytes) -> list[bytes]:
        """Return the bytes that `data` makes known, as one piece, or nothing.

        Raises:
            LossyEncoding: `strict`, and the target cannot carry something.
            LocalProtocolError: The transcoder was closed.
        """
        keep = self._keep
        if keep is not None:
            accumulator, size = self._accumulator, len(data)
            if size > accumulator.room:
                accumulator.refill()
            if size <= accumulator.room and (text := self._more(data)) is not None:
                accumulator.room -= size
                keep(text)
                if self._original is not None:
                    self._passed = data
                    return [data]
                written = self._write(text) if text else b""
                return [written] if written else []
        elif self._turns is not None and (told := self._turns.feed(data)) is not None:
            if self._writer.failure is not None:
                self._turns = None
            if self._original is not None:
                self._passed = data
            return [told] if told else []
        if not self._verbatim or (self._original is None and self._undecided is None):
            return self._feed(data)
        self._follow()
        pieces = self._splitter.split(data)
        return self._feed(data) if len(pieces) < 2 else self._feed_each(pieces)

    def _feed_each(self, pieces: list[bytes]) -> list[bytes]:
        """Take events one by one: what breaks the stream ends it, whatever came with it."""
        parts: list[bytes] = []
        for piece in pieces:
            keep, room = self._keep, self._accumulator.room - len(piece)
            if (
                keep is not None
                and self._original is not None
                and room >= 0
                and (text := self._more(piece)) is not None
            ):
                self._accumulator.room = room
                keep(text)
                parts.append(self._original.take(piece))
            else:
                parts += self._feed(piece)
        return parts if len(parts) < 2 else [b"".join(parts)]

    def _feed(self, data: bytes) -> list[bytes]:
        """Take a chunk that may hold anything."""
        self._leave()
        events = self._decoder.feed(data)
        if self._original is not None or self._undecided is not None:
            data = self._decoder.framed(data)
        if self._undecided is not None:
            data = self._undecided = self._undecided + data
            if self._decoder.dialect:
                self._decide()
        if self._original is None:
            written = self._encode(events, len(data))
        else:
            written = self._observe(self._original, events, data)
        last = self._decoder.continued
        if last is None or self._writer.failure is not None:
            self._latest = -1
            self._continued.clear()
        elif self._original is None or self._original.between_events:
            self._expect_more(last)
        return written

    def _expect_more(self, last: Delta) -> None:
        """Take the short way for the chunks that follow, if they are like this one."""
        index, original = last.index, self._original
        if index == self._latest:  # two in a row are the beginning of many
            write = self._writer.more(last) if original is None else None
            if write is not None:
                self._write = write
            if write is not None or original is not None:
                self._more = self._decoder.reader.more
                self._keep = self._accumulator.keeper(index, part_of(last))
        if self._keep is None and index in self._continued:
            writer = self._writer if original is None else None
            self._turns = Turns(self._decoder, self._accumulator, writer)
        self._latest = index
        self._continued.add(index)

    def close(self) -> list[bytes]:
        """Return the bytes that the end of the source makes known."""
        self._leave()
        return self._last(self._decoder.close())

    def abort(self, cause: BaseException) -> list[bytes]:
        """Return the bytes that the failure of the source makes known."""
        self._leave()
        return self._last(self._decoder.abort(cause))

    def ping(self) -> bytes:
        """Return a sign of life for the client.

        Nothing once the stream has ended, nor in the middle of an event of the source.
        """
        within = self._original is not None and not self._original.between_events
        return b"" if within or self.outcome is not None else self._encoder.ping()

    @property
    def outcome(self) -> Outcome | None:
        """How the stream ended; None until it has."""
        failure = self._writer.failure
        return error_outcome(failure) if failure else self._decoder.outcome

    @property
    def dialect(self) -> str:
        """Name of the dialect that is read; empty while that is not known."""
        return self._decoder.dialect

    @property
    def untouched(self) -> bool:
        """Whether the bytes go out as they came; not before the dialect that is read is known."""
        return self._original is not None

    @property
    def frames(self) -> int:
        """How many frames were read."""
        return self._decoder.frames

    @property
    def losses(self) -> tuple[Loss, ...]:
        """What the target could not carry."""
        return self._encoder.losses

    @property
    def notes(self) -> tuple[Note, ...]:
        """What the decoder forgave."""
        return self._decoder.notes

    @property
    def message(self) -> Message:
        """What has arrived so far.

        Raises:
            LimitExceeded: It is larger than `max_accumulated_bytes`.
        """
        self._catch_up()
        return self._accumulator.message()

    @property
    def usage(self) -> Usage:
        """The last snapshot of the tokens."""
        self._catch_up()
        return self._accumulator.usage

    def _leave(self) -> None:
        """Leave the short way."""
        if self._keep is not None or self._turns is not None:
            self._catch_up()
            self._follow()
        self._keep = self._turns = None

    def _follow(self) -> None:
        """Know where the bytes end that went the short way: there an event does."""
        passed, self._passed = self._passed, b""
        if passed and self._original is not None:
            self._original.take(passed)
            self._splitter.follow(passed)

    def _catch_up(self) -> None:
        """Take the tokens that chunks told which only continued a block."""
        event = self._decoder.reader.counted()
        if event is not None:
            self._accumulator.extend((event,))
            self._writer.count(event)

    def _decide(self) -> None:
        """Find out what to do, now that the source is known."""
        self._undecided = None
        if self._decoder.dialect == self._encoder.dialect:
            self._encoder.extras = True
            if self._verbatim:
                self._original = Original()

    def _last(self, events: list[Event]) -> list[bytes]:
        rest, self._undecided = self._undecided or b"", None
        if rest and self._decoder.dialect == self._encoder.dialect:
            self._decide()
        if self._original is not None:
            return self._observe(self._original, events, rest)
        return self._encode(events)

    def _observe(self, original: Original, events: list[Event], data: bytes) -> list[bytes]:
        """Return bytes as they came, and what breaks the stream behind them."""
        if self._writer.failure is not None:
            return []
        kept = self._accumulator.take(events, len(data))
        parts = [original.take(data)] if data else []
        last = kept[-1] if kept else None
        if isinstance(last, StreamError) and (last.kind != "upstream" or self._decoder.unframed):
            self._writer.fail(last)
            self._encoder.go_on(self._accumulator.start, self._decoder.reader.number)
            parts.append(original.end_event() + self._encoder.render(last))
        return parts if len(parts) < 2 else [b"".join(parts)]

    def _encode(self, events: list[Event], size: int = 0) -> list[bytes]:
        if self._writer.failure is not None:
            return []
        kept = self._accumulator.take(events, size)
        if not kept:
            return []
        if not self._begun and self._decoder.first_usage is not None:
            self._begun = True
            self._encoder.render(UsageUpdate(self._decoder.first_usage))
        parts = self._writer.write(kept)
        last = kept[-1]
        if kept is not events and self._writer.failure is None and isinstance(last, StreamError):
            self._writer.fail(last)
        if self._decoder.outcome is not None and not self._finished:
            self._finished = True
            if rest := self._encoder.close():
                parts.append(rest)
        return parts if len(parts) < 2 else [b"".join(parts)]
