"""Inspection of one stream: the survey, from its bytes to a report.

`summary` accumulates the blocks of the report; `page` renders it as text, and draws them as bars.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any

import msgspec
from msgspec import Struct

from streamnorm._core.codec import Decoder
from streamnorm._core.codec.framing import SSE, Framing
from streamnorm._core.errors import UnknownDialect
from streamnorm._core.events import (
    Event,
    JSONDelta,
    MessageStop,
    Outcome,
    Ping,
    ReasoningDelta,
    RefusalDelta,
    TextDelta,
    Usage,
)
from streamnorm._core.grammar import Violation
from streamnorm._core.limits import Limits
from streamnorm._core.losses import Loss, Note
from streamnorm._registry import DIALECTS, decoder, framing_of
from streamnorm._transcoder import Transcoder
from streamnorm.inspect.summary import StreamSummary, Track
from streamnorm.sse import Frame
from streamnorm.validation import Validator

_MAX_GAPS = 3

_UNKNOWN = "its dialect is not known"
# A variant of a dialect is recognised by one of its first frames.
_VARIANT_FRAMES = 16
_MAX_STORED_BYTES = 16 * 1024 * 1024


class Gap(Struct, frozen=True):
    """A time without bytes.

    Attributes:
        ms: Milliseconds.
        frame: Number of the frame that arrived next, from 0.
    """

    ms: int
    frame: int


class Timing(Struct, frozen=True, kw_only=True):
    """The times of a stream, in milliseconds since its request was sent.

    Attributes:
        first_byte_ms: Arrival of the first bytes.
        first_event_ms: Arrival of the first event that is no ping; None without one.
        first_text_ms: Arrival of the first text; None without text.
        end_ms: Arrival of the last bytes.
        gaps: The longest gaps between two reads, at most three, the longest first.
        tokens_per_s: Output tokens a second, from the first to the last delta of content;
            without the tokens of reasoning that was not sent.  None if they are unknown.
    """

    first_byte_ms: int
    first_event_ms: int | None
    first_text_ms: int | None
    end_ms: int
    gaps: tuple[Gap, ...]
    tokens_per_s: float | None


class Clock:
    """Takes the times of one stream, as its reads and their events pass.

    Attributes:
        now_ms: Arrival of the last read, in milliseconds since the request was sent.
    """

    def __init__(self) -> None:
        self.now_ms = 0
        self._first_byte_ms: int | None = None
        self._first_event_ms: int | None = None
        self._first_text_ms: int | None = None
        self._content_ms: tuple[int, int] | None = None  # of the first and the last delta
        self._has_reasoning = False
        self._gaps: list[Gap] = []

    def advance(self, gap_ms: int, frame: int) -> None:
        """Advance the time to the next read.

        Args:
            gap_ms: Milliseconds since the read before, or since the request was sent.
            frame: Number of the frame that the read continues or begins.
        """
        self.now_ms += gap_ms
        if self._first_byte_ms is None:
            self._first_byte_ms = self.now_ms
        elif gap_ms:
            # The sort is stable: of gaps of one length the earlier is first.
            self._gaps = sorted([*self._gaps, Gap(gap_ms, frame)], key=lambda gap: -gap.ms)
            del self._gaps[_MAX_GAPS:]

    def mark(self, events: Iterable[Event]) -> None:
        """Note the time of events of the last read."""
        now = self.now_ms
        for event in events:
            if self._first_event_ms is None and not isinstance(event, Ping):
                self._first_event_ms = now
            if self._first_text_ms is None and isinstance(event, TextDelta):
                self._first_text_ms = now
            if isinstance(event, (TextDelta, ReasoningDelta, RefusalDelta, JSONDelta)):
                first = now if self._content_ms is None else self._content_ms[0]
                self._content_ms = (first, now)
                self._has_reasoning = self._has_reasoning or isinstance(event, ReasoningDelta)

    def make_timing(self, usage: Usage) -> Timing:
        """Return the times of the stream so far."""
        return Timing(
            first_byte_ms=self._first_byte_ms or 0,
            first_event_ms=self._first_event_ms,
            first_text_ms=self._first_text_ms,
            end_ms=self.now_ms,
            gaps=tuple(self._gaps),
            tokens_per_s=self._compute_tokens_per_s(usage),
        )

    def _compute_tokens_per_s(self, usage: Usage) -> float | None:
        first, last = self._content_ms or (0, 0)
        if usage.output_tokens is None or first == last:
            return None
        hidden = 0 if self._has_reasoning else usage.reasoning_tokens or 0
        return max(0, usage.output_tokens - hidden) * 1000 / (last - first)


class DeferredValidator:
    """Validates one stream, once its decoder knows the dialect.

    Until then the bytes are stored, at most 16 MiB.

    Args:
        decoder: The decoder of the stream, which is fed before the validator.
        framing: How events stand in the bytes.
        limits: Bounds of the validator.

    Attributes:
        violations: The violations so far.
        unchecked: Reason why the stream is not validated; empty if it is validated.
    """

    def __init__(self, decoder: Decoder, framing: Framing, limits: Limits) -> None:
        self.violations: list[Violation] = []
        self.unchecked = ""
        self._decoder = decoder
        self._framing = framing
        self._limits = limits
        self._stored = bytearray()
        self._frames = 0
        self._validator: Validator | None = None

    def feed(self, data: bytes, frames: Iterable[Frame]) -> None:
        """Validate the next bytes.

        Args:
            data: The bytes.
            frames: The frames that they complete.
        """
        if self.unchecked:
            return
        self._stored += data
        if self._decoder.dialect:
            self._validate(frames)
        elif self._decoder.outcome is not None or len(self._stored) > _MAX_STORED_BYTES:
            self._leave_unchecked(_UNKNOWN)

    def close(self) -> None:
        """Handle the end of the stream, after the decoder."""
        self.feed(b"", ())
        if self._validator is not None:
            self.violations += self._validator.close()

    def _validate(self, frames: Iterable[Frame]) -> None:
        if self._validator is None:
            dialect = self._find_dialect(frames)
            if dialect is None:
                return
            try:
                self._validator = Validator(dialect, framing=self._framing, limits=self._limits)
            except UnknownDialect as exc:
                self._leave_unchecked(str(exc))
                return
        is_text = self._framing is SSE
        if is_text and not (self._decoder.is_plain or self._decoder.is_body):
            self._leave_unchecked("its format is not server-sent events")
            return
        self.violations += self._validator.feed(bytes(self._stored))
        self._stored.clear()

    def _find_dialect(self, frames: Iterable[Frame]) -> str | None:
        """Return the dialect, or the variant of it that a frame shows; None if it is not known."""
        dialect = self._decoder.dialect
        variants = [known for known in DIALECTS.values() if known.variant_of == dialect]
        if not variants:
            return dialect
        for frame in islice(frames, _VARIANT_FRAMES - self._frames):
            self._frames += 1
            for known in (*variants, DIALECTS[dialect]):
                if known.recognises(frame):
                    return known.name
        is_over = self._frames == _VARIANT_FRAMES or self._decoder.outcome is not None
        return dialect if is_over or len(self._stored) > _MAX_STORED_BYTES else None

    def _leave_unchecked(self, reason: str) -> None:
        self.unchecked = reason
        self.violations.clear()
        self._stored.clear()
        self._validator = None


class Report(Struct, frozen=True, kw_only=True):
    """The result of a survey.

    Attributes:
        dialect: Name of the dialect; empty if unknown.
        framing: Name of the framing in which its events stand.
        server: Name of the server whose quirks were enabled; None without.
        id: Id of the message; empty if the provider sent none.
        model: Model of the message; empty if the provider sent none.
        bytes: Number of bytes, including those after the end of the message.
        frames: Number of frames, including those after the end of the message.
        events: Number of events of the message.
        cell_width: Number of positions that a bit of `Track.busy` stands for.
        tracks: The blocks, in order of their start.
        usage: The last usage snapshot.
        stops: The `MessageStop` of each choice.
        outcome: How the stream ended; None if it has not.
        losses: The losses of each target dialect.
        notes: The decoder's notes.
        timing: The times of the stream; None if they are unknown.
        violations: Departures from the strict rules of the dialect.
        unchecked: Reason why the stream was not validated; empty if it was validated.
        state: State of the stream in its log, such as `cancelled`; None if it is in none.
    """

    dialect: str = ""
    framing: str = SSE.name
    server: str | None = None
    id: str = ""
    model: str = ""
    bytes: int = 0
    frames: int = 0
    events: int = 0
    cell_width: int = 1
    tracks: tuple[Track, ...] = ()
    usage: Usage = Usage()
    stops: tuple[MessageStop, ...] = ()
    outcome: Outcome | None = None
    losses: dict[str, tuple[Loss, ...]] = {}
    notes: tuple[Note, ...] = ()
    timing: Timing | None = None
    violations: tuple[Violation, ...] = ()
    unchecked: str = ""
    state: str | None = None


class Survey:
    """Reads one stream and accumulates its report.

    Its memory is bounded as for a `StreamSummary`, and a `Transcoder` for each target.

    Args:
        dialect: Dialect to read; None detects it.
        targets: Names of the dialects whose losses to report.
        server: Name of the server (for example `qianfan`); enables its quirks.
        think_tags: Read `<think>…</think>` at the start of an answer as reasoning.
        timed: Whether the times of the reads are known.
        framing: How events stand in the bytes; None for the framing of the dialect.
        limits: Bounds of the decoder.

    Raises:
        UnknownDialect: A dialect does not exist, cannot be read or cannot be written.
    """

    def __init__(
        self,
        dialect: str | None = None,
        *,
        targets: Iterable[str] = (),
        server: str | None = None,
        think_tags: bool = False,
        timed: bool = False,
        framing: Framing | None = None,
        limits: Limits = Limits(),  # noqa: B008 - frozen
    ) -> None:
        framing = framing_of(dialect, framing)
        self._decoder = decoder(
            dialect, server=server, think_tags=think_tags, limits=limits, framing=framing
        )
        self._transcoders = {
            name: Transcoder(
                dialect,
                name,
                server=server,
                think_tags=think_tags,
                limits=limits,
                framing=framing,
            )
            for name in targets
        }
        self._summary = StreamSummary(limits=limits)
        # Counts frames, because a decoder does not read beyond the end of the message.
        self._frames = framing.layout.frame_reader(limits)
        self._is_text = framing is SSE
        self._framing = framing.name
        self._clock = Clock() if timed else None
        self._validator = DeferredValidator(self._decoder, framing, limits)
        self._server = server
        self._bytes = 0

    def feed(self, data: bytes, gap_ms: int = 0) -> list[Frame]:
        """Read the next bytes of the stream, and return the frames that they complete.

        Args:
            data: The bytes.
            gap_ms: Milliseconds since the read before, or since the request was sent.
        """
        self._bytes += len(data)
        if self._clock is not None:
            self._clock.advance(gap_ms, self._frames.frames)
            self._summary.now_ms = self._clock.now_ms
        self._extend(self._decoder.feed(data))
        # Another format is converted, and what may be a body that is no stream is withheld.
        frames = self._frames.feed(self._decoder.as_event_stream(data) if self._is_text else data)
        self._validator.feed(data, frames)
        for transcoder in self._transcoders.values():
            if transcoder.outcome is None:
                transcoder.feed(data)
        return frames

    def close(self) -> None:
        """Handle the end of the source."""
        self._finish(self._decoder.close())
        for transcoder in self._transcoders.values():
            transcoder.close()

    def abort(self, cause: Exception) -> None:
        """Handle a failure of the source."""
        self._finish(self._decoder.abort(cause))
        for transcoder in self._transcoders.values():
            transcoder.abort(cause)

    def _finish(self, events: list[Event]) -> None:
        """Handle the last events."""
        self._extend(events)
        self._summary.close()
        self._validator.close()

    def _extend(self, events: list[Event]) -> None:
        self._summary.extend(events)
        if self._clock is not None:
            self._clock.mark(events)

    @property
    def outcome(self) -> Outcome | None:
        """How the stream ended; None if it has not."""
        return self._decoder.outcome

    def report(self) -> Report:
        """Return the report of the bytes so far."""
        summary = self._summary
        return Report(
            dialect=self._decoder.dialect,
            framing=self._framing,
            server=self._server,
            id=summary.start.id,
            model=summary.start.model,
            bytes=self._bytes,
            # In a body of another format than SSE, only the decoder finds frames.
            frames=max(self._frames.frames, self._decoder.frames),
            events=summary.events,
            cell_width=summary.cell_width,
            tracks=tuple(summary.tracks),
            usage=summary.usage,
            stops=tuple(summary.stops),
            outcome=self._decoder.outcome,
            losses={name: each.losses for name, each in self._transcoders.items()},
            notes=self._decoder.notes,
            timing=None if self._clock is None else self._clock.make_timing(summary.usage),
            violations=tuple(self._validator.violations),
            unchecked=self._validator.unchecked,
        )


def list_writable_dialects() -> list[str]:
    """Return the names of the dialects that can be written."""
    return [name for name, known in DIALECTS.items() if known.encoder is not None]


def describe_report(report: Report, name: str) -> dict[str, Any]:
    """Return a report as JSON fields, in the order of the page.

    `start` and `stop` of a block are numbers of events, from 0, and `start_ms` and `stop_ms`
    their times; `head` is its first 1,024 characters.  `violations` have the number of a
    frame, from 0.

    Args:
        report: The report.
        name: Name of the stream.
    """
    fields: dict[str, Any] = msgspec.to_builtins(report)
    # The bars are for people, and depend on the times.
    del fields["cell_width"]
    blocks = fields.pop("tracks")
    for block in blocks:
        del block["busy"]
    return {"stream": name, **fields, "blocks": blocks}
