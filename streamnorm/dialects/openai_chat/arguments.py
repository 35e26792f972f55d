"""The arguments of one tool call as they arrive, and whether they are complete JSON."""

from __future__ import annotations

import re

from streamnorm._core.json import is_json
from streamnorm._core.text_buffer import TextBuffer

__all__ = ["ENDS", "Arguments"]

_MARKS = re.compile(r'\\.|["{}\[\]]', re.DOTALL)
_MAX_NULL = 16
_MAX_FRESH = 16  # fragments that are not packed
_CLOSERS = ("}", "]", '"')
_CLOSER_OF = {"{": "}", "[": "]", '"': '"'}

ENDS = frozenset('}]" \t\r\n')
"""What complete arguments may end with, white space included."""


class Arguments:
    """The text of a call's arguments so far, and whether it is complete JSON.

    The check is linear over the call however often it is asked, and costs nothing
    until it is asked for the first time.

    Attributes:
        size: Characters so far.
    """

    __slots__ = (
        "_asked",
        "_broken",
        "_buffer",
        "_closer",
        "_complete",
        "_depth",
        "_in_string",
        "_last",
        "_scanned",
        "size",
    )

    def __init__(self) -> None:
        self.size = 0
        self._buffer = TextBuffer()
        self._closer: str | None = None  # of the value; "" if it is no such value
        self._last = ""  # the last fragment that is not white space
        self._asked = 0  # size at the last answer
        self._scanned = False
        self._depth = 0
        self._in_string = False
        self._complete = False
        self._broken = False

    def append(self, text: str) -> None:
        """Add a fragment."""
        fresh = self._buffer.fresh
        fresh.append(text)
        if len(fresh) >= _MAX_FRESH:
            self._buffer.pack()
        self.size += len(text)
        if not text.isspace():
            self._last = text
            if self._closer is None:
                self._closer = _CLOSER_OF.get(text.lstrip()[:1], "")

    def text(self) -> str:
        """Return all fragments as one."""
        return self._buffer.text()

    def may_end_with(self, text: str) -> bool:
        """Tell whether a further fragment, which ends as JSON may, may complete it."""
        return not self._closer or self._closer in text

    def closes_object(self) -> bool:
        """Tell whether the last character that is no white space is a closing brace."""
        return self._last.rstrip().endswith("}")

    def complete(self) -> bool:
        """Tell whether the text is one whole JSON object, array or string, or `null`.

        A lone `{}` is not: some servers send it first and the real object after it.
        """
        if self._asked == self.size or self._complete or self._broken:
            return self._complete
        self._asked = self.size
        if self._last.endswith("l") and self.size <= _MAX_NULL and self.text().strip() == "null":
            self._complete = True  # as Groq writes no arguments
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
        """Follow brackets and strings through what came since the last time.

        It ends with a closer or white space, and so with no half of an escape.
        """
        self._scanned = True
        for mark in _MARKS.finditer(self._buffer.unread()):
            self._step(mark[0])

    def _step(self, mark: str) -> None:
        if self._in_string:
            self._in_string = mark != '"'
        elif mark == '"':
            self._in_string = True
        elif mark in "{[":
            self._depth += 1
        elif mark in "}]":
            self._depth -= 1
