"""Text that grows by deltas, and the whole of it that comes at its end.

Every text of a Responses stream is sent again when it is complete, up to four times.
"""

from __future__ import annotations

from zlib import crc32

from streamnorm._core.json import rejoin

__all__ = ["Growth"]


class Growth:
    """How far a text has come.

    Attributes:
        carry: High surrogate that it ended in.
        fresh: Deltas without half characters that are not counted yet: those of the delta run,
            which counts them now and then.
    """

    __slots__ = ("_mark", "_size", "carry", "fresh")

    def __init__(self) -> None:
        self.carry = ""
        self.fresh: list[str] = []
        self._size = 0  # characters so far
        self._mark = 0  # CRC-32 of them in UTF-8, so that they need not be kept

    @property
    def size(self) -> int:
        """Characters so far."""
        self.count()
        return self._size

    def add(self, text: str) -> str:
        """Return what a delta adds, without half a character at its end."""
        self.count()
        if self.carry:
            text, self.carry = rejoin(self.carry, text)
        try:
            data = text.encode()
        except UnicodeEncodeError:
            text, self.carry = rejoin("", text)
            data = text.encode()
        self._size += len(text)
        self._mark = crc32(data, self._mark)
        return text

    def count(self) -> None:
        """Count the deltas of the delta run."""
        if self.fresh:
            text = "".join(self.fresh)
            self.fresh.clear()
            self._size += len(text)
            self._mark = crc32(text.encode(), self._mark)

    def rest(self, whole: str) -> str | None:
        """Return what the whole text has more than came; None if it is another text."""
        size = self.size
        if len(whole) < size or crc32(whole[:size].encode()) != self._mark:
            return None
        self.carry = ""
        return self.add(whole[size:])

    def flush(self) -> str:
        """Return what stands for half a character that the text ended in."""
        if not self.carry:
            return ""
        self.carry = ""
        return self.add("\ufffd")
