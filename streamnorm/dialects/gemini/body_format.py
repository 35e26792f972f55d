"""Body format of streams without `alt=sse`: a JSON array of chunks, read as server-sent events.

https://ai.google.dev/api/generate-content#method:-models.streamgeneratecontent (read
2026-11-22).  The byte that ends an element ends its event.  No bytes are buffered: the
bounds of events are the bounds of the array.
"""

from __future__ import annotations

import re

from streamnorm._core.codec import BodyFormat
from streamnorm.dialects.gemini.traits import recognises

_SPECIAL = re.compile(rb'["{}\[\],]')
_IN_STRING = re.compile(rb'["\\]')
_BLANK = b" \t\r\n"
_START, _END = b"data: ", b"\n\n"


class ArrayReader:
    """Converter of one JSON array to an event stream.

    Attributes:
        ended: Whether the array is closed.
    """

    def __init__(self) -> None:
        self.ended = False
        self._depth = 0  # number of open brackets
        self._inside = False  # an element has started
        self._in_string = False
        self._escaped = False

    def feed(self, data: bytes) -> bytes:
        """Return further bytes of the array as server-sent events."""
        out: list[bytes] = []
        position = 0
        while position < len(data) and not self.ended:
            position = self._skip(data, position, out)
        return b"".join(out)

    def _skip(self, data: bytes, position: int, out: list[bytes]) -> int:
        """Copy bytes through the next syntax character; return the position behind it."""
        if self._escaped:
            self._escaped = False
            self._write(data[position : position + 1], out)
            return position + 1
        match = (_IN_STRING if self._in_string else _SPECIAL).search(data, position)
        if match is None:
            self._write(data[position:], out)
            return len(data)
        self._write(data[position : match.start()], out)
        self._read_syntax(match[0], out)
        return match.end()

    def _read_syntax(self, byte: bytes, out: list[bytes]) -> None:
        if self._in_string:
            self._escaped = byte == b"\\"
            self._in_string = self._escaped
            self._write(byte, out)
            return
        if byte == b"," and self._depth == 1:
            self._end(out)
            return
        if byte in b"{[":
            self._depth += 1
            if self._depth > 1:
                self._write(byte, out)
            return
        if byte in b"}]":
            self._depth -= 1
            if self._depth > 0:
                self._write(byte, out)
            if self._depth <= 1:
                self._end(out)
            self.ended = self._depth <= 0
            return
        self._in_string = byte == b'"'
        self._write(byte, out)

    def _write(self, data: bytes, out: list[bytes]) -> None:
        if not self._inside:
            data = data.lstrip(_BLANK)
            if not data:
                return
            self._inside = True
            out.append(_START)
        # JSON has line ends only between its tokens, as white space.
        out.append(data.replace(b"\r", b" ").replace(b"\n", b"\n" + _START))

    def _end(self, out: list[bytes]) -> None:
        if self._inside:
            self._inside = False
            out.append(_END)


JSON_ARRAY = BodyFormat(b"[", ArrayReader, recognises)
"""The body format; an array whose first element is an error is an error body."""
