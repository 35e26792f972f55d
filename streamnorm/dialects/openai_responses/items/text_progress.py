"""Length and checksum of a text that arrives in deltas.

Every text of a Responses stream is repeated when it is complete, up to four times.
"""

from __future__ import annotations

from zlib import crc32

from streamnorm._core.json import rejoin

__all__ = ["TextProgress"]


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
        self._length += len(delta)
        self._crc = crc32(data, self._crc)
        return delta

    def count(self) -> None:
        """Count the deltas in `uncounted`."""
        if self.uncounted:
            text = "".join(self.uncounted)
            self.uncounted.clear()
            self._length += len(text)
            self._crc = crc32(text.encode(), self._crc)

    def add_missing_tail(self, complete_text: str) -> str | None:
        """Add and return what no delta carried of `complete_text`; None if they disagree."""
        length = self.length
        if len(complete_text) < length or crc32(complete_text[:length].encode()) != self._crc:
            return None
        self.high_surrogate = ""
        return self.add(complete_text[length:])

    def flush(self) -> str:
        """Return the replacement character for half a surrogate pair at the end, if any."""
        if not self.high_surrogate:
            return ""
        self.high_surrogate = ""
        return self.add("\ufffd")
