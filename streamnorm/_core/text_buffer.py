"""A buffer for text that arrives in many small pieces.

A list of pieces, and `io.StringIO` too, holds fifty bytes of Python for each of them;
a provider sends a long answer in tens of thousands.
"""

from __future__ import annotations

__all__ = ["TextBuffer"]

# Few enough to be small, enough that joining them costs little each.
_BATCH = 16
# A `bytearray` that grows keeps an eighth of its size in reserve.
_CHUNK_BYTES = 4096


class TextBuffer:
    """Text in pieces.  It may hold lone surrogates.

    Attributes:
        fresh: The last pieces; whoever appends to it, and not by `append`, has to `pack`.
    """

    __slots__ = ("_chunks", "_packed", "_read", "_size", "fresh")

    def __init__(self, text: str = "") -> None:
        self._size = 0  # characters that are packed
        self.fresh: list[str] = []
        self._chunks: list[bytes] = []  # packed text that is at least a chunk
        self._packed = bytearray()  # and what is behind it
        self._read = (0, 0)  # chunks, and bytes behind them, that `unread` has returned
        if text:
            self.append(text)

    def append(self, text: str) -> None:
        """Add a piece."""
        fresh = self.fresh
        fresh.append(text)
        if len(fresh) >= _BATCH:
            self.pack()

    @property
    def size(self) -> int:
        """Characters so far."""
        return self._size + sum(map(len, self.fresh))

    def text(self) -> str:
        """Return all of it."""
        self.pack()
        return b"".join([*self._chunks, self._packed]).decode("utf-8", "surrogatepass")

    def unread(self) -> str:
        """Return what came since the last call."""
        self.pack()
        chunks, start = self._read
        self._read = len(self._chunks), len(self._packed)
        unread = b"".join([*self._chunks[chunks:], self._packed])[start:]
        return unread.decode("utf-8", "surrogatepass")

    def pack(self) -> int:
        """Store the last pieces as one, and return how many UTF-8 bytes they are."""
        fresh = self.fresh
        if not fresh:
            return 0
        text = "".join(fresh)
        fresh.clear()
        self._size += len(text)
        data = text.encode("utf-8", "surrogatepass")
        self._packed += data
        if len(self._packed) >= _CHUNK_BYTES:
            self._chunks.append(bytes(self._packed))
            self._packed = bytearray()
        return len(data)
