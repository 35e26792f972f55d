"""Length and checksum of a text that arrives in deltas.

Every text of a Responses stream is repeated when it is complete, up to four times.
"""

from __future__ import annotations

from collections.abc import Callable
from zlib import crc32

from streamnorm._core.json import rejoin
from streamnorm._core.text import TextBuffer

__all__ = ["StoredText", "TextProgress"]


class TextProgress:
    """Length and checksum of the part of a text that has arrived.

    Attributes:
        high_surrogate: First half of a surrogate pair, if the text ends in one.
        uncounted: Deltas that the delta run has appended since the last `count`; none
            holds half a surrogate pair.
    """

    __slots__ = ("_crc", "_length", "high_surrogate", "uncounted")

    def __init__(self) -> None:
        self.high_surrogate = ""
        self.uncounted: list[str] = []
        self._length = 0  # characters
        self._crc = 0  # of the text in UTF-8, so that the text need not be stored

    @property
    def length(self) -> int:
        """Characters so far."""
        self.count()
        return self._length

    def add(self, delta: str) -> str:
        """Add a delta and return its text, without half a surrogate pair at its end."""
        self.count()
        if self.high_surrogate:
            delta, self.high_surrogate = rejoin(self.high_surrogate, delta)
        try:
            data = delta.encode()
        except UnicodeEncodeError:
            delta, self.high_surrogate = rejoin("", delta)
            data = delta.encode()
        self._append(delta, data)
        return delta

    def count(self) -> None:
        """Count the deltas in `uncounted`."""
        if self.uncounted:
            text = "".join(self.uncounted)
            self.uncounted.clear()
            self._append(text, text.encode())

    def add_missing_tail(self, complete_text: str) -> str | None:
        """Add and return what no delta carried of `complete_text`; None if they disagree."""
        length = self.length
        if len(complete_text) < length or crc32(complete_text[:length].encode()) != self._crc:
            return None
        tail = complete_text[length:]
        if self.high_surrogate:
            half, _ = rejoin("", self.high_surrogate + "\udc00")
            if not tail or (tail[0] != "\ufffd" and ord(tail[0]) >> 10 != ord(half) >> 10):
                return None
            self.high_surrogate = ""
        return self.add(tail)

    def holds(self, complete_text: str) -> bool:
        """Return whether the text so far is `complete_text`."""
        if self.high_surrogate or len(complete_text) != self.length:
            return False
        # A delta may be half a surrogate pair, which no text holds.
        return crc32(complete_text.encode("utf-8", "surrogatepass")) == self._crc

    def flush(self) -> str:
        """Return the replacement character for half a surrogate pair at the end, if any."""
        if not self.high_surrogate:
            return ""
        self.high_surrogate = ""
        return self.add("\ufffd")

    def _append(self, text: str, data: bytes) -> None:
        self._length += len(text)
        self._crc = crc32(data, self._crc)


class StoredText(TextProgress):
    """A text of which also the characters are stored.

    The delta run counts the bytes of what it adds to `uncounted`.

    Args:
        store: Counts text that is stored, or raises the error of too much.
    """

    __slots__ = ("_store", "_stored")

    def __init__(self, store: Callable[[str], object]) -> None:
        super().__init__()
        self._store = store
        self._stored = TextBuffer()

    def add(self, delta: str) -> str:
        self._store(delta)
        return super().add(delta)

    @property
    def text(self) -> str:
        """The text so far."""
        self.count()
        return self._stored.text()

    def _append(self, text: str, data: bytes) -> None:
        super()._append(text, data)
        self._stored.append(text)
