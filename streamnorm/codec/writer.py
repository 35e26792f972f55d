"""Events to the bytes of a dialect: what it can carry, one block at a time, rendered."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from streamnorm.codec.delta import Delta
from streamnorm.codec.encoder import Encoder
from streamnorm.events import (
    Event,
    JSONDelta,
    ReasoningDelta,
    StreamError,
    TextDelta,
    UsageUpdate,
)
from streamnorm.limits import Limits
from streamnorm.ordering import Sequencer

__all__ = ["StreamWriter"]

_MAX_LIVE = 64  # blocks that are known to need no second look; few are ever open at once


class StreamWriter:
    """Write a stream with an encoder.

    Args:
        encoder: Of the dialect that is written.
        ordered: Whether one block is written at a time; if not, blocks are written as they
            come.
        limits: Bounds.

    Attributes:
        failure: The error that ended the stream here, whatever its source says.
    """

    def __init__(
        self,
        encoder: Encoder,
        *,
        ordered: bool = True,
        limits: Limits = Limits(),  # noqa: B008 - frozen
    ) -> None:
        self.failure: StreamError | None = None
        self._encoder = encoder
        self._render = encoder.render
        self._projector = encoder.projector
        self._sequencer: Sequencer | None = None
        if ordered:
            self._sequencer = Sequencer(
                overlapping=self._projector.capabilities.overlapping,
                max_held_bytes=limits.max_held_bytes,
            )
        # The deltas that need no projection and no ordering, until another event comes: the
        # type of each block's; of reasoning, the part.
        self._live: dict[int, type | int] = {}
        self._waiting: dict[int, Callable[[str], bytes]] = {}  # what takes arguments

    def write(self, events: Iterable[Event]) -> list[bytes]:
        """Return the bytes of events, in pieces.

        Raises:
            LossyEncoding: `strict`, and the dialect cannot carry something.
        """
        parts: list[bytes] = []
        for event in events:
            if self._is_live(event):
                parts.append(self._render(event))
            elif type(event) is UsageUpdate:
                self.count(event)
            elif isinstance(event, JSONDelta) and event.index in self._waiting:
                if written := self._waiting[event.index](event.partial_json):
                    parts.append(written)
            else:
                self._write_one(event, parts)
            if self.failure is not None:
                break
        return parts

    def count(self, usage: UsageUpdate) -> None:
        """Take tokens, which every dialect tells at the end of a stream, or with its start."""
        self._render(self._projector.usage(usage))

    def fail(self, error: StreamError) -> None:
        """Take it that the stream ends here, whatever its source says."""
        self.failure = error
        self._live.clear()

    def more(self, last: Delta) -> Callable[[str], bytes] | None:
        """Return what writes more of a block like its last delta; None if it must be seen whole.

        It does what `write` would, and may be called until an event comes that is no such
        delta of any block.
        """
        if self._is_live(last):
            return self._encoder.writer(last.index)
        return self._collects(last.index)

    def waits(self, index: int) -> Callable[[str], bytes] | None:
        """Return what takes more arguments that wait for another block, if they do.

        It does as `more` says, and may end the stream.
        """
        wait = None if self._sequencer is None else self._sequencer.arguments_wait(index)
        if wait is None or self._projector.passes(index)[0] is not JSONDelta:
            return None

        def write(text: str) -> bytes:
            errors = wait(text)
            return self._last_words(errors[0]) if errors else b""

        return write

    def _write_one(self, event: Event, parts: list[bytes]) -> None:
        """Write an event the long way, and find out which ones need not go it."""
        sequencer = self._sequencer
        for passed in self._projector.push(event):
            for ordered in (passed,) if sequencer is None else sequencer.push(passed):
                if isinstance(ordered, StreamError) and ordered is not event:
                    parts.append(self._last_words(ordered))
                    return
                if written := self._render(ordered):
                    parts.append(written)
        index: int | None = getattr(event, "index", None)
        if index is None:
            if isinstance(event, StreamError):
                self._count_dropped()
            return
        kind, part = self._projector.passes(index)
        if kind is not None and (sequencer is None or sequencer.passes(index)):
            if len(self._live) >= _MAX_LIVE:
                self._live.clear()
            self._live[index] = part if kind is ReasoningDelta else kind
        else:
            self._live.pop(index, None)
        if not isinstance(event, JSONDelta):
            self._waiting.clear()
        elif (write := self._collects(index) or self.waits(index)) is not None:
            self._waiting[index] = write

    def _is_live(self, event: Event) -> bool:
        """Tell whether an event needs no second look."""
        if type(event) is TextDelta or type(event) is JSONDelta:
            return self._live.get(event.index) is type(event)
        if type(event) is ReasoningDelta:
            return self._live.get(event.index) == event.part
        return False

    def _collects(self, index: int) -> Callable[[str], bytes] | None:
        """Return what takes more arguments that go out whole, if they do."""
        collect = self._projector.collects(index)
        if collect is None:
            return None

        def write(text: str) -> bytes:
            collect(text)
            return b""

        return write

    def _last_words(self, error: StreamError) -> bytes:
        """End the stream because too much waits, and return what tells so."""
        self.fail(error)
        self._count_dropped()
        return self._render(error)

    def _count_dropped(self) -> None:
        if self._sequencer is not None and self._sequencer.dropped_bytes:
            self._encoder.count_held(self._sequencer.dropped_bytes)
