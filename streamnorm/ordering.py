"""Blocks that overlap, one after the other.

Chat may interleave the arguments of parallel calls; the clients of the other dialects
append at a block's start and ignore the index they are told.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from streamnorm._json import compact
from streamnorm._text import TextBuffer
from streamnorm.events import (
    BlockStart,
    BlockStop,
    CitationDelta,
    Event,
    JSONDelta,
    Opaque,
    ReasoningDelta,
    RefusalDelta,
    SignatureDelta,
    StreamError,
    TextDelta,
)
from streamnorm.limits import Limits

__all__ = ["Sequencer"]


class _Run:
    """Deltas of one kind that wait, to go out as one."""

    __slots__ = ("last", "text")

    def __init__(self, first: TextDelta | RefusalDelta | ReasoningDelta | JSONDelta) -> None:
        self.last = first
        self.text = TextBuffer()

    def takes(self, event: Event) -> bool:
        """Tell whether `event` can be joined to it."""
        return type(event) is type(self.last) and getattr(event, "part", 0) == getattr(
            self.last, "part", 0
        )

    def event(self) -> Event:
        """Return all of it as one delta."""
        text = self.text.text()
        match self.last:
            case ReasoningDelta(index, _, part):
                return ReasoningDelta(index, text, part)
            case delta:
                return type(delta)(delta.index, text)


class Sequencer:
    """Let through one block at a time.

    Events of the lowest open block pass at once; events of later blocks wait until it
    stops.  Order within a block never changes; deltas that waited go out joined.  It
    starts, stops and renumbers nothing.

    Args:
        max_held_bytes: Text and JSON that may wait, in UTF-8 bytes.

    Attributes:
        head: Number of the block whose events pass at once; None if none is open.
        held_bytes: Text and JSON that waits, in UTF-8 bytes.
        dropped_bytes: Text and JSON that still waited when the stream failed.
    """

    def __init__(self, *, max_held_bytes: int = Limits().max_held_bytes) -> None:
        self.head: int | None = None
        self.held_bytes = 0
        self.dropped_bytes = 0
        self._max_held_bytes = max_held_bytes
        self._held: dict[int, list[Event | _Run]] = {}  # by block, in order of start
        self._stopped: set[int] = set()  # of those, the complete ones
        self._done = False

    def push(self, event: Event) -> list[Event]:
        """Return the events that may now go out, oldest first.

        Where more than `max_held_bytes` would wait, the last of them is a
        `StreamError("too_large")`, and the sequencer is done.
        """
        if self._done:
            return []
        match event:
            case (
                TextDelta(index)
                | JSONDelta(index)
                | ReasoningDelta(index)
                | RefusalDelta(index)
                | SignatureDelta(index)
                | CitationDelta(index)
                | Opaque(index=int(index))
            ):
                return self._hold(index, event) if index in self._held else [event]
            case BlockStart(index):
                if self.head is not None:
                    self._held[index] = []
                    return self._hold(index, event)
                self.head = index
                return [event]
            case BlockStop(index):
                if index in self._held:
                    self._stopped.add(index)
                    return self._hold(index, event)
                return [event, *self._advance()]
            case StreamError():
                return [*self._end(event)]
            case _:
                return [event]

    def arguments_wait(self, index: int) -> Callable[[str], list[StreamError]] | None:
        """Return what takes more arguments of a block that waits, if they do.

        It does what `push` would, and may be called until an event comes that is no
        such delta.
        """
        items = self._held.get(index)
        run = items[-1] if items else None
        if not isinstance(run, _Run) or not isinstance(run.last, JSONDelta):
            return None
        return partial(self._add, run)

    def _add(self, run: _Run, text: str) -> list[StreamError]:
        self.held_bytes += len(text) if text.isascii() else len(text.encode())
        if self.held_bytes > self._max_held_bytes:
            return self._overflow()
        run.text.append(text)
        return []

    def _advance(self) -> list[Event]:
        """Let out what waits, up to the next block that is still open."""
        out: list[Event] = []
        self.head = None
        while self._held and self.head is None:
            index = min(self._held)
            for item in self._held.pop(index):
                event = item.event() if isinstance(item, _Run) else item
                self.held_bytes -= _size(event)
                out.append(event)
            if index not in self._stopped:
                self.head = index
            self._stopped.discard(index)
        return out

    def _hold(self, index: int, event: Event) -> list[Event]:
        self.held_bytes += _size(event)
        if self.held_bytes > self._max_held_bytes:
            return [*self._overflow()]
        items = self._held[index]
        match event:
            case TextDelta() | JSONDelta() | ReasoningDelta() | RefusalDelta():
                last = items[-1]
                if not isinstance(last, _Run) or not last.takes(event):
                    last = _Run(event)
                    items.append(last)
                last.text.append(event.partial_json if isinstance(event, JSONDelta) else event.text)
            case _:
                items.append(event)
        return []

    def _overflow(self) -> list[StreamError]:
        message = (
            f"{self.held_bytes} bytes wait behind block {self.head}, "
            f"expected at most {self._max_held_bytes}"
        )
        return self._end(StreamError("too_large", message, code="max_held_bytes"))

    def _end(self, error: StreamError) -> list[StreamError]:
        self._done = True
        self.dropped_bytes, self.held_bytes = self.held_bytes, 0
        self._held.clear()
        return [error]


def _size(event: Event) -> int:
    """Return the UTF-8 bytes of text and JSON in an event."""
    match event:
        case TextDelta(_, text) | ReasoningDelta(_, text) | RefusalDelta(_, text):
            pass
        case JSONDelta(_, text) | SignatureDelta(_, text) | Opaque(data=text):
            pass
        case BlockStart(_, block):
            text = compact(block)
        case CitationDelta(_, citation):
            text = compact(citation)
        case _:
            return 0
    return len(text) if text.isascii() else len(text.encode())
