"""The reader of delta runs: plain deltas of texts, reasoning and arguments of open items."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from streamnorm._core.codec import Delta, DeltaRun
from streamnorm._core.json import FAST_ERRORS
from streamnorm.dialects.openai_responses import wire
from streamnorm.dialects.openai_responses.items.text_progress import Growth
from streamnorm.dialects.openai_responses.sequence_numbers import Numbers

__all__ = ["OpenText", "ResponsesRun"]

_MAX_FRESH = 16  # deltas of a text that are not counted
_MAX_FRESH_CHARS = 256  # of one of them


class OpenText(Struct, frozen=True, gc=False):
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


# By the type of a delta: what stands before its payload, and the payload's decoder.
_KINDS = {
    type: (f"event: {name}\ndata: ".encode(), msgspec.json.Decoder(type))
    for type, name in wire.NAMES.items()
}


class ResponsesRun(DeltaRun):
    """Read the deltas of one type that only extend texts of open items.

    Args:
        numbers: The sequence numbers of the stream.
    """

    def __init__(self, numbers: Numbers) -> None:
        super().__init__()
        self._numbers = numbers
        self._texts: dict[str | None, OpenText] = {}  # by item id
        self._blocks: set[int] = set()  # of these texts
        self._type: type[wire.Piece] = wire.TextDelta  # of all of them
        self.prefix, decoder = _KINDS[self._type]
        self._decode = decoder.decode

    def forget(self) -> None:
        """Expect no delta: items may have changed."""
        self._texts.clear()
        self._blocks.clear()

    def expect(self, piece: wire.Piece, text: OpenText) -> None:
        """Expect more deltas of a text, besides those of other items.

        Args:
            piece: A delta of it that was read in full.
            text: The text.
        """
        if type(piece) is not self._type:
            self.forget()
            self._type = type(piece)
            self.prefix, decoder = _KINDS[self._type]
            self._decode = decoder.decode
        index, known = text.delta.index, self._texts.get(piece.item_id)
        if known is not None and known.delta == text.delta:
            return  # the delta stays the same object
        # A server may leave out the item id now and then: one text of a block is known at a time.
        if index in self._blocks:
            self.forget()
        self._texts[piece.item_id] = text
        self._blocks.add(index)

    def decode(self, payload: bytes) -> str | None:
        try:
            piece = self._decode(payload)
        except FAST_ERRORS:
            return None
        text, numbers, number = piece.delta, self._numbers, piece.sequence_number
        known = self._texts.get(piece.item_id)
        if (
            known is None
            or number != numbers.next
            or piece.output_index != known.output_index
            or piece.part != known.part
        ):
            return None
        if number is not None:
            numbers.next, numbers.latest = number + 1, payload
        growth = known.growth
        growth.fresh.append(text)
        if len(growth.fresh) >= _MAX_FRESH or len(text) > _MAX_FRESH_CHARS:
            growth.count()
        self.delta = known.delta
        return text
