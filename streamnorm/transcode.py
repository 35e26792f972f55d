"""One dialect's bytes to another's, without I/O; to the same, untouched or cleaned."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypedDict

from streamnorm._registry import decoder, encoder
from streamnorm.accumulate import Accumulator
from streamnorm.events import (
    Event,
    JSONDelta,
    MessageStart,
    Outcome,
    ReasoningDelta,
    StreamError,
    TextDelta,
    Usage,
    UsageUpdate,
)
from streamnorm.failures import error_outcome
from streamnorm.limits import Limits
from streamnorm.losses import Loss, Note, OnLoss, OnNote, ReasoningField
from streamnorm.messages import Message
from streamnorm.ordering import Sequencer
from streamnorm.original import Original, Splitter

__all__ = ["Ordering", "TranscodeOptions", "Transcoder"]

Ordering = Literal["sequential", "interleaved"]

_MAX_LIVE = 64  # blocks that are known to need no second look; few are ever open at once


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
        self._render = self._encoder.render
        self._sequencer: Sequencer | None = None
        if ordering == "sequential":
            overlapping = self._encoder.projector.capabilities.overlapping
            self._sequencer = Sequencer(
                overlapping=overlapping, max_held_bytes=limits.max_held_bytes
            )
        self._accumulator = Accumulator(limits=limits)
        self._failure: StreamError | None = None
        self._finished = False  # whether what follows the last event was written
        # The deltas that need no projection and no ordering, until another event comes: the
        # type of each block's; of reasoning, the part.
        self._live: dict[int, type | int] = {}
        self._waiting: dict[int, Callable[[str], list[StreamError] | None]] = {}
        # What keeps and writes chunks that only continue such a block, one after the other.
        self._more: Callable[[bytes], str | None]
        self._latest = -1  # the block that the chunk before might have been continued in
        self._keep: Callable[[str], None] | None = None
        self._write: Callable[[str], bytes]
        changes = model is not None or not include_usage or reasoning != "reasoning_content"
        self._verbatim = verbatim and not changes
        self._original: Original | None = None  # the bytes, where they go out as they came
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
            accumulator = self._accumulator
            room = accumulator.room - len(data)
            if room >= 0 and (text := self._more(data)) is not None:
                accumulator.room = room
                keep(text)
                if self._original is not None:
                    return [data]
                written = self._write(text) if text else b""
                return [written] if written else []
        if not self._verbatim or (self._original is None and self._undecided is None):
            return self._feed(data)
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
                parts.append(piece)
            else:
                parts += self._feed(piece)
        return parts if len(parts) < 2 else [b"".join(parts)]

    def _feed(self, data: bytes) -> list[bytes]:
        if self._keep is not None:
            self._catch_up()
        self._keep = None
        events = self._decoder.feed(data)
        if self._original is not None or self._undecided is not None:
            data = self._decoder.framed(data)
        if self._undecided is not None:
            data = self._undecided = self._undecided + data
            if self._decoder.dialect:
                self._decide()
        last = self._decoder.continued
        if self._original is not None:
            written = self._observe(self._original, events, data)
            if last is not None and self._failure is None and self._original.between_events:
                self._keep, self._more = self._accumulator.keeper(last.index), self._decoder.more
            return written
        written = self._encode(events, len(data))
        if last is None:
            return written
        # Two in a row are the beginning of many; of interleaved blocks there never are.
        if last.index == self._latest and (write := self._writer(last)) is not None:
            self._keep, self._more = self._accumulator.keeper(last.index), self._decoder.more
            self._write = write
        self._latest = last.index
        return written

    def close(self) -> list[bytes]:
        """Return the bytes that the end of the source makes known."""
        self._catch_up()
        return self._last(self._decoder.close())

    def abort(self, cause: BaseException) -> list[bytes]:
        """Return the bytes that the failure of the source makes known."""
        self._catch_up()
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
        return error_outcome(self._failure) if self._failure else self._decoder.outcome

    @property
    def dialect(self) -> str:
        """Name of the dialect that is read; empty while that is not known."""
        return self._decoder.dialect

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
        """What has arrived so far."""
        self._catch_up()
        return self._accumulator.message()

    @property
    def usage(self) -> Usage:
        """The last snapshot of the tokens."""
        self._catch_up()
        return self._accumulator.usage

    def _catch_up(self) -> None:
        """Take the tokens that chunks told which only continued a block."""
        event = self._decoder.counted()
        if event is not None:
            self._accumulator.extend((event,))
            self._render(self._encoder.projector.usage(event))

    def _decide(self) -> None:
        """Find out what to do, now that the source is known."""
        self._undecided = None
        if self._decoder.dialect == self._encoder.dialect:
            self._encoder.extras = True
            if self._verbatim:
                self._original = Original()

    def _last(self, events: list[Event]) -> list[bytes]:
        self._keep = None
        rest, self._undecided = self._undecided or b"", None
        if rest and self._decoder.dialect == self._encoder.dialect:
            self._decide()
        if self._original is not None:
            return self._observe(self._original, events, rest)
        return self._encode(events)

    def _observe(self, original: Original, events: list[Event], data: bytes) -> list[bytes]:
        """Return bytes as they came, and what breaks the stream behind them."""
        if self._failure is not None:
            return []
        kept = self._accumulator.take(events, len(data))
        parts = [original.take(data)] if data else []
        last = kept[-1] if kept else None
        if isinstance(last, StreamError) and (last.kind != "upstream" or self._decoder.unframed):
            self._fail(last)
            parts.append(original.end_event() + self._render(last))
        return parts if len(parts) < 2 else [b"".join(parts)]

    def _encode(self, events: list[Event], size: int = 0) -> list[bytes]:
        if self._failure is not None:
            return []
        kept = self._accumulator.take(events, size)
        if not kept:
            return []
        parts: list[bytes] = []
        for event in kept:
            if self._is_live(event):
                parts.append(self._render(event))
            elif type(event) is UsageUpdate:  # every dialect writes the last of them, at the end
                self._render(self._encoder.projector.usage(event))
            elif isinstance(event, JSONDelta) and event.index in self._waiting:
                if errors := self._waiting[event.index](event.partial_json):
                    self._fail_on(errors, parts)
            else:
                self._encode_one(event, parts)
            if self._failure is not None:
                break
        if kept is not events and isinstance(last := kept[-1], StreamError):
            self._fail(last)
        if self._decoder.outcome is not None and not self._finished:
            self._finished = True
            if rest := self._encoder.close():
                parts.append(rest)
        return parts if len(parts) < 2 else [b"".join(parts)]

    def _encode_one(self, event: Event, parts: list[bytes]) -> None:
        """Encode an event the long way, and find out which ones need not go it."""
        projector, sequencer = self._encoder.projector, self._sequencer
        if isinstance(event, MessageStart) and self._decoder.first_usage is not None:
            self._render(UsageUpdate(self._decoder.first_usage))
        for passed in projector.push(event):
            for ordered in (passed,) if sequencer is None else sequencer.push(passed):
                if isinstance(ordered, StreamError) and ordered is not event:
                    self._fail_on([ordered], parts)
                    return
                if written := self._render(ordered):
                    parts.append(written)
        index: int | None = getattr(event, "index", None)
        if index is None:
            if isinstance(event, StreamError):
                self._count_dropped()
            return
        kind, part = projector.passes(index)
        if kind is not None and (sequencer is None or sequencer.passes(index)):
            if len(self._live) >= _MAX_LIVE:
                self._live.clear()
            self._live[index] = part if kind is ReasoningDelta else kind
        else:
            self._live.pop(index, None)
        if not isinstance(event, JSONDelta):
            self._waiting.clear()
            return
        wait: Callable[[str], list[StreamError] | None] | None = projector.collects(index)
        if wait is None and kind is JSONDelta and sequencer is not None:
            wait = sequencer.arguments_wait(index)
        if wait is not None:
            self._waiting[index] = wait

    def _is_live(self, event: Event) -> bool:
        """Tell whether an event needs no second look."""
        if type(event) is TextDelta or type(event) is JSONDelta:
            return self._live.get(event.index) is type(event)
        if type(event) is ReasoningDelta:
            return self._live.get(event.index) == event.part
        return False

    def _writer(
        self, last: TextDelta | ReasoningDelta | JSONDelta
    ) -> Callable[[str], bytes] | None:
        """Return what writes more of what needs no second look; None if it needs one."""
        if self._is_live(last):
            return self._encoder.writer(last.index)
        collect = self._encoder.projector.collects(last.index)
        if collect is None:
            return None

        def write(text: str) -> bytes:
            collect(text)
            return b""

        return write

    def _fail_on(self, errors: list[StreamError], parts: list[bytes]) -> None:
        for error in errors:
            self._fail(error)
            parts.append(self._render(error))
            self._count_dropped()

    def _fail(self, error: StreamError) -> None:
        """Take it that the stream ends here, whatever the source says."""
        self._failure = error
        self._keep = None
        self._live.clear()

    def _count_dropped(self) -> None:
        if self._sequencer is not None and self._sequencer.dropped_bytes:
            self._encoder.count_held(self._sequencer.dropped_bytes)
