"""The times of one recorded stream: its first events, its gaps and its speed."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from streamnorm._core.events import (
    Event,
    JSONDelta,
    Ping,
    ReasoningDelta,
    RefusalDelta,
    TextDelta,
    Usage,
)

__all__ = ["Clock", "Gap", "Timing"]

_MAX_GAPS = 3


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
        """Set the time to that of the next read.

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

    def timing(self, usage: Usage) -> Timing:
        """Return the times of the stream so far."""
        return Timing(
            first_byte_ms=self._first_byte_ms or 0,
            first_event_ms=self._first_event_ms,
            first_text_ms=self._first_text_ms,
            end_ms=self.now_ms,
            gaps=tuple(self._gaps),
            tokens_per_s=self._tokens_per_s(usage),
        )

    def _tokens_per_s(self, usage: Usage) -> float | None:
        first, last = self._content_ms or (0, 0)
        if usage.output_tokens is None or first == last:
            return None
        hidden = 0 if self._has_reasoning else usage.reasoning_tokens or 0
        return max(0, usage.output_tokens - hidden) * 1000 / (last - first)
