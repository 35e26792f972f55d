"""Results of tools that the client executed: `functionResponse`, both directions.

https://ai.google.dev/gemini-api/docs/function-calling (read 2026-11-23).  The response is an
object: by convention its `output` is the result, and its `error` what went wrong.
"""

from __future__ import annotations

from typing import Any

from streamnorm._core.blocks import OpaqueBlock, Text, ToolResult
from streamnorm._core.bodies.fields import array_in, object_at, object_of, text_in, unmapped, within
from streamnorm._core.codec import WriteContext
from streamnorm._core.errors import DecodeError
from streamnorm._core.json import compact, is_object, json_value
from streamnorm.dialects.gemini.body.fields import add_extra, camel, extra_of
from streamnorm.dialects.gemini.body.media import file_from_wire, file_to_wire
from streamnorm.dialects.gemini.wire import DIALECT

__all__ = ["result_from_wire", "result_to_wire"]

_MAPPED = frozenset({"id", "name", "response", "parts"})
_OUTPUT, _ERROR = "output", "error"
_FILES = ("inlineData", "fileData")


def result_from_wire(value: dict[str, Any], modifiers: dict[str, Any]) -> ToolResult:
    """Return a `functionResponse` as a result.

    Args:
        value: The `functionResponse`.
        modifiers: The other fields of its part, for the result to keep.

    Raises:
        DecodeError: A field has another type than the vendor's.
    """
    is_plain = len(value) == 3 and "id" in value and "name" in value and "response" in value
    wire = value if is_plain else camel(value)
    id, name = text_in(wire, "id") or "", text_in(wire, "name") or ""
    response = object_of(wire, "response")
    is_error, text, original = (False, "", None) if response is None else _response(response)
    content: tuple[Any, ...] = (Text(text),) if text else ()
    if is_plain:
        return ToolResult(id, content, is_error, name, original, extra=extra_of(modifiers))
    parts = array_in(wire, "parts") or ()
    content += tuple([_part(part, f"$.parts[{at}]") for at, part in enumerate(parts)])
    own = {f"functionResponse.{key}": item for key, item in unmapped(wire, _MAPPED).items()}
    extra = extra_of({**own, **modifiers})
    return ToolResult(id, content, is_error, name, original, extra=extra)


def _response(response: dict[str, Any]) -> tuple[bool, str, str | None]:
    """Return whether a response is an error, its text, and its JSON unless the text says all."""
    if len(response) != 1:
        text = compact(response)
        return False, text, text
    key, value = next(iter(response.items()))
    if key not in (_OUTPUT, _ERROR):
        text = compact(response)
        return False, text, text
    if isinstance(value, str):
        return key == _ERROR, value, None
    return key == _ERROR, compact(value), compact(response)


def _part(part: object, path: str) -> Any:
    """Return a file of a result; opaque if it is none."""
    try:
        wire = camel(object_at(part, "$"))
    except DecodeError as exc:
        raise within(exc, path) from None
    for field in _FILES:
        value = wire.get(field)
        if is_object(value):
            modifiers = {key: item for key, item in wire.items() if key != field}
            return file_from_wire(field, value, modifiers)
    kind = next(iter(wire), "")
    return OpaqueBlock(DIALECT, kind, compact(wire.get(kind)))


def result_to_wire(result: ToolResult, name: str, context: WriteContext) -> dict[str, Any]:
    """Return a result as a part.

    Args:
        result: The result.
        name: Name of the tool.
        context: Counts what the response cannot carry.

    Raises:
        EncodeError: Its value, or a file of it, is no JSON.
    """
    texts: list[str] = []
    files: list[dict[str, Any]] = []
    for block in result.content:
        match block:
            case Text(text):
                if files:
                    context.losses.add("order_lost", "messages", "text written before the files")
                texts.append(text)
            case OpaqueBlock(_, kind, data):
                files.append({kind: json_value(data, "data")})
            case file:
                files.append(file_to_wire(file, context))
    if len(texts) > 1:
        context.losses.add("boundaries", "messages", "texts of a result joined")
    wire: dict[str, Any] = {}
    if result.tool_call_id and context.capabilities.call_ids:
        wire["id"] = result.tool_call_id
    wire["name"] = name
    if result.value is not None:
        wire["response"] = json_value(result.value, "value")
    else:
        wire["response"] = {_ERROR if result.is_error else _OUTPUT: "".join(texts)}
    if files:
        wire["parts"] = files
    part = {"functionResponse": wire}
    return part if result.extra is None else add_extra(part, result.extra)
