"""The arguments of one tool call as they arrive, and whether they are complete JSON."""

from __future__ import annotations

import re
from io import StringIO

import msgspec

__all__ = ["CLOSERS", "Arguments"]

_TOKENS = re.compile(r'\\.?|["{}\[\]]', re.DOTALL)
CLOSERS = ("}", "]", '"')
"""What complete arguments end with."""


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
        "_complete",
        "_depth",
        "_escaped",
        "_in_string",
        "_last",
        "_scanning",
        "size",
    )

    def __init__(self) -> None:
        self.size = 0
        self._buffer = StringIO()
        self._last = ""  # the last fragment that is not white space
        self._asked = 0  # size at the last answer
        self._scanning = False
        self._depth = 0
        self._in_string = False
        self._escaped = False
        self._complete = False
        self._broken = False

    def append(self, text: str) -> None:
        """Add a fragment."""
        self._buffer.write(text)
        self.size += len(text)
        if not text.isspace():
            self._last = text
        if self._scanning:
            self._scan(text)

    def text(self) -> str:
        """Return all fragments as one."""
        return self._buffer.getvalue()

    def closes_object(self) -> bool:
        """Tell whether the last character that is no white space is a closing brace."""
        return self._last.rstrip().endswith("}")

    def complete(self) -> bool:
        """Tell whether the text is one whole JSON object, array or string.

        A lone `{}` is not: some servers send it first and the real object after it.
        """
        if self._asked == self.size or self._complete or self._broken:
            return self._complete
        self._asked = self.size
        if not self._last.rstrip().endswith(CLOSERS):
            return False
        if not self._scanning:
            text = self.text()
            if text.strip() != "{}" and _is_json(text):
                self._complete = True
                return True
            self._scanning = True
            self._scan(text)
        elif self._depth == 0 and not self._in_string:
            self._complete = _is_json(self.text())
            self._broken = not self._complete
        return self._complete

    def _scan(self, text: str) -> None:
        start = 1 if self._escaped else 0
        self._escaped = False
        for token in _TOKENS.finditer(text, start):
            self._step(token[0])

    def _step(self, token: str) -> None:
        if self._in_string:
            if token == '"':
                self._in_string = False
            elif token == "\\":  # the escaped character is in the next fragment
                self._escaped = True
        elif token == '"':
            self._in_string = True
        elif token in "{[":
            self._depth += 1
        elif token in "}]":
            self._depth -= 1


def _is_json(text: str) -> bool:
    try:
        msgspec.json.decode(text, type=msgspec.Raw)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return False
    return True
