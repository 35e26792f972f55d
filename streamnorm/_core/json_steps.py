"""The parser of the standard library for a large text, in calls that are each short.

Its scanner in C parses a whole text by one call, which holds the interpreter's lock.  The standard
library has the same functions in Python; here they parse the outer levels, and C the parts.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import copy

# What `JSONDecoder` itself calls; the stubs of the standard library have none of the three.
from json.decoder import JSONArray, JSONObject  # type: ignore[attr-defined]
from json.scanner import py_make_scanner  # type: ignore[attr-defined]
from typing import Any, TypeAlias, cast

__all__ = ["StepwiseDecoder"]

_Scan: TypeAlias = Callable[[str, int], tuple[Any, int]]

# A body, its messages, a message, its content, a part of that.
_LEVELS = 5


class StepwiseDecoder(json.JSONDecoder):
    """A decoder that parses five levels of a text in Python, and what they hold in C.

    It takes what `json.JSONDecoder` takes, and returns or raises the same.
    """

    scan_once: _Scan

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        for _ in range(_LEVELS):
            self.scan_once = self._around(self.scan_once)

    def _around(self, scan_part: _Scan) -> _Scan:
        """Return a scanner of one level more."""
        parse_any_array = cast("Any", JSONArray)
        parse_any_object = cast("Any", JSONObject)
        make_scanner = cast("Callable[[Any], _Scan]", py_make_scanner)

        def parse_array(start: Any, _scan: _Scan) -> Any:
            return parse_any_array(start, scan_part)

        def parse_object(start: Any, strict: bool, _scan: _Scan, *options: Any) -> Any:
            return parse_any_object(start, strict, scan_part, *options)

        level: Any = copy(self)
        level.parse_array, level.parse_object = parse_array, parse_object
        return make_scanner(level)
