"""The fast path: consecutive deltas of open blocks, taken from frame to consumer as text.

Nearly every frame of a stream extends an open block and does nothing else.  Each frame is
therefore offered to the room's `DeltaRun` first; what it refuses is read in full
(`Decoder.read_raw`).  Both ways give the same events and bytes, under every chunking.

Three consumers ask a run: `Decoder.feed` makes events of the texts; a `DeltaForwarder`
appends them to the message and writes them in another dialect, or appends them only where
the original bytes are passed on.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol, TypeAlias

from streamnorm._json import FAST_ERRORS
from streamnorm.codec.delta import Delta, delta_factory, part_of
from streamnorm.codec.template import Template
from streamnorm.errors import LimitExceeded
from streamnorm.events import Event, JSONDelta, StreamError, TextDelta, UsageUpdate
from streamnorm.sse import RawFrame, SSEDecoder

__all__ = ["DeltaForwarder", "DeltaRun", "TextSinks"]

_NO_FRAMING = SSEDecoder()
_MAX_PADDING = 64
_MAX_LESSONS = 32  # of a block

_Append: TypeAlias = Callable[[str], None]
_Write: TypeAlias = Callable[[str], bytes | None]


class DeltaRun(ABC):
    """Read the frames of one stream that only extend an open block.

    A room subclasses it, and keeps it informed of the blocks that are open.  Blocks may
    take turns, as parallel calls do.

    Attributes:
        delta: After a text, a delta of the block and part that it extends; its own text
            means nothing.  The same object for the same block and part, as long as no
            frame is read in full.
        template: Reads the frames of one block that are known but for their text; None if
            there is none.
        tells_usage: Whether frames of the run may report tokens.
        framing: What cuts the bytes of the stream; one that never starts where a body in
            another form is read.
    """

    delta: Delta
    template: Template | None = None
    framing: SSEDecoder = _NO_FRAMING
    tells_usage: bool = False

    def __init__(self) -> None:
        self._max_read_bytes = 0  # of a read that may be one frame
        self._lessons = _MAX_LESSONS
        self._made: Delta | None = None  # the delta that `_make` makes others of
        self._make: Callable[[str], Delta]

    def text_of(self, raw: bytes) -> str | None:
        """Return the text of a frame that only extends an open block; "" if it adds nothing.

        None leaves everything as it was, and the frame is to be read in full: wherever a
        block stops, half a surrogate pair, a second event, or a note is involved.

        Args:
            raw: A whole event as `SSEDecoder.split` returns it.
        """
        template = self.template
        if template is not None and (text := template(raw)) is not None:
            return text
        text = self.decode(raw)
        if text:
            self._learn(raw, text)
        return text

    def text_of_read(self, data: bytes) -> str | None:
        """Return the text of a read that is one frame, which the template knows; else None.

        What the template knows holds no other line end, so that the read need not be split.
        """
        framing, template = self.framing, self.template
        if template is None or len(data) > self._max_read_bytes or framing.carries:
            return None
        if data[-2:] == b"\n\n":
            text = template(data[:-2])
        elif data[-4:] == b"\r\n\r\n":
            text = template(data[:-4])
        else:
            return None
        if text is not None:
            framing.frames += 1
        return text

    def event_of(self, text: str) -> Delta:
        """Return the event of a text that was just returned."""
        if self.delta is not self._made:
            self._made, self._make = self.delta, delta_factory(self.delta)
        return self._make(text)

    @abstractmethod
    def decode(self, raw: bytes) -> str | None:
        """Do what `text_of` does, without a template."""

    @abstractmethod
    def learn(self, raw: bytes) -> Template | None:
        """Return a template of the frames that are like one which `decode` has accepted."""

    def _learn(self, raw: bytes, text: str) -> None:
        """Learn a template from a frame that `decode` has accepted, or forget the one there was."""
        self.template = None
        if self._lessons:
            self._lessons -= 1
            with suppress(*FAST_ERRORS):  # a frame with another text may be none that is accepted
                self.template = self.learn(raw)
        if self.template is not None:
            # Two frames are longer, and so is one with a long text, which is split like others.
            surroundings = len(raw) - len(text.encode())
            self._max_read_bytes = min(2 * surroundings - _MAX_PADDING, self.framing.safe_bytes)

    def forget(self) -> None:
        """Forget the template: what its frames mean may have changed."""
        self.template = None
        # A server whose frames differ in more than their text is soon left alone.
        self._lessons = _MAX_LESSONS

    def pending_usage(self) -> UsageUpdate | None:
        """Return the tokens that frames of the run reported since the last call, if any.

        To be asked before any other event is read, and before the message, the usage or
        the end is.
        """
        return None

    def retract_usage(self) -> None:  # noqa: B027 - few runs report tokens
        """Forget the tokens of the last frame, whose text has passed a limit."""


class TextSinks(Protocol):
    """What keeps the texts of a run: an accumulator."""

    def text_sink(self, index: int, part: int = 0) -> _Append:
        """Return a function that appends text to an open block."""
        ...


class _DeltaSinks(Protocol):
    """What writes the texts of a run: a `StreamWriter`."""

    def delta_sink(self, delta: Delta) -> _Write:
        """Return a function that writes more text of a block."""
        ...


class DeltaForwarder:
    """Accumulate and write the deltas of a run without creating events.

    Args:
        run: Of the decoder that reads the stream.
        accumulator: Keeps the texts.
        writer: Writes them; None where the original bytes are passed on.

    Attributes:
        run: The run.
        failure: The limit that a frame has passed, after which the stream is at its end.
    """

    def __init__(self, run: DeltaRun, accumulator: TextSinks, writer: _DeltaSinks | None) -> None:
        self.failure: StreamError | None = None
        self.run = run
        self._accumulator = accumulator
        self._writer = writer
        # The sinks of the last block, and of each block with the delta that they are for.
        self._delta: Delta | None = None
        self._append: _Append
        self._write: _Write | None
        self._sinks: dict[int, tuple[Delta, _Append, _Write | None]] = {}

    def forward_read(self, data: bytes) -> bytes | None:
        """Return the bytes of a read that is one frame, if the template knows it."""
        run = self.run
        text = run.text_of_read(data)
        if not text:
            return None if text is None else b""
        if run.delta is not self._delta:
            self._select(run.delta)
        try:
            self._append(text)
            return (self._write is not None and self._write(text)) or b""
        except LimitExceeded as exc:
            self._fail(exc)
            return b""

    def forward(self, frames: list[RawFrame], position: int, parts: list[bytes]) -> int:
        """Forward frames that only extend open blocks.

        Args:
            frames: What was read.
            position: The first frame to forward.
            parts: Where to append the bytes that they make known.

        Returns:
            The position of the first frame that is to be read in full.
        """
        run = self.run
        text_of, template, delta = run.text_of, run.template or _no_text, self._delta
        for raw in frames[position:] if position else frames:
            if type(raw) is not bytes:
                break
            if (text := template(raw)) is None:
                if (text := text_of(raw)) is None:
                    break
                template = run.template or _no_text
            position += 1
            if not text:
                continue
            if run.delta is not delta:
                delta = self._select(run.delta)
            try:
                self._append(text)
                if self._write is not None and (written := self._write(text)):
                    parts.append(written)
            except LimitExceeded as exc:
                self._fail(exc)
                break
        return position

    def invalidate(self, events: list[Event]) -> None:
        """Make the sinks anew after events that change where text of a block goes."""
        for event in events:
            if type(event) is not TextDelta and type(event) is not JSONDelta:
                self._delta = None
                self._sinks.clear()
                return

    def _fail(self, exc: LimitExceeded) -> None:
        self.failure = StreamError("too_large", str(exc), code=exc.limit)
        self.run.retract_usage()

    def _select(self, delta: Delta) -> Delta:
        """Use the sinks of the block and part of `delta`."""
        sinks = self._sinks.get(delta.index)
        if sinks is None or sinks[0] is not delta:
            append = self._accumulator.text_sink(delta.index, part_of(delta))
            write = None if self._writer is None else self._writer.delta_sink(delta)
            sinks = self._sinks[delta.index] = (delta, append, write)
        self._delta, self._append, self._write = sinks
        return delta


def _no_text(raw: bytes) -> None:
    """Know no frame."""
