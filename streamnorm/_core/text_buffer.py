"""A buffer for text that arrives in many small pieces.

A list of pieces, like `io.StringIO`, takes some fifty bytes of overhead for each piece, and
a provider sends a long answer in tens of thousands.
"""

from __future__ import annotations

__all__ = ["TextBuffer"]

# Few pieces take little memory; many make joining cheap for each.
_BATCH = 16
# A growing `bytearray` reserves an eighth of its size, so long text is stored as `bytes`.
_CHUNK_BYTES = 4096


class TextBuffer:
    """A growing text.  It may contain lone surrogates.

    Attributes:
        fresh: The last pieces.  A caller that appends to it directly must call `pack`.
    """

    __slots__ = ("_chunks", "_packed", "_read", "_size", "fresh")

    def __init__(self, text: str = "") -> None:
        self._size = 0  # packed characters
        self.fresh: list[str] = []
        self._chunks: list[bytes] = []  # packed text, in chunks of `_CHUNK_BYTES` or more
        self._packed = bytearray()  # packed text after the chunks
        self._read = (0, 0)  # chunks, and bytes after them, that `unread` has returned
        if text:
            self.append(text)

    def append(self, text: str) -> None:
        """Append a piece."""
        fresh = self.fresh
        fresh.append(text)
        if len(fresh) >= _BATCH:
            self.pack()

    @property
    def size(self) -> int:
        """Characters of the text."""
        return self._size + sum(map(len, self.fresh))

    def text(self) -> str:
        """Return the whole text."""
        self.pack()
        return b"".join([*self._chunks, self._packed]).decode("utf-8", "surrogatepass")

    def unread(self) -> str:
        """Return the text appended since the last call."""
        self.pack()
        chunks, start = self._read
        self._read = len(self._chunks), len(self._packed)
        unread = b"".join([*self._chunks[chunks:], self._packed])[start:]
        return unread.decode("utf-8", "surrogatepass")

    def pack(self) -> int:
        """Join and store the last pieces, and return their size in UTF-8 bytes."""
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
