"""Chunks that are one more piece of a text that is known: nearly all chunks are.

Such a chunk is one event of two lines, and its payload holds what marks the text, its
own number, and the piece.  To read these from the bytes, and to ask nothing else, costs
a third of framing the event and finding its item again.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import msgspec

from streamnorm._json import FAST_ERRORS
from streamnorm.codec import Decoder
from streamnorm.dialects.openai_responses import wire
from streamnorm.dialects.openai_responses.growth import Growing
from streamnorm.dialects.openai_responses.sequence import Numbers
from streamnorm.events import Event
from streamnorm.limits import Limits
from streamnorm.losses import OnNote
from streamnorm.sse import Frame

__all__ = ["PieceDecoder"]

_LF, _CR = 10, 13
# What was read and not counted yet is bounded by their product.
_MAX_TEXTS = 16
_MAX_FRESH = 32
_MAX_CHUNK_BYTES = 4096

_Read: TypeAlias = Callable[[bytes], str | None]


class _Kind(NamedTuple):
    """A type of piece.

    Attributes:
        head: What stands before the payload.
        decode: Read the payload.
    """

    head: bytes
    decode: Callable[[bytes], wire.Piece]


def _kind(type: type[wire.Piece]) -> _Kind:
    decoder: msgspec.json.Decoder[wire.Piece] = msgspec.json.Decoder(type)
    return _Kind(f"event: {wire.NAMES[type]}\ndata: ".encode(), decoder.decode)


_KINDS = {type: _kind(type) for type in wire.NAMES}


class PieceDecoder(Decoder):
    """Read chunks that are one more piece of a known text; all others are framed."""

    def __init__(self, *, limits: Limits, on_note: OnNote | None) -> None:
        super().__init__(limits=limits, on_note=on_note)
        self._max_chunk_bytes = min(limits.max_event_bytes, _MAX_CHUNK_BYTES)
        self._numbers = Numbers(self.note)
        self._piece: wire.Piece | None = None  # the last event, if it was one
        # The texts that the next chunk may be a piece of, by the ids of their items.
        self._texts: dict[str | None, Growing] = {}
        self._kind = _KINDS[wire.TextDelta]  # of their pieces
        self._text: Growing  # which the last piece was of
        self._read_more: _Read = _no_more

    @abstractmethod
    def growing(self, piece: wire.Piece) -> Growing | None:
        """Return the text that another piece like this one is added to, if it does no more."""

    def feed(self, data: bytes) -> list[Event]:
        added = self._read_more(data)
        if added is not None:
            return [self._text.make(added)] if added else []
        for text in self._texts.values():
            text.count()
        self._piece, before = None, self._sse.frames
        events = super().feed(data)
        piece = self._piece
        if piece is None or self.outcome is not None or not self._sse.plain:
            self._forget()
            return events
        if self._sse.frames != before + 1 or len(events) != 1:
            self._forget()  # more may have changed than one text
        self._expect_more(piece)
        return events

    @property
    def more(self) -> Callable[[bytes], str | None]:
        if self.continued is None:
            return _no_more
        if len(self._texts) > 1:
            text = self._text
            self._forget()
            self._know(text)
        return self._read_more

    @property
    def turns(self) -> Callable[[bytes], str | None]:
        return self._read_more

    @property
    def number(self) -> int:
        return self._numbers.next or 0

    def feed_frame(self, frame: Frame) -> list[Event]:
        self._forget()
        return super().feed_frame(frame)

    def close(self) -> list[Event]:
        self._forget()
        return super().close()

    def abort(self, cause: BaseException) -> list[Event]:
        self._forget()
        return super().abort(cause)

    def _expect_more(self, piece: wire.Piece) -> None:
        """Expect the next chunk to be another piece of the same text."""
        text, kind = self.growing(piece), _KINDS[type(piece)]
        if text is None:
            return
        if kind is not self._kind or len(self._texts) >= _MAX_TEXTS:
            self._forget()
        self._kind = kind
        self._know(text)

    def _know(self, text: Growing) -> None:
        # A server may leave out the id now and then: of a block one text at a time is known.
        others = (known for id, known in self._texts.items() if id != text.id)
        if any(other.delta.index == text.delta.index for other in others):
            self._forget()
        self._texts[text.id] = text
        self._text, self.continued = text, text.delta
        self._read_more = self._reader_of(text) if len(self._texts) == 1 else self._reader()

    def _forget(self) -> None:
        self.continued, self._read_more = None, _no_more
        for text in self._texts.values():
            text.count()
        self._texts.clear()

    # Nearly all chunks go one of these ways; that of a single text saves what finding out
    # costs, which is a tenth of reading the stream.

    def _reader_of(self, text: Growing) -> _Read:
        """Return what reads more of the one known text."""
        (head, decode), max_bytes = self._kind, self._max_chunk_bytes
        numbers, sse, fresh = self._numbers, self._sse, text.fresh
        size, id, number, part = len(head), text.id, text.number, text.part

        def read(data: bytes) -> str | None:
            if data[:size] != head or data[-2:] != b"\n\n" or len(data) > max_bytes:
                return None
            payload = data[size:-2]
            if _LF in payload or _CR in payload:
                return None
            try:
                piece = decode(payload)
            except FAST_ERRORS:
                return None
            place = piece.sequence_number
            if (
                place != numbers.next
                or piece.item_id != id
                or piece.output_index != number
                or piece.part != part
            ):
                return None
            if place is not None:
                numbers.next, numbers.latest = place + 1, data
            sse.frames += 1
            added = piece.delta
            fresh.append(added)
            if len(fresh) >= _MAX_FRESH:
                text.count()
            return added

        return read

    def _reader(self) -> _Read:
        """Return what reads more of any known text."""
        (head, decode), max_bytes = self._kind, self._max_chunk_bytes
        numbers, sse, texts = self._numbers, self._sse, self._texts
        size = len(head)

        def read(data: bytes) -> str | None:
            if data[:size] != head or data[-2:] != b"\n\n" or len(data) > max_bytes:
                return None
            payload = data[size:-2]
            if _LF in payload or _CR in payload:
                return None
            try:
                piece = decode(payload)
            except FAST_ERRORS:
                return None
            place, text = piece.sequence_number, texts.get(piece.item_id)
            if (
                text is None
                or place != numbers.next
                or piece.output_index != text.number
                or piece.part != text.part
            ):
                return None
            if place is not None:
                numbers.next, numbers.latest = place + 1, data
            sse.frames += 1
            self._text, self.continued = text, text.delta
            added = piece.delta
            text.fresh.append(added)
            if len(text.fresh) >= _MAX_FRESH:
                text.count()
            return added

        return read


def _no_more(data: bytes) -> None:
    """Leave every chunk to be framed."""
