"""A JSON array of chunks, as Gemini sends it without `alt=sse`, as server-sent events.

https://ai.google.dev/api/generate-content#method:-models.streamgeneratecontent (read
2026-11-22).

Each element becomes an event with the byte that ends it.  Nothing is held, so that the
bounds of the events are the bounds of the array.
"""

from __future__ import annotations

import re

from streamnorm._core.codec import Form
from streamnorm.dialects.gemini.marks import recognises

__all__ = ["ARRAY", "ArrayReader"]

_SPECIAL = re.compile(rb'["{}\[\],]')
_IN_STRING = re.compile(rb'["\\]')
_BLANK = b" \t\r\n"
_START, _END = b"data: ", b"\n\n"


class ArrayReader:
    """Turn the bytes of one array into those of an event stream.

    Attributes:
        ended: Whether the array is closed.
    """

    def __init__(self) -> None:
        self.ended = False
        self._depth = 0  # of open brackets
        self._inside = False  # an element has begun
        self._in_string = False
        self._escaped = False

    def feed(self, data: bytes) -> bytes:
        """Return the events that more bytes of the array are."""
        out: list[bytes] = []
        position = 0
        while position < len(data) and not self.ended:
            position = self._skip(data, position, out)
        return b"".join(out)

    def _skip(self, data: bytes, position: int, out: list[bytes]) -> int:
        """Take what comes before the next byte that matters, and that byte."""
        if self._escaped:
            self._escaped = False
            self._keep(data[position : position + 1], out)
            return position + 1
        match = (_IN_STRING if self._in_string else _SPECIAL).search(data, position)
        if match is None:
            self._keep(data[position:], out)
            return len(data)
        self._keep(data[position : match.start()], out)
        self._take(match[0], out)
        return match.end()

    def _take(self, byte: bytes, out: list[bytes]) -> None:
        if self._in_string:
            self._escaped = byte == b"\\"
            self._in_string = self._escaped
            self._keep(byte, out)
            return
        if byte == b"," and self._depth == 1:
            self._end(out)
            return
        if byte in b"{[":
            self._depth += 1
            if self._depth > 1:
                self._keep(byte, out)
            return
        if byte in b"}]":
            self._depth -= 1
            if self._depth > 0:
                self._keep(byte, out)
            if self._depth <= 1:
                self._end(out)
            self.ended = self._depth <= 0
            return
        self._in_string = byte == b'"'
        self._keep(byte, out)

    def _keep(self, data: bytes, out: list[bytes]) -> None:
        if not self._inside:
            data = data.lstrip(_BLANK)
            if not data:
                return
            self._inside = True
            out.append(_START)
        # No string of JSON holds a line end; between its tokens they are white space.
        out.append(data.replace(b"\r", b" ").replace(b"\n", b"\n" + _START))

    def _end(self, out: list[bytes]) -> None:
        if self._inside:
            self._inside = False
            out.append(_END)


ARRAY = Form(b"[", ArrayReader, recognises)
"""The form; an array whose first element is an error is none, but a body that tells it."""
