"""A target dialect of an inspected stream: written bytes, losses and deltas that wait."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import TypeAlias

from msgspec import Struct, structs

from streamnorm._core.codec import StreamWriter
from streamnorm._core.errors import LimitExceeded
from streamnorm._core.events import (
    BlockStart,
    BlockStop,
    Delta,
    Event,
    JSONDelta,
    ReasoningDelta,
    RefusalDelta,
    StreamError,
    TextDelta,
    UsageUpdate,
)
from streamnorm._core.grammar import part_of
from streamnorm._core.limits import Limits
from streamnorm._core.losses import Loss
from streamnorm._registry import encoder, framing_of
from streamnorm.inspect.report import Hold

_MAX_HOLDS = 256

_Key: TypeAlias = tuple[type, int, int]
"""Type, block and part of a delta."""

_Sink: TypeAlias = Callable[[str], bytes | None]


class _Waiting(Struct):
    """Deltas of a block that are not written yet; the fields are those of `Hold`."""

    behind: int
    start: int
    start_ms: int | None
    deltas: int = 0
    chars: int = 0


class Target:
    """Writes an inspected stream to one dialect, block after block, as a `Transcoder` does.

    Args:
        dialect: Name of the dialect.
        limits: Bounds of the encoder, and of what waits.

    Attributes:
        dialect: Name of the dialect.
        unstored_holds: Number of holds beyond the first 256.

    Raises:
        UnknownDialect: There is no such dialect, or it cannot be written.
    """

    def __init__(self, dialect: str, limits: Limits) -> None:
        self.unstored_holds = 0
        self._encoder = encoder(dialect, limits=limits)
        self.dialect = self._encoder.dialect
        framing = framing_of(dialect)
        self._writer = StreamWriter(
            self._encoder,
            limits=limits,
            frame_writer=None if framing.writer is None else framing.writer(),
        )
        self._sinks: dict[_Key, _Sink | None] = {}  # of deltas that follow one of their kind
        self._waiting: dict[int, _Waiting] = {}  # by block
        self._choices: dict[int, int] = {}  # of blocks beyond those of choice 0
        # Heaps of the waiting blocks that another one holds back, by choice: the blocks of a
        # choice are released in order of their index.
        self._held_back: dict[int, list[int]] = {}
        self._holds: list[Hold] = []

    @property
    def losses(self) -> tuple[Loss, ...]:
        """The losses of the dialect so far."""
        return self._encoder.losses

    def write_first_usage(self, usage: UsageUpdate) -> None:
        """Pass the usage of the first frame to the encoder, before the frame's events."""
        self._encoder.render(usage)

    def write(self, event: Event, number: int, ms: int | None, *, ends: bool = False) -> bytes:
        """Write an event, and return the bytes that can be sent now.

        Args:
            event: The next event.
            number: Its number.
            ms: Its arrival; None if it is unknown.
            ends: Whether it is the last.
        """
        if self._writer.failure is not None:
            return b""
        text, key = "", None
        if isinstance(event, (TextDelta, JSONDelta, ReasoningDelta)):
            text = event.partial_json if isinstance(event, JSONDelta) else event.text
            key = type(event), event.index, part_of(event)
            if text and not ends and key in self._sinks:
                written = self._append(key, event, text)
                if self._waiting or not written:
                    self._follow_delta(event.index, text, written, number, ms)
                return written
        if not isinstance(event, (TextDelta, JSONDelta)):
            # The sinks of deltas are valid until another event is written.
            self._sinks.clear()
        held_before = len(self._writer.held_blocks)
        written = b"".join(self._writer.write((event,), ends=ends))
        if key is not None and text.strip():
            # Many targets start a block with its first text: its sink is made afterwards.
            self._sinks.setdefault(key)
        match event:
            case TextDelta(index) | ReasoningDelta(index) | JSONDelta(index) if text:
                self._follow_delta(index, text, written, number, ms)
            case RefusalDelta(index, text) if text:
                self._follow_delta(index, text, written, number, ms)
            case BlockStop(index) if index not in self._writer.held_blocks:
                # Without bytes nothing of it will ever be written.
                self._end(index, number, ms, is_written=bool(written))
            case BlockStart(index) if event.choice:
                self._choices[index] = event.choice
            case _:
                pass
        if self._waiting and len(self._writer.held_blocks) != held_before:
            self._end_released(event, number, ms)
        return written

    def list_holds(self) -> tuple[Hold, ...]:
        """Return the holds so far, in order of their start."""
        # Deltas that wait for their own block may be dropped, which its end shows.
        still_held = [
            _hold(block, waiting)
            for block, waiting in self._waiting.items()
            if waiting.behind != block
        ]
        return tuple(sorted([*self._holds, *still_held], key=lambda hold: hold.start))

    def _append(self, key: _Key, delta: Delta, text: str) -> bytes:
        """Write a delta with the given text, and return the bytes that can be sent now."""
        sink = self._sinks[key]
        if sink is None:
            sink = self._sinks[key] = self._writer.delta_sink(delta)
        try:
            return sink(text) or b""
        except LimitExceeded as exc:
            return self._writer.fail(StreamError("too_large", str(exc), code=exc.limit))

    def _follow_delta(
        self, index: int, text: str, written: bytes, number: int, ms: int | None
    ) -> None:
        if written:
            self._end(index, number, ms, is_written=True)
            return
        waiting = self._waiting.get(index)
        if waiting is None:
            behind = self._writer.held_blocks.get(index, index)
            waiting = self._waiting[index] = _Waiting(behind, number, ms)
            if behind != index:
                heappush(self._held_back.setdefault(self._choices.get(index, 0), []), index)
        waiting.deltas += 1
        waiting.chars += len(text)

    def _end_released(self, event: Event, number: int, ms: int | None) -> None:
        """End the holds of all blocks, in the choice of `event`, that are no longer held back."""
        index: int = getattr(event, "index", 0)
        heap = self._held_back.get(self._choices.get(index, 0), [])
        while heap and heap[0] not in self._writer.held_blocks:
            self._end(heappop(heap), number, ms, is_written=True)

    def _end(self, block: int, number: int, ms: int | None, *, is_written: bool) -> None:
        waiting = self._waiting.pop(block, None)
        if waiting is None or not is_written:
            return
        if len(self._holds) == _MAX_HOLDS:
            self.unstored_holds += 1
            return
        self._holds.append(structs.replace(_hold(block, waiting), stop=number, stop_ms=ms))


def _hold(block: int, waiting: _Waiting) -> Hold:
    return Hold(block=block, **structs.asdict(waiting))
