"""The result of a tool call, made of what its executor returned or raised."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeGuard

import msgspec
from msgspec import structs

from streamnorm._core.blocks import (
    Audio,
    Document,
    Image,
    OpaqueBlock,
    ResultBlock,
    Text,
    ToolCall,
    ToolResult,
    Video,
)
from streamnorm._core.json import clean, compact, is_object, too_deep
from streamnorm._core.limits import Limits

__all__ = ["error_result", "exception_result", "result_of"]

_MAX_ERROR_CHARS = 2_000
_BLOCKS = (Text, Image, Document, Audio, Video, OpaqueBlock)
_ATTRIBUTES = (("content", "is_error"), ("content", "isError"))


def result_of(call: ToolCall, value: object) -> ToolResult:
    """Return what an executor returned as the result of its call.

    Raises:
        DecodeError: It is a result of MCP that is none.
        Exception: It has no JSON form.
    """
    if isinstance(value, ToolResult):
        return structs.replace(value, tool_call_id=call.id)
    if value is None:
        return ToolResult(call.id)
    if isinstance(value, str):
        return ToolResult(call.id, (Text(clean(value)),))
    if isinstance(value, _BLOCKS):
        return ToolResult(call.id, (value,))
    if _is_content(value):
        content = [Text(clean(item)) if isinstance(item, str) else item for item in value]
        return ToolResult(call.id, tuple(content))
    if any(all(hasattr(value, name) for name in names) for names in _ATTRIBUTES):
        return ToolResult.from_mcp(value, call.id)
    return _json_result(call, value)


def _is_content(value: object) -> TypeGuard[Sequence[ResultBlock | str]]:
    """Return whether a value is content of a result: blocks, with texts between them."""
    if not _is_sequence(value) or not any(isinstance(item, _BLOCKS) for item in value):
        return False
    return all(isinstance(item, (str, *_BLOCKS)) for item in value)


def _is_sequence(value: object) -> TypeGuard[Sequence[object]]:
    return isinstance(value, (list, tuple))


def _json_result(call: ToolCall, value: object) -> ToolResult:
    dump = getattr(value, "model_dump", None)  # of pydantic
    plain: Any = dump(mode="json", by_alias=True) if callable(dump) else value
    plain = msgspec.to_builtins(plain, str_keys=True)
    text = compact(plain)
    # An object that nests too deep for a body is text alone.
    is_value = is_object(plain) and not too_deep(plain, Limits().max_json_depth)
    return ToolResult(call.id, (Text(text),), value=text if is_value else None)


def exception_result(call: ToolCall, exc: BaseException) -> ToolResult:
    """Return an exception as a result that is an error.

    The model reads the type and the text of the exception, and nothing else of it: no
    traceback, no cause, no notes.
    """
    try:
        words = str(exc)
    except Exception:  # noqa: BLE001 - it is the executor's, and the call needs a result
        words = ""
    name = type(exc).__name__
    return error_result(call, f"{name}: {words}" if words else name)


def error_result(call: ToolCall, text: str) -> ToolResult:
    """Return a result that is an error, its text bounded."""
    if len(text) > _MAX_ERROR_CHARS:
        text = f"{text[:_MAX_ERROR_CHARS]} … ({len(text)} characters)"
    return ToolResult(call.id, (Text(clean(text)),), is_error=True)
