"""The survey of one stream: reads its bytes and makes the report of `inspect`.

`summary` accumulates the blocks of the report, `targets` what is written to other dialects; `page`
renders the report as text, and draws its blocks as bars.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from streamnorm._core.codec import Decoder, DeltaEvents
from streamnorm._core.codec.framing import SSE, Framing
from streamnorm._core.errors import UnknownDialect
from streamnorm._core.events import (
    Event,
    JSONDelta,
    Outcome,
    Ping,
    ReasoningDelta,
    RefusalDelta,
    TextDelta,
    Usage,
    UsageUpdate,
)
from streamnorm._core.grammar import Violation
from streamnorm._core.limits import Limits
from streamnorm._registry import DIALECTS, decoder, framing_of
from streamnorm.inspect.report import Gap, Rate, Read, Report, TimedEvent, Timing
from streamnorm.inspect.summary import StreamSummary
from streamnorm.inspect.targets import Target
from streamnorm.sse import Frame
from streamnorm.validation import Validator

_MAX_GAPS = 3

_UNKNOWN = "its dialect is not known"
_LATE = "more than 16 MiB before its dialect was known, try --from DIALECT"
# A variant of a dialect is recognised by one of its first frames.
_VARIANT_FRAMES = 16
_MAX_STORED_BYTES = 16 * 1024 * 1024


class Clock:
    """Measures when the bytes, events and text of one stream arrived.

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
        """Advance the time to the arrival of the next read.

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
        """Record the current time as the arrival time of events."""
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
    """Validates one stream as soon as its decoder has detected the dialect.

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
        elif self._decoder.outcome is not None:
            self._leave_unchecked(_UNKNOWN)
        elif len(self._stored) > _MAX_STORED_BYTES:
            self._leave_unchecked(_LATE)

    def close(self) -> None:
        """Validate the end of the stream; the decoder must have been closed before."""
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
        """Return the dialect, or a variant of it that a frame shows; None while undecided."""
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


class Survey:
    """Reads one stream and accumulates its report.

    Its memory is bounded as for a `StreamSummary`, a decoder and an encoder for each target.

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
        self._targets = [Target(name, limits) for name in targets]
        self._wrote_first_usage = False
        self._summary = StreamSummary(limits=limits)
        # Counts frames, because a decoder does not read beyond the end of the message.
        self._frames = framing.layout.frame_reader(limits)
        self._is_text = framing is SSE
        self._framing = framing.name
        self._clock = Clock() if timed else None
        self._validator = DeferredValidator(self._decoder, framing, limits)
        self._server = server
        self._bytes = 0

    def feed(self, data: bytes, gap_ms: int = 0) -> Read:
        """Read the next bytes of the stream, and return their frames and events.

        Args:
            data: The bytes.
            gap_ms: Milliseconds since the read before, or since the request was sent.
        """
        self._bytes += len(data)
        first = self._frames.frames
        if self._clock is not None:
            self._clock.advance(gap_ms, first)
            self._summary.now_ms = self._clock.now_ms
        events = self._decode(data)
        # Another format is converted, and what may be a body that is no stream is withheld.
        frames = self._frames.feed(self._decoder.as_event_stream(data) if self._is_text else data)
        self._validator.feed(data, frames)
        return Read(self._summary.now_ms, first, frames, events)

    def close(self) -> Read:
        """Signal the end of the source, and return the last events."""
        return self._finish(self._decoder.close())

    def abort(self, cause: Exception) -> Read:
        """Signal that the source has failed, and return the last events."""
        return self._finish(self._decoder.abort(cause))

    def _decode(self, data: bytes) -> list[TimedEvent]:
        decoder, found = self._decoder, list[TimedEvent]()
        raws, run = decoder.split(data), decoder.run
        # A decoder counts the whole events of a read at once, and fragments as it parses them.
        counts = [not self._is_text or type(raw) is bytes for raw in raws]
        uncounted = sum(counts)
        for raw, is_counted in zip(raws, counts, strict=True):
            events = list[Event]()
            if run is None or not run.forward_frames([raw], 0, events, DeltaEvents(run, events)):
                events = decoder.read_raw(raw)
                run = decoder.run
            uncounted -= is_counted
            if events:
                self._extend(events, max(decoder.frames - uncounted - 1, 0), found)
        return found

    def _finish(self, events: list[Event]) -> Read:
        """Add the last events to the report, and return a `Read` with these events."""
        found: list[TimedEvent] = []
        self._extend(events, max(self._decoder.frames - 1, 0), found)
        self._summary.close()
        self._validator.close()
        return Read(self._summary.now_ms, self._frames.frames, [], found)

    def _extend(self, events: list[Event], frame: int, found: list[TimedEvent]) -> None:
        """Add events of one frame to the report, write them to the targets, and time them."""
        number, ms = self._summary.events, self._summary.now_ms
        self._summary.extend(events)
        if self._clock is not None:
            self._clock.mark(events)
        dialect = self._decoder.dialect
        targets = [each for each in self._targets if each.dialect != dialect]
        usage = self._decoder.first_usage
        if usage is not None and not self._wrote_first_usage:
            self._wrote_first_usage = True
            for target in targets:
                target.write_first_usage(UsageUpdate(usage))
        has_ended = self._decoder.outcome is not None
        for at, event in enumerate(events, 1):
            ends = has_ended and at == len(events)
            written = {each.dialect: each.write(event, number, ms, ends=ends) for each in targets}
            found.append(TimedEvent(number, frame, ms, event, written))
            number += 1

    @property
    def outcome(self) -> Outcome | None:
        """How the stream ended; None until its end."""
        return self._decoder.outcome

    def report(self) -> Report:
        """Return the report of the stream so far."""
        summary = self._summary
        timing = None if self._clock is None else self._clock.make_timing(summary.usage)
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
            losses={each.dialect: each.losses for each in self._targets},
            holds={each.dialect: each.list_holds() for each in self._targets},
            notes=self._decoder.notes,
            timing=timing,
            rate=None if timing is None else self._compute_rate(timing),
            violations=tuple(self._validator.violations),
            unchecked=self._validator.unchecked,
        )

    def _compute_rate(self, timing: Timing) -> Rate | None:
        ms = timing.end_ms - timing.first_byte_ms
        if not ms:
            return None
        return Rate(
            events_per_s=self._summary.events * 1000 / ms,
            bytes_per_s=self._bytes * 1000 / ms,
            chars_per_s=sum(track.chars for track in self._summary.tracks) * 1000 / ms,
        )


def list_writable_dialects() -> list[str]:
    """Return the names of the dialects that can be written."""
    return [name for name, known in DIALECTS.items() if known.encoder is not None]
