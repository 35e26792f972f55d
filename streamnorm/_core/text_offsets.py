"""Where in a block a source belongs: from bytes, as Gemini counts, to characters."""

from __future__ import annotations

__all__ = ["Offsets"]

_LATER_BYTES = bytes(range(0x80, 0xC0))  # those of a character that are not its first
_MAX_FRESH = 32  # texts that are added together
_MAX_FRESH_CHARS = 256  # of one of them
_STEP = 1024


class Offsets:
    """Keep the text of one block, to find places in it.

    Of the first block what comes before its first character that is not ASCII is only counted.

    Args:
        base: Bytes of text in the blocks before it.
        max_bytes: How much is kept; places beyond are not found.

    """

    def __init__(self, base: int = 0, *, max_bytes: int) -> None:
        self._fresh: list[str] = []
        self._size = 0
        self._base = base
        self._room = max_bytes
        self._plain = 0  # bytes that are only counted
        self._text = bytearray()  # those behind them
        self._counts = [0]  # characters before each step of bytes

    @property
    def size(self) -> int:
        """Bytes so far."""
        self._take_fresh()
        return self._size

    def append_later(self, text: str) -> None:
        """Add more text, together with others."""
        fresh = self._fresh
        fresh.append(text)
        if len(fresh) >= _MAX_FRESH or len(text) > _MAX_FRESH_CHARS:
            self._take_fresh()

    def _take_fresh(self) -> None:
        if self._fresh:
            text = "".join(self._fresh)
            self._fresh.clear()
            self.append(text)

    def append(self, text: str) -> None:
        """Add more text."""
        self._take_fresh()
        if not self._base and not self._text and text.isascii():
            self._plain += len(text)
            self._size += len(text)
            return
        data = text.encode("utf-8", "replace")
        self._size += len(data)
        if len(self._text) + len(data) <= self._room:
            self._text += data
        else:
            self._room = 0

    def find(self, start: int, end: int, words: str | None) -> tuple[int, int] | None:
        """Return the characters that some bytes are, or None if they are of no such place.

        The vendor counts within the part, which is this block, or within the whole text;
        where that is not the same, the words decide, or the whole text.

        Args:
            start: First byte.
            end: Byte after the last.
            words: What stands there.
        """
        self._take_fresh()
        if not self._base:
            return self._characters(start, end)
        if words is not None and self._stands_at(start, end, words):
            return self._characters(start, end)
        start, end = start - self._base, end - self._base
        if words is not None and not self._stands_at(start, end, words):
            return None
        return self._characters(start, end)

    def _stands_at(self, start: int, end: int, words: str) -> bool:
        if not 0 <= start <= end <= len(self._text):
            return False
        return bytes(self._text[start:end]) == words.encode("utf-8", "replace")

    def _characters(self, start: int, end: int) -> tuple[int, int] | None:
        if not 0 <= start <= end <= self._plain + len(self._text):
            return None
        return self._count(start), self._count(end)

    def _count(self, position: int) -> int:
        """Return how many characters begin before a byte."""
        if position <= self._plain:
            return position
        position -= self._plain
        step = position // _STEP
        counts = self._counts
        while len(counts) <= step:
            at = (len(counts) - 1) * _STEP
            counts.append(counts[-1] + _first_bytes(self._text[at : at + _STEP]))
        within = _first_bytes(self._text[step * _STEP : position])
        return self._plain + counts[step] + within


def _first_bytes(data: bytearray) -> int:
    return len(data.translate(None, _LATER_BYTES))
