"""Tool calls: `functionCall` parts, whole or with `partialArgs`, both directions.

https://cloud.google.com/vertex-ai/generative-ai/docs/multimodal/function-calling (read
2026-11-22).  With `streamFunctionCallArguments` a call brings entries such as
`{"jsonPath": "$.to.city", "stringValue": "Os", "willContinue": true}`, in the order of the
JSON text; an entry without a value is an object or a list that is empty so far.
"""

from __future__ import annotations

import re
from typing import Any

from msgspec import Struct

from streamnorm._core.blocks import ServerToolCall, ToolCall
from streamnorm._core.events import StreamError
from streamnorm._core.json import clean, compact, objects_of, rejoin, string_of
from streamnorm._core.limits import Limits
from streamnorm._core.provider_errors import Fatal, too_large
from streamnorm.dialects.gemini.wire import RawCall, RawPart, raw_json

__all__ = [
    "CallPart",
    "PartialArguments",
    "call_part",
    "server_call_from_wire",
    "server_call_to_wire",
    "tool_call_to_wire",
]

_MAPPED = frozenset({"id", "name", "args", "partialArgs", "willContinue"})


class CallPart(Struct):
    """A `functionCall` part: a whole call or one fragment of a call.

    Attributes:
        id: Id of the call; empty if it has none.
        name: Name of the tool; empty in a later fragment.
        arguments: JSON text of `args`, byte for byte as on the wire; None without `args`.
        entries: `partialArgs`.
        goes_on: Whether more fragments of the call follow.
        rest: Fields without a unified field.
    """

    id: str
    name: str
    arguments: str | None
    entries: list[dict[str, Any]]
    goes_on: bool
    rest: dict[str, Any]


def call_part(call: dict[str, Any], raw: RawCall | None) -> CallPart:
    """Return a `functionCall` with the JSON text of its arguments."""
    entries = objects_of(call.get("partialArgs"))
    return CallPart(
        string_of(call, "id"),
        string_of(call, "name"),
        _arguments(call.get("args"), raw),
        entries,
        _goes_on(call) or any(map(_goes_on, entries)),
        {key: item for key, item in call.items() if key not in _MAPPED},
    )


def _goes_on(value: dict[str, Any]) -> bool:
    return value.get("willContinue") is True


def _arguments(value: Any, raw: RawCall | None) -> str | None:
    if value is None:
        return None
    if isinstance(value, str):
        return clean(value)
    text = bytes(raw.args).decode() if raw is not None else ""
    return text or compact(value)


def server_call_from_wire(
    field: str, value: dict[str, Any], raw: RawPart
) -> tuple[ServerToolCall, str]:
    """Return a call of `executableCode` or `toolCall`, and its JSON text as its arguments."""
    if field == "executableCode":
        name, text = "code_execution", raw.executable_code
    else:
        name, text = string_of(value, "toolType"), raw.tool_call
    call = ServerToolCall(string_of(value, "id"), name, kind=field)
    return call, bytes(text).decode() or compact(value)


def tool_call_to_wire(call: ToolCall, arguments: str, signature: str | None) -> dict[str, Any]:
    """Return a call as the fields of its part."""
    function = {"id": call.id, "name": call.name, "args": raw_json(arguments or "{}")}
    part: dict[str, Any] = {"functionCall": function}
    return part if signature is None else {**part, "thoughtSignature": signature}


def server_call_to_wire(call: ServerToolCall, arguments: str) -> dict[str, Any]:
    """Return a call that the provider executed as the fields of its part."""
    return {call.kind: raw_json(arguments or "{}")}


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
    """

    step: str | int
    is_list: bool
    keys: set[str]
    count: int = 0


class PartialArguments:
    """Serialize the `partialArgs` of one call as fragments of one JSON object.

    Args:
        limits: `max_json_depth` bounds the steps of a path.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._open: list[_Container] = []  # outermost first
        self._string: list[str | int] | None = None  # path of the unfinished string
        self._carry = ""  # high surrogate at its end

    def write(self, entry: dict[str, Any]) -> str:
        """Return the JSON text that an entry adds.

        Raises:
            Fatal: The entry has no path, or one that was already closed.
        """
        path, ends_list = self._path(entry.get("jsonPath"))
        text = ""
        if self._string is not None:
            if path == self._string:
                return self._continue_string(entry)
            text = self._end_string()
        return text + self._go_to(path, ends_list, entry)

    def finish(self) -> str:
        """Return the text that closes the open string and all containers."""
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
            return '"' + self._continue_string(entry)
        for key in ("numberValue", "boolValue"):
            if entry.get(key) is not None:
                return compact(entry[key])
        return "null"

    def _continue_string(self, entry: dict[str, Any]) -> str:
        """Return a fragment of the open string, with its end unless more follows."""
        piece = entry.get("stringValue")
        text, self._carry = rejoin(self._carry, piece if isinstance(piece, str) else "")
        text = compact(text)[1:-1]
        return text if entry.get("willContinue") is True else text + self._end_string()

    def _end_string(self) -> str:
        carry, self._carry, self._string = clean(self._carry), "", None
        return carry + '"'

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


def _has_value(entry: dict[str, Any]) -> bool:
    keys = ("stringValue", "numberValue", "boolValue", "nullValue")
    return any(key in entry for key in keys)


def _malformed(found: str) -> Fatal:
    return Fatal(StreamError("malformed", f"partial arguments with {found}"))
