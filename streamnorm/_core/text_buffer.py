"""A buffer for text that arrives in many small pieces.

A list of pieces, like `io.StringIO`, takes some fifty bytes of overhead for each piece, and
a provider sends a long answer in tens of thousands.
"""

from __future__ import annotations

from streamnorm._core.limits import StoredBytes

__all__ = ["BATCH", "LONG_CHARS", "TextBuffer"]

# Few pieces take little memory; many make joining cheap for each.
BATCH = 16
LONG_CHARS = 256
"""Pieces of one batch, and characters of a piece that ends its batch if it has more."""
# A growing `bytearray` reserves an eighth of its size, so long text is stored as `bytes`.
_CHUNK_BYTES = 4096


class TextBuffer:
    """A growing text.  It may contain lone surrogates.

    Args:
        text: Initial text.
        stored: Counter of its bytes.  A batch is counted as a whole: `append`, `text`, `unread`
            and `pack` raise `LimitExceeded` where it is too large.

    Attributes:
        fresh: The last pieces.  A caller that appends to it directly must call `pack`.
        counted: Bytes that `stored` counts of the text.
    """

    __slots__ = ("_chunks", "_packed", "_read", "_size", "_stored", "counted", "fresh")

    def __init__(self, text: str = "", stored: StoredBytes | None = None) -> None:
        self._size = 0  # packed characters
        self._stored = stored
        self.counted = 0
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
        if len(fresh) >= BATCH or len(text) > LONG_CHARS:
            self.pack()

    @property
    def size(self) -> int:
        """Characters of the text."""
        return self._size + sum(map(len, self.fresh))

    def text(self) -> str:
        """Return the whole text."""
        self.pack()
        return b"".join([*self._chunks, self._packed]).decode("utf-8", "surrogatepass")

    def release(self) -> None:
        """Count the text no longer, since nothing refers to it any more."""
        if self._stored is not None:
            self._stored.release(self.counted)
            self.counted = 0

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
        if self._stored is not None:
            self._stored.add(len(data))
            self.counted += len(data)
        self._packed += data
        if len(self._packed) >= _CHUNK_BYTES:
            self._chunks.append(bytes(self._packed))
            self._packed = bytearray()
        return len(data)
