"""One dialect's bytes to another's, without I/O."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from streamnorm._registry import decoder, encoder
from streamnorm.accumulate import Accumulator
from streamnorm.events import Event, JSONDelta, Outcome, ReasoningDelta, StreamError, Usage
from streamnorm.failures import error_outcome
from streamnorm.limits import Limits
from streamnorm.losses import Loss, Note, OnLoss, OnNote
from streamnorm.messages import Message
from streamnorm.ordering import Sequencer

__all__ = ["Ordering", "Transcoder"]

Ordering = Literal["sequential", "interleaved"]


class Transcoder:
    """Turn the stream of one dialect into the stream of another.

    What can go out goes out in the same `feed`, as one piece of bytes.  A stream that
    fails ends in the target's form of an error, never in its form of success.

    Args:
        source: Dialect to read; None to find out.
        target: Dialect to write.
        ordering: `sequential` writes one block at a time, as most clients need;
            `interleaved` writes blocks as they come, for clients known to cope.
        strict: Whether to raise `LossyEncoding` at the first loss.
        limits: Bounds.
        on_loss: Called with each loss as it happens.
        on_note: Called with each note as it happens.
        server: Who sends, where that decides between two readings.
        think_tags: Read `<think>…</think>` at the start of an answer as reasoning.
        model: Model to name in place of the one that answered.

    Raises:
        UnknownDialect: A dialect does not exist, or does not do its part.
    """

    def __init__(
        self,
        source: str | None,
        target: str,
        *,
        ordering: Ordering = "sequential",
        strict: bool = False,
        limits: Limits = Limits(),  # noqa: B008 - frozen
        on_loss: OnLoss | None = None,
        on_note: OnNote | None = None,
        server: str | None = None,
        think_tags: bool = False,
        model: str | None = None,
    ) -> None:
        self._decoder = decoder(
            source, server=server, think_tags=think_tags, limits=limits, on_note=on_note
        )
        self._encoder = encoder(target, model=model, strict=strict, on_loss=on_loss)
        self._render = self._encoder.render
        self._sequencer: Sequencer | None = None
        if ordering == "sequential" and not self._encoder.interleaves:
            self._sequencer = Sequencer(max_held_bytes=limits.max_held_bytes)
        self._accumulator = Accumulator(limits=limits)
        self._failure: StreamError | None = None
        # The deltas that need no projection and no ordering, until another event comes.
        self._live = -1
        self._live_type: type | None = None
        self._live_part = 0
        self._waiting: dict[int, Callable[[str], list[StreamError]]] = {}

    def feed(self, data: bytes) -> list[bytes]:
        """Return the bytes that `data` makes known, as one piece, or nothing.

        Raises:
            LossyEncoding: `strict`, and the target cannot carry something.
            LocalProtocolError: The transcoder was closed.
        """
        return self._encode(self._decoder.feed(data), len(data))

    def close(self) -> list[bytes]:
        """Return the bytes that the end of the source makes known."""
        return self._encode(self._decoder.close()) + _nonempty(self._encoder.close())

    def abort(self, cause: BaseException) -> list[bytes]:
        """Return the bytes that the failure of the source makes known."""
        return self._encode(self._decoder.abort(cause))

    def ping(self) -> bytes:
        """Return a sign of life for the client; nothing once the stream has ended."""
        return b"" if self.outcome is not None else self._encoder.ping()

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
        return self._accumulator.message()

    @property
    def usage(self) -> Usage:
        """The last snapshot of the tokens."""
        return self._accumulator.usage

    def _encode(self, events: list[Event], size: int = 0) -> list[bytes]:
        kept = self._accumulator.take(events, size)
        if not kept or self._failure is not None:
            return []
        parts: list[bytes] = []
        for event in kept:
            kind = type(event)
            if (
                kind is self._live_type
                and event.index == self._live  # type: ignore[union-attr]  # such a type has one
                and (kind is not ReasoningDelta or self._is_live_part(event))
            ):
                parts.append(self._render(event))
            elif isinstance(event, JSONDelta) and event.index in self._waiting:
                self._fail_on(self._waiting[event.index](event.partial_json), parts)
            else:
                self._encode_one(event, parts)
            if self._failure is not None:
                break
        if kept is not events and isinstance(last := kept[-1], StreamError):
            self._failure = last
        return parts if len(parts) < 2 else [b"".join(parts)]

    def _encode_one(self, event: Event, parts: list[bytes]) -> None:
        """Encode an event the long way, and find out which ones need not go it."""
        projector, sequencer = self._encoder.projector, self._sequencer
        for passed in projector.push(event):
            for ordered in (passed,) if sequencer is None else sequencer.push(passed):
                if isinstance(ordered, StreamError) and ordered is not event:
                    self._fail_on([ordered], parts)
                    return
                if written := self._render(ordered):
                    parts.append(written)
        head: int | None = getattr(event, "index", None)
        if sequencer is not None:
            if isinstance(event, StreamError):
                self._count_dropped()
            if not isinstance(event, JSONDelta):
                self._waiting.clear()
            elif (
                projector.passes(event.index)[0] is JSONDelta
                and (wait := sequencer.arguments_wait(event.index)) is not None
            ):
                self._waiting[event.index] = wait
            head = sequencer.head
        self._live = -1 if head is None else head
        self._live_type, self._live_part = projector.passes(self._live)

    def _is_live_part(self, event: Event) -> bool:
        return isinstance(event, ReasoningDelta) and event.part == self._live_part

    def _fail_on(self, errors: list[StreamError], parts: list[bytes]) -> None:
        for error in errors:
            self._failure = error
            parts.append(self._render(error))
            self._count_dropped()

    def _count_dropped(self) -> None:
        if self._sequencer is not None and self._sequencer.dropped_bytes:
            self._encoder.count_held(self._sequencer.dropped_bytes)


def _nonempty(data: bytes) -> list[bytes]:
    return [data] if data else []
