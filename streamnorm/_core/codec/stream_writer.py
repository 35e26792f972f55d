"""The writer of a stream: projects events, puts blocks in order, and renders the bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from streamnorm._core.codec.encoder import Encoder
from streamnorm._core.errors import LimitExceeded
from streamnorm._core.events import (
    Delta,
    Event,
    JSONDelta,
    ReasoningDelta,
    StreamError,
    UsageUpdate,
    delta_factory,
    part_of,
)
from streamnorm._core.grammar import Sequencer
from streamnorm._core.limits import Limits


class StreamWriter:
    """Write a stream with an encoder.

    Args:
        encoder: Encoder of the dialect that is written.
        ordered: Whether blocks are written one at a time; if not, as they arrive.
        limits: Bounds.

    Attributes:
        failure: Error by which the writer itself ended the stream; None if it has not.
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

    def write(self, events: Iterable[Event]) -> list[bytes]:
        """Return the bytes of events, in pieces.

        Raises:
            LossyEncoding: `strict`, and the dialect cannot carry something.
        """
        parts: list[bytes] = []
        try:
            self._write(events, parts)
        except LimitExceeded as exc:
            parts.append(self.fail(StreamError("too_large", str(exc), code=exc.limit)))
        return parts

    def _write(self, events: Iterable[Event], parts: list[bytes]) -> None:
        for event in events:
            if type(event) is UsageUpdate:
                self.count(event)
                continue
            for passed in self._projector.push(event):
                # An error that the projector made: the target cannot carry what the answer waits
                # for.
                if isinstance(passed, StreamError) and passed is not event:
                    parts.append(self._end_with(passed))
                    return
                for ordered in self._in_order(passed):
                    if isinstance(ordered, StreamError) and ordered is not event:
                        parts.append(self.fail(ordered))
                        return
                    if written := self._render(ordered):
                        parts.append(written)
            if isinstance(event, StreamError):
                self._count_dropped()

    def count(self, usage: UsageUpdate) -> None:
        """Pass usage to the encoder, which writes it with the start or the end of the stream."""
        self._render(self._projector.usage(usage))

    def delta_sink(self, delta: Delta) -> Callable[[str], bytes | None]:
        """Return a function that writes more text of a block, as `write` does with a delta.

        It returns the bytes of the text, or None if the text is held for other blocks or
        for the end of its own.  Valid until `write` receives an event other than `TextDelta`
        and `JSONDelta`: a stop releases held blocks, and each part of a reasoning summary is
        written separately.

        Args:
            delta: A delta of the block and part.
        """
        index, projector = delta.index, self._projector
        collect = projector.argument_sink(index) if isinstance(delta, JSONDelta) else None
        if collect is not None:
            return collect
        if projector.passthrough_delta(index) == (type(delta), part_of(delta)):
            projected = delta
            if isinstance(delta, ReasoningDelta) and not projector.capabilities.reasoning_parts:
                # Without parts in the target all summaries are one text, written to part 0.
                projected = ReasoningDelta(index, "")
            hold = None if self._sequencer is None else self._sequencer.held_sink(projected)
            if hold is not None:
                return hold
            return self._encoder.delta_writer(index)
        make = delta_factory(delta)
        return lambda text: b"".join(self.write((make(text),)))

    def fail(self, error: StreamError) -> bytes:
        """End the stream with an error of ours, and return its bytes."""
        self._projector.push(error)
        if self._sequencer is not None:
            self._sequencer.push(error)
        return self._end_with(error)

    def _end_with(self, error: StreamError) -> bytes:
        self.failure = error
        self._count_dropped()
        return self._render(error)

    def _in_order(self, event: Event) -> list[Event]:
        return [event] if self._sequencer is None else self._sequencer.push(event)

    def _count_dropped(self) -> None:
        if self._sequencer is not None and self._sequencer.dropped_bytes:
            self._encoder.count_held(self._sequencer.dropped_bytes)
