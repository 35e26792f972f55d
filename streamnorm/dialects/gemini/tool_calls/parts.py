"""Parts with tool calls, those of clients and of the provider itself, both directions.

https://cloud.google.com/vertex-ai/generative-ai/docs/multimodal/function-calling (read
2026-11-22).
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from streamnorm._core.blocks import ServerToolCall, ToolCall
from streamnorm._core.events import StreamError
from streamnorm._core.failures import Fatal
from streamnorm._core.json import clean, compact, objects_of, string_of
from streamnorm.dialects.gemini.wire import RawCall, RawPart, raw_json

__all__ = [
    "CallPart",
    "call_part",
    "contradiction",
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
    """Return a `functionCall` with the JSON text of its arguments.

    Raises:
        Fatal: It has both whole arguments and fragments.
    """
    entries = objects_of(call.get("partialArgs"))
    goes_on = _goes_on(call) or any(map(_goes_on, entries))
    arguments = _arguments(call.get("args"), raw)
    if arguments is not None and (entries or goes_on):
        if call["args"]:
            raise contradiction("whole arguments beside fragments")
        arguments = None
    rest = {key: item for key, item in call.items() if key not in _MAPPED}
    id, name = string_of(call, "id"), string_of(call, "name")
    return CallPart(id, name, arguments, entries, goes_on, rest)


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


def contradiction(found: str) -> Fatal:
    """Return the error of a call that contradicts what came before it."""
    return Fatal(StreamError("malformed", f"function call with {found}"))
