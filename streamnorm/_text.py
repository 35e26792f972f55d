"""Text that arrives in many small pieces, and is kept as one.

A list of pieces, and `io.StringIO` too, holds fifty bytes of Python for each of them;
a provider sends a long answer in tens of thousands.
"""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["TextBuffer"]

# Few enough to be small, enough that joining them costs little each.
_BATCH = 64


class TextBuffer:
    """Text in pieces.  It may hold lone surrogates."""

    __slots__ = ("_fresh", "_packed", "_read", "_size")

    def __init__(self, text: str = "") -> None:
        self._size = 0  # characters that are packed
        self._fresh: list[str] = []
        self._packed = bytearray()
        self._read = 0  # bytes that `unread` has returned
        if text:
            self.append(text)

    def append(self, text: str) -> None:
        """Add a piece."""
        fresh = self._fresh
        fresh.append(text)
        if len(fresh) >= _BATCH:
            self._pack()

    @property
    def size(self) -> int:
        """Characters so far."""
        return self._size + sum(map(len, self._fresh))

    def extend(self, pieces: Iterable[str]) -> int:
        """Add pieces, and return how many UTF-8 bytes they are."""
        text = "".join(pieces)
        self._pack()
        before = len(self._packed)
        self._size += len(text)
        self._packed += text.encode("utf-8", "surrogatepass")
        return len(self._packed) - before

    def text(self) -> str:
        """Return all of it."""
        self._pack()
        return self._packed.decode("utf-8", "surrogatepass")

    def unread(self) -> str:
        """Return what came since the last call."""
        self._pack()
        start, self._read = self._read, len(self._packed)
        return self._packed[start:].decode("utf-8", "surrogatepass")

    def _pack(self) -> None:
        if self._fresh:
            text = "".join(self._fresh)
            self._size += len(text)
            self._packed += text.encode("utf-8", "surrogatepass")
            self._fresh.clear()
