"""Decoding of JSON that msgspec refuses, in steps that each hold the interpreter's lock briefly."""

from __future__ import annotations

import json
import json.decoder
import json.scanner
import re
from collections.abc import Callable
from copy import copy
from typing import Any, TypeAlias

_Scan: TypeAlias = Callable[[str, int], tuple[Any, int]]

# Functions that `JSONDecoder` itself calls; the stubs of the standard library have none of them.
_PARSING: Any = json.decoder
_SCANNING: Any = json.scanner
_scanstring: Callable[[str, int, bool], tuple[str, int]] = _PARSING.scanstring

# Levels of a request: the body, its messages, a message, its content, a part of the content.
_LEVELS = 5
# The rest of a string after its first quote.
_STRING = re.compile(r'[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_HIGH = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}")
_LOW = re.compile(r"\\u[dD][c-fC-F][0-9a-fA-F]{2}")

SLICE_CHARS = 1024 * 1024
"""Characters of a longer string that one call decodes."""

ESCAPE_CHARS = 6
"""Length of the longest escape, `\\uXXXX`."""


class StepwiseDecoder(json.JSONDecoder):
    """A `json.JSONDecoder` that parses the outer five levels in Python, inner ones in C.

    No single call then holds the interpreter's lock for long.  Results and errors are the same.
    """

    scan_once: _Scan

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        scan_value, strict = self.scan_once, self.strict

        def scan_part(text: str, index: int) -> tuple[Any, int]:
            if text[index : index + 1] == '"':
                return _parse_string(text, index + 1, strict)
            return scan_value(text, index)

        self.scan_once = scan_part
        for _ in range(_LEVELS):
            self.scan_once = self._around(self.scan_once)

    def _around(self, scan_part: _Scan) -> _Scan:
        """Return a scanner that parses one more nesting level in Python."""
        parse_any_array, parse_any_object = _PARSING.JSONArray, _PARSING.JSONObject
        make_scanner: Callable[[Any], _Scan] = _SCANNING.py_make_scanner

        def parse_array(start: Any, _scan: _Scan) -> Any:
            return parse_any_array(start, scan_part)

        def parse_object(start: Any, strict: bool, _scan: _Scan, *options: Any) -> Any:
            return parse_any_object(start, strict, scan_part, *options)

        level: Any = copy(self)
        level.parse_array, level.parse_object = parse_array, parse_object
        level.parse_string = _parse_string
        return make_scanner(level)


def _parse_string(text: str, begin: int, strict: bool = True) -> tuple[str, int]:
    """Parse a string as `scanstring` does; parse a long string slice by slice.

    Args:
        text: The JSON text.
        begin: Index of the first character after the quote.
        strict: Whether control characters are refused.
    """
    if _STRING.match(text, begin, begin + SLICE_CHARS):
        return _scanstring(text, begin, strict)
    parts: list[str] = []
    position = begin
    try:
        while position + SLICE_CHARS < len(text):
            end = find_cut(text, position, position + SLICE_CHARS)
            part, stop = _scanstring(f'{text[position:end]}"', 0, strict)
            parts.append(part)
            if position + stop <= end:
                return "".join(parts), position + stop
            position = end
        part, stop = _scanstring(text, position, strict)
    except json.JSONDecodeError:
        # Raises again, with the position in the whole text.
        parts, (part, stop) = [], _scanstring(text, begin, strict)
    return "".join([*parts, part]), stop


def find_cut(text: str, start: int, end: int) -> int:
    """Return an index at or before `end` that splits no escape and no surrogate pair."""
    last = text.rfind("\\", max(start, end - ESCAPE_CHARS), end)
    if last < 0:
        return end
    before = text[start : last + 1]
    if (len(before) - len(before.rstrip("\\"))) % 2:  # an unescaped backslash begins an escape
        size = ESCAPE_CHARS if text[last + 1 : last + 2] == "u" else 2
        is_whole = last + size <= end
        end = end if is_whole else last
    high = end - ESCAPE_CHARS
    splits_pair = high >= start and _HIGH.match(text, high, end) and _LOW.match(text, end)
    return high if splits_pair else end
