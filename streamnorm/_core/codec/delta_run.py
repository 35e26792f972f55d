"""The fast path: consecutive deltas of open blocks are forwarded as text, without events.

Nearly every frame of a stream extends an open block and does nothing else.  Each read is
therefore offered to the room's `DeltaRun` first; what it refuses is split into frames, and these
are read in full (`Decoder.read_raw`).  Both paths produce the same events and bytes under every
chunking.

A run has two consumers: `DeltaEvents` makes events of the texts; a `DeltaForwarder` appends them
to the message and, unless the original bytes are passed on, writes them in the target dialect.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Never, Protocol, TypeAlias

from streamnorm._core.codec.framing import AnySplitter, PayloadSplitter
from streamnorm._core.codec.templates import (
    CountPair,
    Digits,
    EventNumbers,
    Extend,
    ReadText,
    Templates,
    learn_template,
)
from streamnorm._core.errors import LimitExceeded
from streamnorm._core.events import (
    Delta,
    Event,
    JSONDelta,
    StreamError,
    TextDelta,
    UsageUpdate,
    delta_factory,
)
from streamnorm._core.grammar import part_of
from streamnorm._core.text import BATCH, FULL_LIST, LONG_CHARS
from streamnorm.sse import RawFrame, SSEDecoder

_NO_FRAMING = SSEDecoder()
_LF, _CR = 10, 13
_EVENT_END = b"\n\n"
_EVENT_END_CRLF = b"\r\n\r\n"
# A compiled expression finds two bytes in half the time that `bytes.split` takes.
_SPLITS = {end: re.compile(end).split for end in (_EVENT_END, _EVENT_END_CRLF)}
_MAX_ATTEMPTS = 8

Forward: TypeAlias = Callable[[bytes, list[Any], "Consumer"], bytes]
"""Reads the events at the beginning of a read, has a consumer append to a list what becomes of
their texts, and returns the bytes behind them, which must be split.  The beginning of an event at
the end is held, and not returned."""

Append: TypeAlias = Callable[[str], None]
Write: TypeAlias = Callable[[str], Any]
Sinks: TypeAlias = tuple["Delta | None", Append | None, list[str], Write | None]
"""Delta of a block and part; what appends its text, None if nothing does; a list that takes up to
`BATCH` texts of at most `LONG_CHARS` in its place; and what returns the text as bytes or as an
event, None if nothing does."""

NO_SINKS: Sinks = (None, None, FULL_LIST, None)
"""Sinks before a block is selected."""


class Consumer(Protocol):
    """Receiver of the texts of a run.

    Attributes:
        sinks: Sinks of the block and part whose text came last.
        known: Sinks that may still be valid, by block: they are if their delta is that of the run.
        failure: The error of a text that exceeded a limit, which ends the stream; None before.
    """

    sinks: Sinks
    known: dict[int, Sinks]

    @property
    def failure(self) -> StreamError | None: ...

    def select(self, delta: Delta) -> Sinks:
        """Select and return the sinks for the block and part of `delta`."""
        ...

    def skip(self) -> None:
        """Count an event without text."""
        ...

    def fail(self, error: LimitExceeded) -> object:
        """Store the error of a text that exceeded a limit."""
        ...


class DeltaRun(ABC):
    """Decode frames that only append text to an open block.

    A room subclasses it and informs it of the blocks that are open.  Blocks may alternate,
    as parallel tool calls do.

    Attributes:
        prefix: Bytes before the payload of each frame.
        padding: Finds padding after the text, as `learn_template` expects it; never by default.
        delta: After a text was returned, a delta of the block and part that it extends; the
            text in it is meaningless.  The same object for the same block and part until a
            frame is read in full.
        reports_usage: Whether frames of the run may report usage.
        reads_are_events: Whether the last read ended at most one event, as the next may do.
        framing: The reading half of the stream's framing; one that never starts if the body has
            another format.
        counts: Counts of the last payload that fits a template; None once the room has read them.
        counts_before: `counts` of the payload before.
        text_of: Decodes a whole event as the framing's `split` returns it.
        forward: Forwards the events at the beginning of a read, without the framing's `split`.
        event_end: Bytes that end an event.
        has_refused: Whether `forward` has refused the next event.
        numbers: Numbers or ids of the events; None if they have none.
        takes_fresh: As for `Templates`.
        idle_frames: Number of frames that gave no text.
        can_learn: Whether further templates may be learned since the last `allow_templates`.
    """

    prefix: bytes = b"data: "
    padding: re.Pattern[bytes] = re.compile(rb"(?!)")
    delta: Delta
    framing: AnySplitter = _NO_FRAMING
    reports_usage: bool = False
    counts: Digits | None = None
    counts_before: Digits | None = None
    numbers: EventNumbers | None = None
    takes_fresh: bool = False

    def __init__(self) -> None:
        self.text_of: ReadText = self._text_of_lines
        self.forward: Forward = _leave
        self.reads_are_events = False
        self.idle_frames = 0
        self.has_refused = False
        # The framing, by whether events are lines.
        self._lines = _NO_FRAMING
        self._payloads: PayloadSplitter | None = None
        self._text_of_read: ReadText = _read_nothing  # of such a framing
        self._decoding: Forward | None = None  # what `_forward_lines` calls
        self.event_end = _EVENT_END
        self._templates = Templates(takes_fresh=self.takes_fresh)
        self._attempts_left = 0  # templates that may still be learned
        self.can_learn = False

    @abstractmethod
    def decode(self, payload: bytes) -> str | None:
        """Return the text that a frame appends to an open block; None if it needs the slow path.

        None leaves all state unchanged, and the frame must be read in full: wherever a
        block stops, half a surrogate pair, a second event, or a note is involved.

        Args:
            payload: JSON of the frame, on one line.
        """

    def read_from(self, framing: AnySplitter) -> None:
        """Set the framing of the events that follow."""
        self.framing = framing
        if isinstance(framing, SSEDecoder):
            self._lines = framing
        else:
            self._payloads = framing
        self._decoding = None
        self._choose_readers()

    def learn(
        self,
        payload: bytes,
        text: str,
        peek: ReadText,
        *,
        delta: Delta | None = None,
        extend: Extend | None = None,
        fresh: list[str] | None = None,
        takes_inner: bool = False,
        counts: CountPair | None = None,
        number: tuple[int, int] | None = None,
    ) -> None:
        """Learn a template from a delta's payload; later payloads that fit it need no decoding.

        Called only if `can_learn`: a server whose deltas all differ would pay for each template.

        Args:
            payload: A payload that was decoded.
            text: Text in the payload.
            peek: Returns the text of a payload that has no other effect, without reading it.
            delta: Delta of the block; None if the run has no other before `clear_templates`.
            extend: Extends the block; None if the room stores nothing of the texts.
            fresh: Takes up to `MAX_FRESH` short texts in place of `extend`; None if it needs all.
            takes_inner: Whether `fresh` takes inner fragments alone, as of `is_inner`.
            counts: Token counts of the payload that may differ in others.
            number: Offsets of the event's number from the end of the payload; in other payloads
                it is `numbers.next`, or any id if that is None.
        """
        if not text:
            return
        self._attempts_left -= 1
        self.can_learn = self._attempts_left > 0
        template = learn_template(payload, text, peek, self.padding, counts)
        if template is not None and number is not None:
            template = template.cut_number(number)
        if template is None:
            return
        templates = self._templates
        templates.add(template, delta, extend, fresh, takes_inner=takes_inner)
        self._choose_readers()

    def _choose_readers(self) -> None:
        """Set `text_of` and `forward`, which compare bytes with the templates, if any."""
        templates = self._templates
        has_templates = templates.last is not None
        if self._payloads is not None:
            self.text_of = self.decode
            if has_templates:
                self.text_of = templates.text_reader(self, b"", b"", self.decode)
            self._text_of_read = self._payloads.payload_reader(self.prefix, self.text_of)
            self.forward = self._forward_payload
            return
        prefix, end = self.prefix, self.event_end
        text_of, forward = self.text_of, self.forward = self._text_of_lines, self._forward_lines
        if has_templates:
            readers = templates.event_readers(self, end, text_of, forward)
            if readers is None:
                read = templates.text_reader(self, prefix, end, _read_nothing)
                readers = (
                    templates.text_reader(self, prefix, b"", text_of),
                    _forwarder(self, self._lines, read, forward),
                )
            self.text_of, self.forward = readers

    def _forward_lines(self, data: bytes, out: list[Any], consumer: Consumer) -> bytes:
        """Forward the events of a read by decoding them."""
        forward = self._decoding
        if forward is None:  # most streams need it for a few events: it takes a kilobyte
            forward = _forwarder(self, self._lines, self._event_reader(), self._leave_lines)
            self._decoding = forward
            if self._templates.last is None:
                self.forward = forward
        return forward(data, out, consumer)

    def allow_templates(self) -> None:
        """Allow some more templates to be learned, since a block has started."""
        self._attempts_left, self.can_learn = _MAX_ATTEMPTS, True

    def clear_templates(self) -> None:
        """Discard the templates, so that payloads are decoded until a template is added."""
        if self._templates.last is not None:
            self._templates.clear()
            self._choose_readers()

    def renew_templates(self) -> None:
        """Discard the templates, and allow others to be learned: another block is extended."""
        self.clear_templates()
        self.allow_templates()

    def close(self) -> None:
        """Release the functions that refer to the run, so that it is freed with its decoder."""
        self.text_of = self._text_of_read = _read_nothing
        self.forward, self._decoding = _leave, None

    def _text_of_lines(self, raw: bytes) -> str | None:
        """Return the text that an event's lines append; None if the event needs the slow path."""
        start = len(self.prefix)
        payload = raw[start:]
        # A second line could be another field, which only the slow path knows.  A lone CR ends a
        # line, too (WHATWG HTML, section 9.2.6).
        if raw[:start] != self.prefix or _LF in payload or _CR in payload:
            return None
        return self.decode(payload)

    def _event_reader(self) -> ReadText:
        """Return a function that does what `_text_of_lines` does, for events with a blank line."""
        decode, prefix = self.decode, self.prefix
        start, behind, end = len(prefix), -len(self.event_end), self.event_end

        def read(event: bytes) -> str | None:
            text = None
            if event[behind:] != end:
                return None
            if event[:start] == prefix:
                payload = event[start:behind]
                if _LF in payload or _CR in payload:  # several events, perhaps
                    return None
                text = decode(payload)
            if text is None:
                self.has_refused = True
            return text

        return read

    def _leave_lines(self, data: bytes, out: list[Any], consumer: Consumer) -> bytes:
        """Return a read whose first event cannot be decoded, or does not end as others did."""
        # Google, Perplexity and AI21 end lines by CRLF.
        is_known = self.event_end == _EVENT_END_CRLF or _EVENT_END in data
        if not is_known and _EVENT_END_CRLF in data:
            self.event_end, self._decoding = _EVENT_END_CRLF, None
            self._choose_readers()
            return self.forward(data, out, consumer)
        return data

    def _forward_payload(self, data: bytes, out: list[Any], consumer: Consumer) -> bytes:
        """Forward a read that ends one event of a framing without lines."""
        if not self.reads_are_events or (text := self._text_of_read(data)) is None:
            return data
        if not text:
            if not self.framing.unfinished_bytes:
                consumer.skip()
            return b""
        delta, append, fresh, write = consumer.sinks
        try:
            if (current := self.delta) is not delta:
                delta, append, fresh, write = consumer.select(current)
            if append is not None:
                if len(fresh) < BATCH and len(text) <= LONG_CHARS:
                    fresh.append(text)
                else:
                    append(text)
            if write is not None and (written := write(text)):
                out.append(written)
        except LimitExceeded as exc:
            consumer.fail(exc)
        return b""

    def forward_frames(
        self, frames: Sequence[RawFrame], position: int, out: list[Any], consumer: Consumer
    ) -> int:
        """Forward frames, from `position` on, that only append text to open blocks.

        Returns:
            The index behind them, or behind the one whose text exceeds a limit.
        """
        self.reads_are_events = len(frames) < 2
        if self.has_refused:
            self.has_refused = False
            return position
        delta, append, fresh, write = consumer.sinks
        # No slice: where every other frame must be read in full, all slices would be quadratic.
        rest = map(frames.__getitem__, range(position, len(frames))) if position else frames
        try:
            for raw in rest:
                # A template that is learned from one frame reads the next.
                if type(raw) is not bytes or (text := self.text_of(raw)) is None:
                    break
                position += 1
                if not text:
                    consumer.skip()
                    continue
                if (current := self.delta) is not delta:
                    delta, append, fresh, write = consumer.select(current)
                if append is not None:
                    if len(fresh) < BATCH and len(text) <= LONG_CHARS:
                        fresh.append(text)
                    else:
                        append(text)
                if write is not None and (written := write(text)):
                    out.append(written)
        except LimitExceeded as exc:
            consumer.fail(exc)
        return position

    def pending_usage(self) -> UsageUpdate | None:
        """Return the usage that frames reported since the last `pending_usage`, or None.

        Called before any other event is handled, and before the message, the usage or the
        end of the stream is read.
        """
        return None

    def retract_usage(self) -> None:  # noqa: B027 - few runs report tokens
        """Undo the usage of the last frame, whose text exceeded a limit."""


class TextSinks(Protocol):
    """An object that takes the texts of blocks, such as an accumulator."""

    def text_sinks(self, index: int, part: int = 0) -> tuple[Append, list[str]]:
        """Return a function that appends text to an open block; see `Accumulator.text_sinks`.

        Up to `BATCH` texts of at most `LONG_CHARS` may be appended to the list in its place.
        """
        ...


class _DeltaSinks(Protocol):
    """An object that returns functions to write the text of blocks, such as a `StreamWriter`."""

    def delta_sink(self, delta: Delta) -> Write:
        """Return a function that writes further text of the block of `delta`."""
        ...


class DeltaEvents:
    """Make events of the texts of a run, and of the tokens that its frames report.

    Valid until a frame is read in full.

    Args:
        run: The run.
        out: List that the events are appended to.
        makes_deltas: Whether events are made of the texts.

    Attributes:
        sinks, known: As of `Consumer`.
        out: As above.
        failure: None: no event exceeds a limit.
    """

    failure: None = None

    def __init__(self, run: DeltaRun, out: list[Event], *, makes_deltas: bool = True) -> None:
        self.sinks: Sinks = NO_SINKS
        self.out = out
        self._run = run
        self._makes_deltas = makes_deltas
        self.known: dict[int, Sinks] = {}

    def select(self, delta: Delta) -> Sinks:
        """Select and return the sinks for the block and part of `delta`."""
        sinks = self.known.get(delta.index)  # where blocks alternate
        if sinks is None or sinks[0] is not delta:
            sinks = self.known[delta.index] = (delta, None, FULL_LIST, self._writer(delta))
        self.sinks = sinks
        return sinks

    def _writer(self, delta: Delta) -> Write | None:
        make = delta_factory(delta) if self._makes_deltas else None
        if not self._run.reports_usage:
            return make

        def write(text: str) -> None:
            if make is not None:
                self.out.append(make(text))
            self._report_usage()

        return write

    def skip(self) -> None:
        """Count an event without text, which may report tokens."""
        self._run.idle_frames += 1
        if self._run.reports_usage:
            self._report_usage()

    def _report_usage(self) -> None:
        if (usage := self._run.pending_usage()) is not None:
            self.out.append(usage)

    def fail(self, error: LimitExceeded) -> Never:
        """Raise the error, which no event can cause."""
        raise error


class DeltaForwarder:
    """Accumulate and write the deltas of a run without creating events.

    Args:
        run: The delta run of the active decoder.
        accumulator: Receives the texts.
        writer: Writes the texts; None if the original bytes are passed on.

    Attributes:
        run: The delta run.
        failure: The error of a frame that exceeded a limit, which ends the stream.
        sinks, known: As of `Consumer`; replaced and cleared once they are no longer valid.
    """

    def __init__(self, run: DeltaRun, accumulator: TextSinks, writer: _DeltaSinks | None) -> None:
        self.failure: StreamError | None = None
        self.run = run
        self.sinks: Sinks = NO_SINKS
        self._accumulator = accumulator
        self._writer = writer
        self.known: dict[int, Sinks] = {}

    def invalidate(self, events: list[Event]) -> None:
        """Discard the selected sinks if one of the events may change them."""
        for event in events:
            if type(event) is not TextDelta and type(event) is not JSONDelta:
                self.sinks = NO_SINKS
                self.known.clear()
                return

    def select(self, delta: Delta) -> Sinks:
        """Select and return the sinks for the block and part of `delta`."""
        sinks = self.known.get(delta.index)  # where blocks alternate
        if sinks is None or sinks[0] is not delta:
            append, fresh = self._accumulator.text_sinks(delta.index, part_of(delta))
            write = None if self._writer is None else self._writer.delta_sink(delta)
            sinks = self.known[delta.index] = (delta, append, fresh, write)
        self.sinks = sinks
        return sinks

    def skip(self) -> None:
        """Count an event without text."""
        self.run.idle_frames += 1

    def fail(self, error: LimitExceeded) -> None:
        """Set the error of a text that exceeded a limit."""
        self.failure = StreamError("too_large", str(error), code=error.limit)
        self.run.retract_usage()


def _forwarder(run: DeltaRun, framing: SSEDecoder, read: ReadText, otherwise: Forward) -> Forward:
    """Return a function that forwards the events of a read.

    The twin of the kernel's.

    Args:
        run: The run.
        framing: Framing of the stream.
        read: Reads an event that ends with a blank line.
        otherwise: Forwards the events from the first on that is not read.
    """
    prefix, event_end = run.prefix, run.event_end
    split, start, behind = _SPLITS[event_end], len(prefix), -len(event_end)

    def begins_event(data: bytes) -> bool:
        """Return whether bytes may begin an event of one line, and are no whole one."""
        line = data[start:]  # at its end may stand the end of the line, without the blank one
        return (
            _CR not in line
            and line.find(b"\n", 0, len(line) - 1) < 0
            and prefix.startswith(data[:start])
            and len(data) < framing.plain_bytes
        )

    def forward(data: bytes, out: list[Any], consumer: Consumer) -> bytes:
        held = framing.held
        whole = held + data if held else data
        if len(whole) > framing.plain_bytes:
            return data
        # Most servers write one event at a time, and a read is what they wrote.
        if not run.reads_are_events:
            return forward_several(data, whole, out, consumer)
        if (text := read(whole)) is None:
            if run.has_refused:
                return data
            if held or whole[behind:] == event_end or not begins_event(data):
                return forward_several(data, whole, out, consumer)
            framing.held, framing.holds_original = data, True
            return b""
        framing.frames += 1
        if held:
            framing.held, framing.holds_original = b"", True
        if not text:
            consumer.skip()
            return b""
        delta, append, fresh, write = consumer.sinks
        try:
            if (current := run.delta) is not delta:
                delta, append, fresh, write = consumer.select(current)
            if append is not None:
                if len(fresh) < BATCH and len(text) <= LONG_CHARS:
                    fresh.append(text)
                else:
                    append(text)
            if write is not None and (written := write(text)):
                out.append(written)
        except LimitExceeded as exc:
            consumer.fail(exc)
        return b""

    def forward_several(data: bytes, whole: bytes, out: list[Any], consumer: Consumer) -> bytes:
        events = split(whole)
        rest = events.pop()
        if run.reads_are_events and len(events) == 1 and not rest:  # which was read just now
            return otherwise(data, out, consumer)
        count = run.forward_frames(events, 0, out, consumer)
        if count < len(events):
            run.has_refused = consumer.failure is None
            if not count:
                return data
            rest = event_end.join([*events[count:], rest])
        if count:
            framing.frames += count
            framing.held, framing.holds_original = b"", True
            if count < len(events) or not rest or consumer.failure is not None:
                return rest
            data = rest
        elif len(whole) > len(data):
            return otherwise(data, out, consumer)
        if begins_event(rest):
            framing.held, framing.holds_original = rest, True
            return b""
        return otherwise(data, out, consumer)

    return forward


def _read_nothing(data: bytes) -> None:
    """Return None, so that the caller decodes the bytes itself."""


def _leave(data: bytes, out: list[Any], consumer: Consumer) -> bytes:
    """Return a read as it is, so that the caller splits it."""
    return data
