"""Decoding of bodies within bounds, and the bounds of a decoded request."""

from __future__ import annotations

import json
import re
from typing import Any, TypeAlias

from streamnorm._core.blocks import ToolCall, ToolResult
from streamnorm._core.bodies.fields import prefix_path
from streamnorm._core.bodies.request import InputMessage, Request
from streamnorm._core.errors import DecodeError
from streamnorm._core.json import (
    FAST_ERRORS,
    InvalidJSON,
    clean_tree,
    decode_pieces,
    decode_refused,
    dumps,
    has_more_values,
    is_object,
    lone_surrogate_path,
    too_deep,
)
from streamnorm._core.limits import Limits
from streamnorm._core.tools import CustomTool, Tool

Body: TypeAlias = "dict[str, Any] | bytes | str"
"""A request or response: JSON text, or the decoded object."""

# The escape of half a surrogate pair.
_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")


def body_object(body: Body, limits: Limits) -> dict[str, Any]:
    """Return a body as a decoded object.

    Raises:
        DecodeError: The body is no JSON object, or exceeds a bound.
    """
    if isinstance(body, dict):
        value: object = body
    else:
        size = len(body)
        if size > limits.max_event_bytes:
            raise DecodeError(f"{size} bytes, expected at most {limits.max_event_bytes}")
        _check_count(body, limits.max_json_values)
        value = _decode(body, limits)
    if not is_object(value):
        raise DecodeError("no JSON object, expected one")
    if too_deep(value, limits.max_json_depth):
        raise DecodeError(f"nested deeper than {limits.max_json_depth}, expected at most that")
    return _check_encodable(value) if value is body else value


def _check_count(body: bytes | str, most: int) -> None:
    # `,{}` is the densest text: three bytes that count as four values.  Most bodies are too
    # small for the bound, and need not be searched.
    if 4 * len(body) <= 3 * most:
        return
    if has_more_values(body if isinstance(body, bytes) else body.encode("utf-8", "replace"), most):
        raise DecodeError(f"more than {most} JSON values, expected at most that (max_json_values)")


def _check_encodable(value: dict[str, Any]) -> dict[str, Any]:
    """Return a decoded object without lone surrogates; the same object if it has none."""
    try:
        dumps(value)
    except UnicodeEncodeError:  # Python's own JSON decoder lets lone surrogates pass
        cleaned: dict[str, Any] = clean_tree(value)
        return cleaned
    except (TypeError, ValueError) as exc:
        raise DecodeError("a value that JSON does not have, expected decoded JSON") from exc
    return value


def _decode(body: bytes | str, limits: Limits) -> object:
    try:
        return decode_pieces(body)
    except FAST_ERRORS:
        pass
    try:
        text = body.decode() if isinstance(body, bytes) else body
        return decode_refused(text, max_depth=limits.max_json_depth)
    except UnicodeDecodeError as exc:
        raise DecodeError(f"byte {exc.start} is not UTF-8, expected JSON") from exc
    except InvalidJSON as exc:
        raise DecodeError(f"{exc}, expected a JSON object") from exc


def lone_surrogate_in(body: Body) -> str | None:
    """Return the path of the first text with a lone surrogate; None if there is none.

    Args:
        body: A body that `body_object` accepts.
    """
    if isinstance(body, dict):
        try:
            dumps(body)
        except UnicodeEncodeError:
            return lone_surrogate_path(body)
        return None
    text = body.decode() if isinstance(body, bytes) else body
    if _ESCAPE.search(text) is None and lone_surrogate_path(text) is None:
        return None
    return lone_surrogate_path(json.loads(text))


def check_bounds(request: Request, limits: Limits) -> None:
    """Check the bounds on names, ids, blocks and tool calls of a request.

    Raises:
        DecodeError: A message has too many blocks or calls, or a name or an id is too long.
    """
    _check_name(request.model, "model", limits)
    _check_item_count(request.choices or 0, limits.max_choices, "choices", "choices")
    for number, tool in enumerate(request.tools):
        if isinstance(tool, Tool | CustomTool):
            _check_name(tool.name, f"tools[{number}].name", limits)
    for number, message in enumerate(request.messages):
        try:
            _check_message(message, limits)
        except DecodeError as exc:
            raise prefix_path(exc, f"$.messages[{number}]") from None


def _check_message(message: InputMessage, limits: Limits) -> None:
    calls, most_chars = 0, limits.max_id_chars
    if len(message.blocks) > limits.max_blocks:
        _check_item_count(len(message.blocks), limits.max_blocks, "blocks", "blocks")
    for block in message.blocks:
        if isinstance(block, ToolCall):
            calls += 1
            if len(block.id) > most_chars or len(block.name) > most_chars:
                _check_name(max(block.id, block.name, key=len), "blocks", limits)
        elif isinstance(block, ToolResult):
            if len(block.tool_call_id) > most_chars:
                _check_name(block.tool_call_id, "blocks", limits)
            if len(block.content) > limits.max_blocks:
                _check_item_count(
                    len(block.content), limits.max_blocks, "blocks of a result", "blocks"
                )
    if calls > limits.max_tool_calls:
        _check_item_count(calls, limits.max_tool_calls, "tool calls", "blocks")


def _check_name(name: str, path: str, limits: Limits) -> None:
    if len(name) > limits.max_id_chars:
        raise DecodeError(
            f"{len(name)} characters, expected at most {limits.max_id_chars}", path=f"$.{path}"
        )


def _check_item_count(count: int, most: int, what: str, path: str) -> None:
    if count > most:
        raise DecodeError(f"{count} {what}, expected at most {most}", path=f"$.{path}")
