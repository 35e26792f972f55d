"""Tool calls and results of server tools, in both directions.

The client executes `tool_use`.  The provider executes `server_tool_use` and `mcp_tool_use`, and
sends their results in the same message.
"""

from __future__ import annotations

from typing import Any

import msgspec

from streamnorm._core.blocks import ServerToolCall, ServerToolResult, ToolCall
from streamnorm._core.json import FAST_ERRORS, InvalidJSON, clean, compact, decode_any, string_of
from streamnorm._core.limits import Limits
from streamnorm._core.text import escape_id, unescape_id
from streamnorm.dialects.anthropic import wire

_dumps_sorted = msgspec.json.Encoder(order="deterministic").encode

CALL_TYPES = frozenset({"tool_use", "server_tool_use", "mcp_tool_use"})


def call_from_wire(kind: str, name: str, block: dict[str, Any]) -> ToolCall | ServerToolCall:
    """Return the call of a block's start, without its input."""
    id = string_of(block, "id")
    # Our encoder may have written the stream (streamnorm/escaped-ids-and-tagged-signatures).
    if kind == "tool_use":
        return ToolCall(unescape_id(id), clean(name))
    return ServerToolCall(id, clean(name), kind=kind)


def call_to_wire(call: ToolCall | ServerToolCall) -> dict[str, Any]:
    """Return the block for the start of a call; its input follows in deltas."""
    if isinstance(call, ToolCall):
        # The API accepts `[a-zA-Z0-9_-]` in ids; Kimi's are `functions.get_weather:0`.
        return {"type": "tool_use", "id": escape_id(call.id), "name": call.name, "input": {}}
    return {"type": call.kind, "id": call.id, "name": call.name, "input": {}}


def result_from_wire(kind: str, call_id: str, block: dict[str, Any]) -> ServerToolResult:
    """Return the result of a server tool; the start of its block holds all of it."""
    return ServerToolResult(clean(call_id), clean(kind), block.get("content"))


def result_to_wire(result: ServerToolResult) -> dict[str, Any]:
    """Return the block of a server tool's result."""
    return {"type": result.kind, "tool_use_id": result.tool_call_id, "content": result.content}


def input_from_wire(block: dict[str, Any], raw: str | None) -> str:
    """Return the JSON text of the input in a block's start; "" if there is none.

    Args:
        block: The content block.
        raw: Input as spelt on the wire; None if it could not be extracted.
    """
    value = block.get("input")
    # Compatible servers write "" before the deltas.
    if isinstance(value, str):
        return clean(value)
    return (raw or compact(value)) if value else ""


def same_input(one: str, other: str) -> bool:
    """Return whether two inputs are the same JSON value; "" equals `{}`."""
    # Servers that write the start and the deltas by different encoders differ in white space.
    return one == other or _sorted_json(one) == _sorted_json(other) is not None


def _sorted_json(text: str) -> bytes | None:
    """Return a text as JSON with sorted keys; None if the text is no JSON."""
    try:
        return _dumps_sorted(decode_any(text or "{}", max_depth=Limits().max_json_depth))
    except (InvalidJSON, UnicodeEncodeError):
        return None


def raw_input(payload: str) -> str | None:
    """Return the input in a `content_block_start` as spelt on the wire."""
    try:
        return bytes(wire.decode_raw_start(payload).content_block.input).decode()
    except FAST_ERRORS:
        return None


def raw_inputs(payload: str) -> list[str]:
    """Return the inputs of the blocks in a `message_start` as spelt on the wire."""
    try:
        blocks = wire.decode_raw_message(payload).message.content
        return [bytes(block.input).decode() for block in blocks]
    except FAST_ERRORS:
        return []
