"""Text that grows by deltas, and the whole of it that comes at its end.

Every text of a Responses stream is sent again when it is complete, up to four times.
"""

from __future__ import annotations

from collections.abc import Callable
from zlib import crc32

from msgspec import Struct

from streamnorm._json import rejoin
from streamnorm.codec import Delta, more_like
from streamnorm.dialects.openai_responses import wire

__all__ = ["Growing", "Growth"]


class Growth(Struct):
    """How far a text has come.

    Attributes:
        size: Its characters so far.
        mark: CRC-32 of them in UTF-8, so that they need not be kept.
        carry: High surrogate that it ended in.
    """

    size: int = 0
    mark: int = 0
    carry: str = ""

    def add(self, text: str) -> str:
        """Return what a delta adds, without half a character at its end."""
        if self.carry:
            text, self.carry = rejoin(self.carry, text)
        try:
            data = text.encode()
        except UnicodeEncodeError:
            text, self.carry = rejoin("", text)
            data = text.encode()
        self.size += len(text)
        self.mark = crc32(data, self.mark)
        return text

    def rest(self, whole: str) -> str | None:
        """Return what the whole text has more than came; None if it is another text."""
        if len(whole) < self.size or crc32(whole[: self.size].encode()) != self.mark:
            return None
        self.carry = ""
        return self.add(whole[self.size :])

    def flush(self) -> str:
        """Return what stands for half a character that the text ended in."""
        if not self.carry:
            return ""
        self.carry = ""
        return self.add("\ufffd")


class Growing:
    """A text of an open block to which pieces are added as they come, and counted in batches.

    Args:
        piece: One of the pieces that it grows by.
        delta: What such a piece becomes.
        growth: How far the text has come.

    Attributes:
        id: The id of its item, as its pieces tell it.
        number: The number of its item, likewise.
        part: The number of its part, likewise.
        delta: One of its deltas.
        make: Return the delta of a piece.
        fresh: The pieces that were not counted.
    """

    __slots__ = ("_growth", "delta", "fresh", "id", "make", "number", "part")

    def __init__(self, piece: wire.Piece, delta: Delta, growth: Growth) -> None:
        self.id, self.number, self.part = piece.item_id, piece.output_index, piece.part
        self.fresh: list[str] = []
        self._growth = growth
        self.delta = delta
        self.make: Callable[[str], Delta] = more_like(delta)

    def count(self) -> None:
        """Count the pieces that were not."""
        if self.fresh:
            self._growth.add("".join(self.fresh))
            self.fresh.clear()
