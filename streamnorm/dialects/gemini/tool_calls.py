"""Tool calls: wire parts, arguments in fragments, and the calls of one candidate.

https://ai.google.dev/api/caching#FunctionCall (read 2026-11-22).  The Gemini API sends a call
whole.  Vertex AI can stream its arguments: a start with the name, fragments (`partialArgs`) that
each set the value at a JSON path, and an end without any field.  `PartialArguments` writes the
fragments as one JSON text.
"""

from __future__ import annotations

import re
from typing import Any

from msgspec import Struct

from streamnorm._core.blocks import ServerToolCall, ServerToolResult, ToolCall
from streamnorm._core.events import StreamError
from streamnorm._core.failures import Fatal, store_bytes, too_large
from streamnorm._core.json import (
    clean,
    compact,
    dumps,
    is_json,
    is_object,
    object_in,
    objects_of,
    rejoin,
    string_of,
)
from streamnorm._core.limits import OBJECT_BYTES, Limits, StoredBytes, text_bytes
from streamnorm.dialects.gemini.wire import DIALECT, RawCall, RawPart, raw_json

_MAPPED = frozenset({"id", "name", "args", "partialArgs", "willContinue"})
_CODE_RESULT, _MCP_RESULT = "codeExecutionResult", "call_tool_result_json"
_FAILED = "OUTCOME_FAILED"
_FAILURES = (_FAILED, "OUTCOME_DEADLINE_EXCEEDED")
_STEP = re.compile(
    r"""\.([^.\[\]]+)|\[([0-9]{0,9})\]|\['((?:[^'\\]|\\.)*)'\]|\["((?:[^"\\]|\\.)*)"\]"""
)
_ESCAPED = re.compile(r"\\(.)")
_TYPES: dict[str, tuple[type, ...]] = {
    "stringValue": (str,),
    "numberValue": (int, float),
    "boolValue": (bool,),
    "nullValue": (str, int, type(None)),
}
"""Types of the values that an entry can have, at most one."""


class CallPart(Struct):
    """A `functionCall` part: a whole tool call or a fragment of a tool call.

    Attributes:
        id: Id of the call; "" if it is missing.
        name: Name of the tool; "" in a later fragment.
        arguments: JSON text of `args`, byte for byte as on the wire; None without `args`.
        entries: Entries of `partialArgs`.
        continues: Whether more fragments of the call follow.
        unknown: Unknown fields.
    """

    id: str
    name: str
    arguments: str | None
    entries: list[dict[str, Any]]
    continues: bool
    unknown: dict[str, Any]


def call_part_from_wire(call: dict[str, Any], raw: RawCall | None) -> CallPart:
    """Return a `functionCall` part with its arguments as JSON text.

    Raises:
        Fatal: The call has both complete arguments and fragments.
    """
    entries = objects_of(call.get("partialArgs"))
    continues = _continues(call) or any(map(_continues, entries))
    arguments = _arguments_text(call.get("args"), raw)
    if arguments is not None and (entries or continues):
        # `args: {}` beside fragments is empty; whole arguments would be written twice.
        if call["args"]:
            raise contradiction("whole arguments beside fragments")
        arguments = None
    unknown = {key: item for key, item in call.items() if key not in _MAPPED}
    id, name = string_of(call, "id"), string_of(call, "name")
    return CallPart(id, name, arguments, entries, continues, unknown)


def _continues(value: dict[str, Any]) -> bool:
    return value.get("willContinue") is True


def _arguments_text(value: Any, raw: RawCall | None) -> str | None:
    if value is None:
        return None
    if isinstance(value, str):
        return clean(value)
    # As spelt: numbers beyond Python's precision and the order of keys reach the tool unchanged.
    text = bytes(raw.args).decode() if raw is not None else ""
    return text or compact(value)


def server_call_from_wire(
    field: str, value: dict[str, Any], raw: RawPart
) -> tuple[ServerToolCall, str]:
    """Return an `executableCode` or `toolCall` as a server call and its arguments."""
    if field == "executableCode":
        name, text = "code_execution", raw.executable_code
    else:
        name, text = string_of(value, "toolType"), raw.tool_call
    call = ServerToolCall(string_of(value, "id"), name, kind=field)
    return call, bytes(text).decode() or compact(value)


def tool_call_to_wire(call: ToolCall, arguments: str, signature: str | None) -> dict[str, Any]:
    """Return a client tool call as the fields of a part."""
    # An object: google-genai refuses arguments that are text (3.4.0, read 2026-11-22).
    function = {"id": call.id, "name": call.name, "args": raw_json(arguments or "{}")}
    part: dict[str, Any] = {"functionCall": function}
    return part if signature is None else {**part, "thoughtSignature": signature}


def server_call_to_wire(call: ServerToolCall, arguments: str) -> dict[str, Any]:
    """Return a server tool call as the fields of a part."""
    return {call.kind: raw_json(arguments or "{}")}


def executed_call(call: ToolCall, result: ServerToolResult) -> ServerToolCall:
    """Return a call of a function that Google has executed as a server tool call.

    With `mcpServers` only the result, in a later chunk, shows that the client is not asked.
    """
    content = result.content if is_object(result.content) else {}
    function = {"name": call.name, "args": raw_json(call.arguments or "{}")}
    if "id" in content:  # else the id of the call was minted
        function = {"id": call.id, **function}
    extra = {**(call.extra or {})}
    if call.signature is not None and call.issuer == "google":
        extra[DIALECT] = {**extra.get(DIALECT, {}), "thoughtSignature": call.signature}
    arguments = dumps(function).decode()
    return ServerToolCall(call.id, call.name, arguments, "functionCall", extra=extra or None)


def server_result_from_wire(field: str, value: dict[str, Any], id: str) -> ServerToolResult:
    """Return a `codeExecutionResult`, `toolResponse` or `functionResponse` as a server result.

    Args:
        field: Name of the part's field.
        value: Value of the field.
        id: Id of the call that is answered.
    """
    return ServerToolResult(id, field, value, _has_failed(field, value))


def server_result_to_wire(result: ServerToolResult) -> dict[str, Any]:
    """Return a server tool's result as the fields of a part."""
    kind, content = result.kind, result.content
    if is_object(content):
        content = dict(content)
    if result.is_error and kind == _CODE_RESULT:
        if not is_object(content):  # a page has the error as text
            content = {"output": content if isinstance(content, str) else compact(content)}
        if not _has_failed(kind, content):
            content["outcome"] = _FAILED
    return {kind: content}


def _has_failed(field: str, value: dict[str, Any]) -> bool:
    """Return whether a result of the server reports a failure."""
    if field == _CODE_RESULT:
        return value.get("outcome") in _FAILURES
    response = value.get("response")
    if field != "functionResponse" or not is_object(response):
        return False
    # By convention a failed function's response has only `error`.  A remote MCP server's result
    # is JSON text.
    in_mcp = response.get(_MCP_RESULT)
    is_error = isinstance(in_mcp, str) and object_in(in_mcp).get("isError") is True
    return is_error or response.keys() == {"error"}


def contradiction(found: str) -> Fatal:
    """Return the error for a call part that contradicts earlier parts."""
    return Fatal(StreamError("malformed", f"function call with {found}"))


class _Container(Struct):
    """An open object or list in the arguments.

    Attributes:
        step: Key or position in the container around it.
        is_list: Whether the container is a list.
        keys: Keys of an object so far.
        count: Number of values so far.
        stored_bytes: Bytes of the keys, counted as stored.
    """

    step: str | int
    is_list: bool
    keys: set[str]
    count: int = 0
    stored_bytes: int = 0


class PartialArguments:
    """Converter of one call's `partialArgs` to fragments of a JSON object.

    Args:
        limits: Limits, of which `max_json_depth` bounds the steps of a path.
        stored: Counter of stored bytes, for the keys of open objects.
    """

    def __init__(self, limits: Limits, stored: StoredBytes) -> None:
        self._limits = limits
        self._stored = stored
        self._open: list[_Container] = []  # outermost first
        self._string: list[str | int] | None = None  # path of the open string
        self._carry = ""  # high surrogate at its end

    def write(self, entry: dict[str, Any]) -> str:
        """Return the JSON text that a `partialArgs` entry adds.

        Raises:
            Fatal: The path is missing, already closed, or differs from the path of an open
                string; or the value has a wrong type.
        """
        path, ends_list = self._read_path(entry.get("jsonPath"))
        _check_value(entry)
        if self._string is None:
            return self._go_to(path, ends_list, entry)
        if path != self._string or (_has_value(entry) and "stringValue" not in entry):
            raise _malformed("a value within an unfinished string")
        return self._continue_string(entry)

    def finish(self) -> str:
        """Return the JSON text that closes all open containers.

        An open string stays open, and its containers with it: its end was never sent.
        """
        return self._close_to(0) if self._string is None else self._half_character()

    def cut(self) -> str:
        """Return the last text of a call that is cut off; the arguments stay incomplete JSON."""
        return self._half_character() if self._open else "{"

    @property
    def is_whole(self) -> bool:
        """Whether all strings and containers are closed."""
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
            return opening + (self._close_to(common) if ends_list and path else "")
        if common == len(path):
            raise _malformed("a value for what is open")
        # Vertex AI sends the values in the order of the JSON text: a container that a path leaves
        # is complete.
        out = [opening, self._close_to(common + 1)]
        for number, step in enumerate(path[common:], common):
            out.append(self._enter(step))
            if number + 1 < len(path):
                out.append(self._begin(step, is_list=isinstance(path[number + 1], int)))
        if _has_value(entry):
            out.append(self._value(path, entry))
        else:
            # An entry without a value is an empty object, or with `[]` an empty array, which later
            # entries may fill.
            out.append(self._begin(path[-1], is_list=ends_list))
        return "".join(out)

    def _enter(self, step: str | int) -> str:
        """Return the comma and key that precede a value in the innermost container.

        Positions of a list must be dense: a sparse one would demand padding without bound.
        """
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

    def _close_to(self, depth: int) -> str:
        closed = ["]" if container.is_list else "}" for container in reversed(self._open[depth:])]
        self._stored.release(sum(container.stored_bytes for container in self._open[depth:]))
        del self._open[depth:]
        return "".join(closed)

    def _value(self, path: list[str | int], entry: dict[str, Any]) -> str:
        if "stringValue" in entry:
            self._string = path
            return '"' + self._continue_string(entry)
        # `nullValue` has the name `NULL_VALUE`, whose JSON is null.
        value = entry.get("numberValue", entry.get("boolValue"))
        return compact(value)

    def _continue_string(self, entry: dict[str, Any]) -> str:
        """Return the next fragment of the open string, with a closing quote if the string ends."""
        text, self._carry = rejoin(self._carry, entry.get("stringValue", ""))
        text = compact(text)[1:-1]
        return text if entry.get("willContinue") is True else text + self._end_string()

    def _end_string(self) -> str:
        self._string = None
        return self._half_character() + '"'

    def _half_character(self) -> str:
        carry, self._carry = clean(self._carry), ""
        return carry

    def _read_path(self, path: Any) -> tuple[list[str | int], bool]:
        """Return the steps of a JSON path, and whether the path ends in `[]`."""
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
                steps.append(_read_step(match))
            if len(steps) >= self._limits.max_json_depth:
                raise too_large("max_json_depth", self._limits.max_json_depth)
        return steps, ends_list


def _read_step(match: re.Match[str]) -> str | int:
    if match[2]:
        return int(match[2])
    if match[1]:
        return clean(match[1])
    return clean(_ESCAPED.sub(r"\1", match[3] or match[4] or ""))


def _has_value(entry: dict[str, Any]) -> bool:
    return any(key in entry for key in _TYPES)


def _check_value(entry: dict[str, Any]) -> None:
    # The value is a `oneof` in Google's definition.
    values = [key for key in _TYPES if key in entry]
    if len(values) > 1:
        raise _malformed(f"{len(values)} values in one entry")
    # JSON's `true` is an `int` for Python, and a number that is not finite is read as None.
    if values and type(entry[values[0]]) not in _TYPES[values[0]]:
        raise _malformed(f"a {values[0]} of another type")


def _malformed(found: str) -> Fatal:
    return Fatal(StreamError("malformed", f"partial arguments with {found}"))


class OpenCall(Struct):
    """An open call whose arguments arrive in fragments.

    Attributes:
        index: Index of the block.
        id: Id of the call; "" if it is missing.
        name: Name of the tool.
        arguments: Arguments so far.
    """

    index: int
    id: str
    name: str
    arguments: PartialArguments

    def is_continued_by(self, part: CallPart) -> bool:
        """Return whether a part is a fragment of this call, not a new call.

        Vertex AI sends fragments without id and name; some servers repeat both.

        Raises:
            Fatal: The part names this call and contradicts it, or names no open call.
        """
        if not part.name and part.id in ("", self.id):
            is_same = True
        elif part.id:
            is_same = part.id == self.id
        else:  # a start without an id has no arguments yet
            is_same = part.name == self.name and (bool(self.id) or bool(part.entries))
        if is_same and part.name not in ("", self.name):
            raise contradiction("another name for the call of its id")
        if is_same and part.arguments is not None:
            if part.name and not part.id:
                return False
            raise contradiction("whole arguments for a call that came in fragments")
        if not is_same and not part.name:
            raise contradiction("the id of another call than the open one")
        return is_same


class CandidateCalls:
    """The tool calls of one candidate, and which calls have a result."""

    def __init__(self) -> None:
        # Name and hash of the content, by kind of part and id.
        self._by_id: dict[tuple[str, str], tuple[str, int]] = {}
        self._cut: dict[str, None] = {}  # names of calls whose arguments never ended
        self._unfinished = 0
        self._unanswered: dict[str, str] = {}  # names of client tool calls by id
        self._running: list[str] = []  # ids of server tool calls without a result

    @property
    def awaits_client(self) -> bool:
        """Whether a client tool call lacks a result."""
        return bool(self._unanswered)

    @property
    def unfinished(self) -> int:
        """Number of client tool calls whose arguments are not complete JSON."""
        return self._unfinished

    def repeats(self, kind: str, id: str, name: str, content: str) -> bool:
        """Return whether a call or result arrived before; store a new call or result.

        Raises:
            Fatal: The id was sent before with another name or content.
        """
        if not id:
            return False
        found, known = (name, hash(content)), self._by_id.get((kind, id))
        # Results name their call by this id.
        if known is not None and known != found:
            raise contradiction(f"the id of another {kind}")
        self._by_id[kind, id] = found
        return known is not None

    def check_start(self, part: CallPart) -> None:
        """Check that the first part of a call is no fragment of a call that was cut off.

        Raises:
            Fatal: The part has fragments, no id, and the name of a cut call.
        """
        if part.entries and not part.id and part.name in self._cut:
            raise contradiction("arguments for a call that was cut")

    def start(self, id: str, name: str) -> None:
        """Store a client tool call."""
        self._unanswered[id] = name

    def start_server_call(self, id: str) -> None:
        """Store a server tool call."""
        self._running.append(id)

    def complete(self, arguments: str) -> None:
        """Count a call as unfinished if its complete arguments are not valid JSON."""
        self._unfinished += bool(arguments) and not is_json(arguments)

    def cut(self, name: str) -> None:
        """Record that a call's arguments never ended."""
        self._unfinished += 1
        self._cut[name] = None

    def answer(self, id: str, name: str) -> str:
        """Mark the client tool call of a result as answered; return its id.

        With `mcpServers` the provider runs client tools itself and sends their results.
        """
        if not id:
            # Google matches results by name where ids are missing.
            id = next((known for known, tool in self._unanswered.items() if tool == name), "")
        self._unanswered.pop(id, None)
        return id

    def answer_server_call(self, id: str) -> str:
        """Mark the server tool call of a result as answered; return its id.

        Raises:
            Fatal: The result has no id, and several calls have no result.
        """
        if not id and len(self._running) > 1:
            raise contradiction(f"a result without an id after {len(self._running)} calls")
        id = id or next(iter(self._running), "")
        if id in self._running:
            self._running.remove(id)
        return id
