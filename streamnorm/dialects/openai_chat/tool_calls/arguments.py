"""The arguments of one tool call as they arrive, and whether they are complete JSON."""

from __future__ import annotations

import re

from streamnorm._core.failures import too_large
from streamnorm._core.json import is_json
from streamnorm._core.limits import StoredBytes, text_bytes
from streamnorm._core.text import TextBuffer

__all__ = ["COMPLETE_ENDS", "Arguments"]

COMPLETE_ENDS = frozenset('}]" \t\r\n')
"""Characters that complete arguments may end with, trailing white space included."""

_MARKS = re.compile(r'\\.|["{}\[\]]', re.DOTALL)
_MAX_NULL_CHARS = 16
_MAX_FRESH = 16  # fragments that are not packed
_CLOSERS = ("}", "]", '"')
_CLOSER_OF = {"{": "}", "[": "]", '"': '"'}


class Arguments:
    """The text of a call's arguments so far, and whether it is complete JSON.

    All checks of one call together are linear in its size, and nothing is scanned before
    the first check.

    Args:
        stored: Counter of what the decoder stores.

    Attributes:
        size: Characters so far.
    """

    __slots__ = (
        "_broken",
        "_buffer",
        "_checked_size",
        "_closer",
        "_complete",
        "_depth",
        "_in_string",
        "_last",
        "_scanned",
        "size",
        "stored",
    )

    def __init__(self, stored: StoredBytes) -> None:
        self.size = 0
        self.stored = stored
        self._buffer = TextBuffer()
        self._closer: str | None = None  # of the value; "" if it is no object, array or string
        self._last = ""  # the last fragment that is not white space
        self._checked_size = 0  # size at the last check
        self._scanned = False
        self._depth = 0
        self._in_string = False
        self._complete = False
        self._broken = False

    def append(self, text: str) -> None:
        """Append a fragment.

        Raises:
            Fatal: More than `max_accumulated_bytes` would be stored.
        """
        if not self.append_if_bounded(text):
            raise too_large("max_accumulated_bytes", self.stored.bound)

    def append_if_bounded(self, text: str) -> bool:
        """Append a fragment; False, and nothing changes, if more would be stored than may be."""
        stored = self.stored
        size = len(text) if text.isascii() else text_bytes(text)
        if size > stored.left:
            return False
        stored.left -= size
        fresh = self._buffer.fresh
        fresh.append(text)
        if len(fresh) >= _MAX_FRESH:
            self._buffer.pack()
        self.size += len(text)
        if not text.isspace():
            if self._complete:
                self._complete, self._broken = False, True
            self._last = text
            if self._closer is None:
                self._closer = _CLOSER_OF.get(text.lstrip()[:1], "")
        return True

    def text(self) -> str:
        """Return all fragments, joined."""
        return self._buffer.text()

    def is_empty(self) -> bool:
        """Return whether the text is empty or a lone `{}`."""
        return not self.size or (self.size == 2 and self.text() == "{}")

    def is_whole(self) -> bool:
        """Return whether the text is empty or one JSON value, given that nothing follows."""
        return not self.size or self.is_complete() or is_json(self.text())

    def may_end_with(self, text: str) -> bool:
        """Return whether a fragment that ends in one of `COMPLETE_ENDS` may complete the JSON."""
        return not self._closer or self._closer in text

    def closes_object(self) -> bool:
        """Return whether the last character other than white space is a closing brace."""
        return self._last.rstrip().endswith("}")

    def is_complete(self) -> bool:
        """Return whether the text is one whole JSON object, array or string, or `null`.

        A lone `{}` is not complete: some servers send it before the real object.
        """
        if self._checked_size == self.size or self._complete or self._broken:
            return self._complete
        self._checked_size = self.size
        # Groq sends `null` for a call without arguments.
        is_short = self.size <= _MAX_NULL_CHARS
        if is_short and self._last.endswith("l") and self.text().strip() == "null":
            self._complete = True
            return True
        if not self._last.rstrip().endswith(_CLOSERS):
            return False
        if not self._scanned:
            text = self.text()
            if text.strip() != "{}" and is_json(text):
                self._complete = True
                return True
        self._scan()
        if self._depth == 0 and not self._in_string:
            text = self.text()
            if text.strip() != "{}":
                self._complete = is_json(text)
                self._broken = not self._complete
        return self._complete

    def _scan(self) -> None:
        """Follow brackets and strings through the text that the last scan has not seen.

        The text ends in a closer or white space, so no escape sequence is cut in half.
        """
        self._scanned = True
        for match in _MARKS.finditer(self._buffer.unread()):
            mark = match[0]
            if self._in_string:
                self._in_string = mark != '"'
            elif mark == '"':
                self._in_string = True
            elif mark in "{[":
                self._depth += 1
            elif mark in "}]":
                self._depth -= 1
