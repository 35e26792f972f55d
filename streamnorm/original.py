"""Bytes of a stream that go out as they came: where their events end."""

from __future__ import annotations

import re

__all__ = ["Original", "Splitter"]

_EVENT_END = re.compile(rb"(?>\r\n|\r|\n)[\r\n]")  # up to the byte that ends its blank line


class Splitter:
    """Cut the bytes of a stream behind each event."""

    def __init__(self) -> None:
        self._tail = b""  # the last bytes before

    def follow(self, data: bytes) -> None:
        """Take it that a whole event was cut by others."""
        self._tail = data[-3:]

    def split(self, data: bytes) -> list[bytes]:
        """Return bytes cut behind each event."""
        before, known = len(self._tail), self._tail + data
        self._tail = known[-3:]
        if data[:1] != b"\n" and b"\r" not in known:
            *whole, rest = data.split(b"\n\n")
            pieces = [event + b"\n\n" for event in whole]
            return [*pieces, rest] if rest else pieces
        ends = [match.end() - before for match in _EVENT_END.finditer(known)]
        ends = [end for end in ends if 0 < end < len(data)]
        return [data[a:b] for a, b in zip([0, *ends], [*ends, len(data)], strict=True)]


class Original:
    """The bytes of a stream that go out as they came.

    Attributes:
        between_events: Whether no event is incomplete.
    """

    def __init__(self) -> None:
        self.between_events = True
        self._end = b""

    def take(self, data: bytes) -> bytes:
        """Return `data`, and know where in an event it ends."""
        self._end = (self._end + data)[-4:]
        self.between_events = self._end.endswith((b"\n\n", b"\r\r", b"\r\n\r\n"))
        return data

    def end_event(self) -> bytes:
        """Return what must come before another event."""
        if self.between_events:
            return b""
        return b"\n" if self._end.endswith(b"\n") else b"\n\n"
