"""The fast path: consecutive deltas of open blocks are forwarded as text, without events.

Nearly every frame of a stream extends an open block and does nothing else.  Each frame is
therefore offered to the room's `DeltaRun` first; frames that it refuses are read in full
(`Decoder.read_raw`).  Both paths produce the same events and bytes under every chunking.

A run has two consumers: `Decoder.feed` creates events from the texts; a `DeltaForwarder`
appends them to the message and, unless the original bytes are passed on, writes them in
the target dialect.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Protocol, TypeAlias

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
    ReasoningDelta,
    StreamError,
    TextDelta,
    UsageUpdate,
    delta_factory,
)
from streamnorm._core.text import BATCH, FULL_LIST, LONG_CHARS
from streamnorm.sse import RawFrame, SSEDecoder

_NO_FRAMING = SSEDecoder()
_LF, _CR = 10, 13
_EVENT_END = b"\n\n"
_EVENT_END_CRLF = b"\r\n\r\n"
_MAX_ATTEMPTS = 8

_Append: TypeAlias = Callable[[str], None]
_Write: TypeAlias = Callable[[str], bytes | None]
# The delta of a block and part, what appends text, the list that takes short ones, what writes it.
_Sinks: TypeAlias = tuple["Delta | None", _Append, list[str], _Write | None]


def part_of(delta: Delta) -> int:
    """Return the number of the summary that a reasoning delta extends; 0 for other deltas."""
    return delta.part if isinstance(delta, ReasoningDelta) else 0


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
        text_of_read: Decodes a read that ends exactly one event, whose beginning may be in the
            read before, without splitting it; "" also for one that only begins an event.  Called
            only if `reads_are_events`.
        numbers: Numbers or ids of the events; None if they have none.
        takes_fresh: As for `Templates`.
        idle_frames: Number of frames that gave no text.
        can_learn: Whether further templates may be learned since the last `allow_templates`.
        makes_deltas: Whether `append_events` makes an event of each text.
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
        self.text_of_read: ReadText = self._text_of_read_lines
        self.reads_are_events = False
        self.idle_frames = 0
        self.makes_deltas = True
        self._has_refused = False  # the event that the last read ended
        # The framing, by whether events are lines.
        self._lines = _NO_FRAMING
        self._payloads: PayloadSplitter | None = None
        self._event_end = _EVENT_END  # of the last read of one event
        self._templates = Templates(takes_fresh=self.takes_fresh)
        self._read_payload: ReadText | None = None  # of the templates
        self._attempts_left = 0  # templates that may still be learned
        self.can_learn = False
        # By block: the delta of its last text, and what makes further ones.
        self._makers: dict[int, tuple[Delta, Callable[[str], Delta]]] = {}

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
        self._read_payload = templates.text_reader(self, b"", b"", _read_nothing)
        self._choose_readers()

    def _choose_readers(self) -> None:
        """Set `text_of` and `text_of_read`, which compare bytes with the templates, if any."""
        templates = self._templates
        has_templates = templates.last is not None
        if self._payloads is not None:
            text_of: ReadText = self.decode
            if has_templates:
                text_of = templates.text_reader(self, b"", b"", self.decode)
            self.text_of = text_of
            self.text_of_read = self._payloads.payload_reader(self.prefix, text_of)
        elif has_templates:
            self.text_of = templates.text_reader(self, self.prefix, b"", self._text_of_lines)
            self._compare_reads()
        else:
            self.text_of, self.text_of_read = self._text_of_lines, self._text_of_read_lines

    def _compare_reads(self) -> None:
        """Set `text_of_read` to compare chunks of one event with the templates."""
        self.text_of_read = self._templates.text_reader(
            self, self.prefix, self._event_end, self._text_of_read_lines, self._lines
        )

    def allow_templates(self) -> None:
        """Allow some more templates to be learned, since a block has started."""
        self._attempts_left, self.can_learn = _MAX_ATTEMPTS, True

    def clear_templates(self) -> None:
        """Discard the templates, so that payloads are decoded until a template is added."""
        if self._templates.last is not None:
            self._templates.clear()
            self._read_payload = None
            self._choose_readers()

    def renew_templates(self) -> None:
        """Discard the templates, and allow others to be learned: another block is extended."""
        self.clear_templates()
        self.allow_templates()

    def close(self) -> None:
        """Release the functions that refer to the run, so that it is freed with its decoder."""
        self.text_of = self.text_of_read = _read_nothing
        self._read_payload = None

    def _text_of_lines(self, raw: bytes) -> str | None:
        """Return the text that an event's lines append; None if the event needs the slow path."""
        start = len(self.prefix)
        payload = raw[start:]
        # A second line could be another field, which only the slow path knows.
        if raw[:start] != self.prefix or _LF in payload:
            return None
        return self.decode(payload)

    def _text_of_read_lines(self, data: bytes) -> str | None:
        """Decode a chunk that ends one event; hold a chunk that only begins an event."""
        framing, prefix = self._lines, self.prefix
        carries = framing.carries
        if carries:
            if framing.is_irregular:
                return None
            data = framing.held + data
        if len(data) > framing.safe_bytes:
            return None
        start = len(prefix)
        if data[-2:] == b"\n\n":
            payload = data[start:-2]
        # Google, Perplexity and AI21 end lines by CRLF.
        elif data[-4:] == _EVENT_END_CRLF:
            payload = data[start:-4]
            if self._event_end != _EVENT_END_CRLF:
                self._event_end = _EVENT_END_CRLF
                if self._templates.last is not None:
                    self._compare_reads()
        else:
            # The beginning of an event is held as the framing's `split` holds it.
            rest = data[start:]
            begins = data and prefix.startswith(data[:start]) and len(data) < framing.safe_bytes
            if carries or not begins or _LF in rest or _CR in rest:
                return None
            framing.held, framing.carries, framing.holds_original = data, True, True
            return ""
        # A lone CR ends a line, too (WHATWG HTML, section 9.2.6).
        if data[:start] != prefix or _LF in payload or _CR in payload:
            return None
        text = self.decode(payload)
        if text is None:
            self._has_refused = True
            return None
        framing.frames += 1
        if carries:
            framing.held, framing.carries, framing.holds_original = b"", False, True
        return text

    def take_refusal(self) -> bool:
        """Return once whether `text_of_read` refused the only event of its read."""
        has_refused, self._has_refused = self._has_refused, False
        return has_refused

    def append_events(self, text: str, events: list[Event]) -> None:
        """Append the events of the frame that was decoded last: the delta, then the usage."""
        if not text:
            self.idle_frames += 1
        elif self.makes_deltas:
            delta = self.delta
            maker = self._makers.get(delta.index)
            if maker is None or maker[0] is not delta:
                maker = self._makers[delta.index] = delta, delta_factory(delta)
            events.append(maker[1](text))
        if self.reports_usage and (usage := self.pending_usage()) is not None:
            events.append(usage)

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

    def text_sinks(self, index: int, part: int = 0) -> tuple[_Append, list[str]]:
        """Return a function that appends text to an open block; see `Accumulator.text_sinks`.

        Up to `BATCH` texts of at most `LONG_CHARS` may be appended to the list in its place.
        """
        ...


class _DeltaSinks(Protocol):
    """An object that returns functions to write the text of blocks, such as a `StreamWriter`."""

    def delta_sink(self, delta: Delta) -> _Write:
        """Return a function that writes further text of the block of `delta`."""
        ...


class DeltaForwarder:
    """Accumulate and write the deltas of a run without creating events.

    `forward` handles the frames of a read; `Transcoder.feed` itself handles a read that is one
    event, since one more call for each would cost as much as writing its text.

    Args:
        run: The delta run of the active decoder.
        accumulator: Receives the texts.
        writer: Writes the texts; None if the original bytes are passed on.

    Attributes:
        run: The delta run.
        failure: The error of a frame that exceeded a limit, which ends the stream.
        sinks: Delta of the last block and part, None if its sinks are no longer valid; a function
            that appends its text to the message; a list that takes up to `BATCH` texts of at most
            `LONG_CHARS` in its place; and a function that returns more text as bytes, None if the
            original bytes are passed on.
    """

    def __init__(self, run: DeltaRun, accumulator: TextSinks, writer: _DeltaSinks | None) -> None:
        self.failure: StreamError | None = None
        self.run = run
        self.sinks: _Sinks = _NO_SINKS
        self._accumulator = accumulator
        self._writer = writer
        self._known: dict[int, _Sinks] = {}  # by block

    def forward(self, frames: list[RawFrame], parts: list[bytes], position: int = 0) -> int:
        """Forward frames that only append text to open blocks.

        Args:
            frames: The frames of one read.
            parts: The list to append written bytes to.
            position: Index of the first frame to forward.

        Returns:
            The index of the first frame that must be read in full.
        """
        run = self.run
        run.reads_are_events = len(frames) < 2
        if run.take_refusal():
            return position
        text_of = run.text_of
        delta, append, fresh, write = self.sinks
        # No slice: where every other frame must be read in full, all slices would be quadratic.
        rest = map(frames.__getitem__, range(position, len(frames))) if position else frames
        try:
            for raw in rest:
                if type(raw) is not bytes or (text := text_of(raw)) is None:
                    break
                position += 1
                if text:
                    if (current := run.delta) is not delta:
                        delta, append, fresh, write = self.select(current)
                        text_of = run.text_of  # the template of a block is learned from its first
                    if len(fresh) < BATCH and len(text) <= LONG_CHARS:
                        fresh.append(text)
                    else:
                        append(text)
                    if write is not None and (written := write(text)):
                        parts.append(written)
                else:
                    run.idle_frames += 1
        except LimitExceeded as exc:
            self.fail(exc)
        return position

    def invalidate(self, events: list[Event]) -> None:
        """Discard the selected sinks if one of the events may change them."""
        for event in events:
            if type(event) is not TextDelta and type(event) is not JSONDelta:
                self.sinks = _NO_SINKS
                self._known.clear()
                return

    def fail(self, exc: LimitExceeded) -> StreamError:
        """Set and return the error of a frame that exceeded a limit."""
        self.failure = StreamError("too_large", str(exc), code=exc.limit)
        self.run.retract_usage()
        return self.failure

    def select(self, delta: Delta) -> _Sinks:
        """Select and return the sinks for the block and part of `delta`."""
        sinks = self._known.get(delta.index)  # where blocks alternate
        if sinks is None or sinks[0] is not delta:
            append, fresh = self._accumulator.text_sinks(delta.index, part_of(delta))
            write = None if self._writer is None else self._writer.delta_sink(delta)
            sinks = self._known[delta.index] = (delta, append, fresh, write)
        self.sinks = sinks
        return sinks


def _drop(text: str) -> None:
    """Discard text."""


_NO_SINKS: _Sinks = (None, _drop, FULL_LIST, None)  # until a block is selected


def _read_nothing(data: bytes) -> None:
    """Return None, so that the caller decodes the bytes itself."""
