"""`partialArgs`: the arguments of a call in fragments, as one JSON text.

https://cloud.google.com/vertex-ai/generative-ai/docs/multimodal/function-calling (read
2026-11-22).  With `streamFunctionCallArguments` a call brings entries such as
`{"jsonPath": "$.to.city", "stringValue": "Os", "willContinue": true}`, in the order of the
JSON text; an entry without a value is an object or a list that is empty so far.
"""

from __future__ import annotations

import re
from typing import Any

from msgspec import Struct

from streamnorm._core.events import StreamError
from streamnorm._core.failures import Fatal, store_bytes, too_large
from streamnorm._core.json import clean, compact, rejoin
from streamnorm._core.limits import OBJECT_BYTES, Limits, StoredBytes, text_bytes

__all__ = ["PartialArguments"]

_STEP = re.compile(
    r"""\.([^.\[\]]+)|\[([0-9]{0,9})\]|\['((?:[^'\\]|\\.)*)'\]|\["((?:[^"\\]|\\.)*)"\]"""
)
_ESCAPED = re.compile(r"\\(.)")


class _Container(Struct):
    """An object or list that is open in the JSON text.

    Attributes:
        step: Its key or position in the container around it.
        is_list: Whether it is a list.
        keys: Keys of an object so far.
        count: Number of values so far.
        stored_bytes: Bytes of the keys that are counted as stored.
    """

    step: str | int
    is_list: bool
    keys: set[str]
    count: int = 0
    stored_bytes: int = 0


class PartialArguments:
    """Serialize the `partialArgs` of one call as fragments of one JSON object.

    Args:
        limits: `max_json_depth` bounds the steps of a path.
        stored: Counter of the keys that are stored of open objects.
    """

    def __init__(self, limits: Limits, stored: StoredBytes) -> None:
        self._limits = limits
        self._stored = stored
        self._open: list[_Container] = []  # outermost first
        self._string: list[str | int] | None = None  # path of the unfinished string
        self._carry = ""  # high surrogate at its end

    def write(self, entry: dict[str, Any]) -> str:
        """Return the JSON text that an entry adds.

        Raises:
            Fatal: The entry has no path, or one that was already closed, or another than that
                of an unfinished string, or its value is none.
        """
        path, ends_list = self._path(entry.get("jsonPath"))
        _check_value(entry)
        if self._string is None:
            return self._go_to(path, ends_list, entry)
        if path != self._string or (_has_value(entry) and "stringValue" not in entry):
            raise _malformed("a value within an unfinished string")
        return self._continue_string(entry)

    def finish(self) -> str:
        """Return the text that closes all containers.

        An unfinished string is not closed: its end was never sent.
        """
        return self._close(0) if self._string is None else self._half_character()

    def cut(self) -> str:
        """Return text behind which the arguments are unfinished: their end was never sent."""
        return self._half_character() if self._open else "{"

    @property
    def is_whole(self) -> bool:
        """Whether nothing is open."""
        return self._string is None and not self._open

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
            # `[]` closes an open list; any other path that is open adds nothing.
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
        """Return the comma and the key before a value of the innermost container."""
        container = self._open[-1]
        comma = "," if container.count else ""
        container.count += 1
        if isinstance(step, int):
            if not container.is_list or step != container.count - 1:
                raise _malformed("a path out of order")
            return comma
        if container.is_list or step in container.keys:
            raise _malformed("a path out of order")
        size = OBJECT_BYTES + text_bytes(step)
        store_bytes(self._stored, size)
        container.stored_bytes += size
        container.keys.add(step)
        return f"{comma}{compact(step)}:"

    def _begin(self, step: str | int, *, is_list: bool) -> str:
        self._open.append(_Container(step, is_list=is_list, keys=set()))
        return "[" if is_list else "{"

    def _close(self, depth: int) -> str:
        closed = ["]" if container.is_list else "}" for container in reversed(self._open[depth:])]
        self._stored.release(sum(container.stored_bytes for container in self._open[depth:]))
        del self._open[depth:]
        return "".join(closed)

    def _value(self, path: list[str | int], entry: dict[str, Any]) -> str:
        if "stringValue" in entry:
            self._string = path
            return '"' + self._continue_string(entry)
        value = entry.get("numberValue", entry.get("boolValue"))
        return compact(value)

    def _continue_string(self, entry: dict[str, Any]) -> str:
        """Return a fragment of the open string, with its end unless more follows."""
        text, self._carry = rejoin(self._carry, entry.get("stringValue", ""))
        text = compact(text)[1:-1]
        return text if entry.get("willContinue") is True else text + self._end_string()

    def _end_string(self) -> str:
        self._string = None
        return self._half_character() + '"'

    def _half_character(self) -> str:
        carry, self._carry = clean(self._carry), ""
        return carry

    def _path(self, path: Any) -> tuple[list[str | int], bool]:
        """Return the steps of a path and whether it ends in `[]`."""
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


_TYPES: dict[str, tuple[type, ...]] = {
    "stringValue": (str,),
    "numberValue": (int, float),
    "boolValue": (bool,),
    "nullValue": (str, int, type(None)),
}
"""Types of the values of an entry, which has at most one."""


def _has_value(entry: dict[str, Any]) -> bool:
    return any(key in entry for key in _TYPES)


def _check_value(entry: dict[str, Any]) -> None:
    values = [key for key in _TYPES if key in entry]
    if len(values) > 1:
        raise _malformed(f"{len(values)} values in one entry")
    # JSON's `true` is an `int` for Python, and a number that is not finite is read as None.
    if values and type(entry[values[0]]) not in _TYPES[values[0]]:
        raise _malformed(f"a {values[0]} of another type")


def _malformed(found: str) -> Fatal:
    return Fatal(StreamError("malformed", f"partial arguments with {found}"))
