"""Arguments that come as values of paths, as the JSON text that they are.

https://cloud.google.com/vertex-ai/generative-ai/docs/multimodal/function-calling (read
2026-11-22).  With `streamFunctionCallArguments` a call brings entries such as
`{"jsonPath": "$.to.city", "stringValue": "Os", "willContinue": true}`, in the order of the
text; one without a value is an object or a list that is empty so far.
"""

from __future__ import annotations

import re
from typing import Any

from msgspec import Struct

from streamnorm._core.events import StreamError
from streamnorm._core.failures import Fatal, too_large
from streamnorm._core.json import clean, compact, rejoin
from streamnorm._core.limits import Limits

__all__ = ["PartialArguments"]

_STEP = re.compile(
    r"""\.([^.\[\]]+)|\[([0-9]{0,9})\]|\['((?:[^'\\]|\\.)*)'\]|\["((?:[^"\\]|\\.)*)"\]"""
)
_ESCAPED = re.compile(r"\\(.)")


class _Container(Struct):
    """An object or list that is open in the text.

    Attributes:
        step: Where it stands in the one around it.
        is_list: Whether it is a list.
        keys: Of an object, its members so far.
        count: How many values it has.
    """

    step: str | int
    is_list: bool
    keys: set[str]
    count: int = 0


class PartialArguments:
    """Write the arguments of one call.

    Args:
        limits: `max_json_depth` bounds how deep a path may go.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._open: list[_Container] = []  # the outermost first
        self._string: list[str | int] | None = None  # path of a string that goes on
        self._carry = ""  # high surrogate that it ended in

    def write(self, entry: dict[str, Any]) -> str:
        """Return the text of one more entry.

        Raises:
            Fatal: It has no path, or one that the text has left behind.
        """
        path, ends_list = self._path(entry.get("jsonPath"))
        text = ""
        if self._string is not None:
            if path == self._string:
                return self._more(entry)
            text = self._end_string()
        return text + self._go_to(path, ends_list, entry)

    def finish(self) -> str:
        """Return what closes the text."""
        text = self._end_string() if self._string is not None else ""
        return text + self._close(0)

    def _go_to(self, path: list[str | int], ends_list: bool, entry: dict[str, Any]) -> str:
        if not self._open:
            opening = "{"
            self._open.append(_Container("", is_list=False, keys=set()))
        else:
            opening = ""
        common = 0
        while (
            common < min(len(path), len(self._open) - 1)
            and self._open[common + 1].step == path[common]
        ):
            common += 1
        if common == len(path) and not _has_value(entry):
            # Of a list that is open it says that it ends; else it says nothing new.
            return opening + (self._close(common) if ends_list and path else "")
        if common == len(path):
            raise _malformed("a value for what is open")
        out = [opening, self._close(common + 1)]
        for number, step in enumerate(path[common:], common):
            out.append(self._enter(step))
            if number + 1 < len(path):
                out.append(self._begin(step, is_list=isinstance(path[number + 1], int)))
        if _has_value(entry):
            out.append(self._value(path, entry))
        else:
            out.append(self._begin(path[-1], is_list=ends_list))
        return "".join(out)

    def _enter(self, step: str | int) -> str:
        """Return what comes before the value at a step of the innermost container."""
        container = self._open[-1]
        comma = "," if container.count else ""
        container.count += 1
        if isinstance(step, int):
            if not container.is_list or step != container.count - 1:
                raise _malformed("a path out of order")
            return comma
        if container.is_list or step in container.keys:
            raise _malformed("a path out of order")
        container.keys.add(step)
        return f"{comma}{compact(step)}:"

    def _begin(self, step: str | int, *, is_list: bool) -> str:
        self._open.append(_Container(step, is_list=is_list, keys=set()))
        return "[" if is_list else "{"

    def _close(self, depth: int) -> str:
        closed = ["]" if container.is_list else "}" for container in reversed(self._open[depth:])]
        del self._open[depth:]
        return "".join(closed)

    def _value(self, path: list[str | int], entry: dict[str, Any]) -> str:
        if isinstance(entry.get("stringValue"), str):
            self._string = path
            return '"' + self._more(entry)
        for key in ("numberValue", "boolValue"):
            if entry.get(key) is not None:
                return compact(entry[key])
        return "null"

    def _more(self, entry: dict[str, Any]) -> str:
        """Return more of the string that is open, and its end if it is the last."""
        piece = entry.get("stringValue")
        text, self._carry = rejoin(self._carry, piece if isinstance(piece, str) else "")
        text = compact(text)[1:-1]
        return text if entry.get("willContinue") is True else text + self._end_string()

    def _end_string(self) -> str:
        carry, self._carry, self._string = clean(self._carry), "", None
        return carry + '"'

    def _path(self, path: Any) -> tuple[list[str | int], bool]:
        """Return the steps of a path, and whether it ends in `[]`."""
        if not isinstance(path, str) or not path.startswith("$"):
            raise _malformed("no path")
        steps: list[str | int] = []
        position, ends_list = 1, False
        while position < len(path):
            match = _STEP.match(path, position)
            if match is None or ends_list:
                raise _malformed("a path that is none")
            position = match.end()
            if match[2] == "":
                ends_list = True
            else:
                steps.append(_step(match))
            if len(steps) >= self._limits.max_json_depth:
                raise too_large("max_json_depth", self._limits.max_json_depth)
        return steps, ends_list


def _step(match: re.Match[str]) -> str | int:
    if match[2]:
        return int(match[2])
    if match[1]:
        return clean(match[1])
    return clean(_ESCAPED.sub(r"\1", match[3] or match[4] or ""))


def _has_value(entry: dict[str, Any]) -> bool:
    keys = ("stringValue", "numberValue", "boolValue", "nullValue")
    return any(key in entry for key in keys)


def _malformed(found: str) -> Fatal:
    return Fatal(StreamError("malformed", f"partial arguments with {found}"))
