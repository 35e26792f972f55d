"""The reader of delta runs: plain deltas of texts, reasoning and arguments of open items."""

from __future__ import annotations

import re
from typing import NamedTuple

import msgspec

from streamnorm._json import FAST_ERRORS
from streamnorm.codec import (
    Delta,
    DeltaRun,
    Template,
    decode_string,
    string_pattern,
    surroundings,
)
from streamnorm.dialects.openai_responses import wire
from streamnorm.dialects.openai_responses.growth import Growth
from streamnorm.dialects.openai_responses.sequence import Numbers

__all__ = ["OpenText", "ResponsesRun"]

_LF = 10
_DELTA = string_pattern("delta")
# What may stand behind a text: padding, which means nothing, and then the number.
_NUMBERED = re.compile(
    rb'(.*"obfuscation" *: *")[0-9A-Za-z]*(".*"sequence_number" *: *)(\d+)([ ,}].*)', re.DOTALL
)
_MAX_FRESH = 32  # deltas of a text that are not counted
_MAX_FRESH_CHARS = 256  # of one of them


class OpenText(NamedTuple):
    """A text of an open block, and how its deltas name it.

    Attributes:
        delta: A unified delta of the block and part.
        growth: How far the text has come.
        output_index: As the deltas have it, like the next.
        part: `content_index` or `summary_index`.
    """

    delta: Delta
    growth: Growth
    output_index: int | None
    part: int | None


class _Kind(NamedTuple):
    """A type of delta event: what stands before its payload, and the payload's decoder."""

    prefix: bytes
    decoder: msgspec.json.Decoder[wire.Piece]


def _kind(type: type[wire.Piece]) -> _Kind:
    prefix = f"event: {wire.NAMES[type]}\ndata: ".encode()
    return _Kind(prefix, msgspec.json.Decoder(type))


_KINDS = {type: _kind(type) for type in wire.NAMES}


class ResponsesRun(DeltaRun):
    """Read the deltas of one type that only extend texts of open items.

    Args:
        numbers: The sequence numbers of the stream.
    """

    def __init__(self, numbers: Numbers) -> None:
        super().__init__()
        self._before: Delta | None = None  # the delta of the frame before
        self._numbers = numbers
        self._texts: dict[str | None, OpenText] = {}  # by item id
        self._blocks: set[int] = set()  # of these texts
        self._type: type[wire.Piece] = wire.TextDelta  # of all of them
        self._prefix = b""
        self._start = 0
        self._decode = _KINDS[wire.TextDelta].decoder.decode

    def forget(self) -> None:
        """Expect no delta: items may have changed."""
        super().forget()
        self._texts.clear()
        self._blocks.clear()

    def expect(self, piece: wire.Piece, text: OpenText) -> None:
        """Expect more deltas of a text, besides those of other items.

        Args:
            piece: A delta of it that was read in full.
            text: The text.
        """
        if type(piece) is not self._type or not self._prefix:
            self.forget()
            self._type = type(piece)
            self._prefix, decoder = _KINDS[self._type]
            self._start, self._decode = len(self._prefix), decoder.decode
        index, known = text.delta.index, self._texts.get(piece.item_id)
        if known is not None and known.delta == text.delta:
            return  # the delta stays the same object
        # A server may leave out the item id now and then: one text of a block is known at a time.
        if index in self._blocks:
            self.forget()
        self._texts[piece.item_id] = text
        self._blocks.add(index)

    def decode(self, raw: bytes) -> str | None:
        start = self._start
        if raw[:start] != self._prefix or not start or raw.find(_LF, start) >= 0:
            return None
        try:
            piece = self._decode(raw[start:])
        except FAST_ERRORS:
            return None
        numbers, number = self._numbers, piece.sequence_number
        text = self._texts.get(piece.item_id)
        if (
            text is None
            or number != numbers.next
            or piece.output_index != text.output_index
            or piece.part != text.part
        ):
            return None
        if number is not None:
            numbers.next, numbers.latest = number + 1, raw
        fresh = text.growth.fresh
        fresh.append(piece.delta)
        if len(fresh) >= _MAX_FRESH or len(piece.delta) > _MAX_FRESH_CHARS:
            text.growth.count()
        self.delta = text.delta
        return piece.delta

    def learn(self, raw: bytes) -> Template | None:
        if self.delta is not self._before:  # blocks take turns
            self._before = self.delta
            return None
        start, decode = self._start, self._decode
        piece = decode(raw[start:])
        number, text = piece.sequence_number, self._texts[piece.item_id]
        piece.delta = "?"
        around = surroundings(raw, _DELTA, lambda frame: decode(frame[start:]) == piece)
        if around is None:
            return None
        numbered = _NUMBERED.match(around.tail)
        if number is None or numbered is None or number != int(numbered[3]):
            return None
        middle, behind, _, rest = numbered.groups()
        piece.sequence_number = number + 1
        probe = b"%b?%bx%b%d%b" % (around.head, middle, behind, number + 1, rest)
        if decode(probe[start:]) != piece:
            return None
        return self._template(around.head, middle, behind, rest, text)

    def _template(
        self, head: bytes, middle: bytes, behind: bytes, rest: bytes, text: OpenText
    ) -> Template:
        """Return a template of the deltas of one text, numbered one after the other.

        Args:
            head: The bytes before the text.
            middle: Those between the text and the padding.
            behind: Those between the padding and the sequence number.
            rest: Those behind the number.
            text: The text.
        """
        start, skip = len(head), len(middle)
        numbers, growth = self._numbers, text.growth
        fresh = growth.fresh

        def read(raw: bytes) -> str | None:
            tail = b"%b%d%b" % (behind, numbers.next or 0, rest)
            stop = -len(tail)
            if raw[:start] != head or raw[stop:] != tail:
                return None
            end = raw.rfind(middle)
            padding = raw[end + skip : stop]
            if padding and not padding.isalnum():
                return None
            try:
                text = decode_string(raw[start - 1 : end + 1])
            except FAST_ERRORS:
                return None
            numbers.next += 1  # type: ignore[operator]  # a frame that was numbered came before
            numbers.latest = raw
            fresh.append(text)
            if len(fresh) >= _MAX_FRESH or len(text) > _MAX_FRESH_CHARS:
                growth.count()
            return text

        return read
