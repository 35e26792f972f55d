"""Tool calls and the results of server tools, in both directions.

The client executes a `toolUse`, unless its type is `server_tool_use`: such a call and its
`toolResult` stand in one message.
"""

from __future__ import annotations

import re
from typing import Any

from streamnorm._core.blocks import ServerToolCall, ServerToolResult, ToolCall
from streamnorm._core.failures import malformed
from streamnorm._core.json import clean, string_of
from streamnorm._core.text import escape_id, mint_id, unescape_id
from streamnorm.dialects.bedrock_converse.wire import unknown_fields

TOOL_USE = "toolUse"
TOOL_RESULT = "toolResult"
SERVER_TOOL_USE = "server_tool_use"

# The pattern of `toolUseId`, which may also have the letters that escape those of other ids.
_SAFE = re.compile(r"(?!snid_)[A-Za-z0-9_.:-]+")

_MAX_CHARS = 64


def id_to_wire(id: str) -> str:
    """Return the id of a call in the letters that Converse allows, at most 64.

    An escaped id comes back as its provider wrote it.  The hash of a longer one does not: call and
    result have it alike, which is all that a provider demands.
    """
    if len(id) <= _MAX_CHARS and _SAFE.fullmatch(id):
        return id
    escaped = escape_id(id)
    return escaped if len(escaped) <= _MAX_CHARS else mint_id(id)


def call_from_wire(tool_use: dict[str, Any]) -> ToolCall | ServerToolCall:
    """Return the call of a `toolUse`, without its input.

    Raises:
        Fatal: It has no name.
    """
    id, name = string_of(tool_use, "toolUseId"), clean(string_of(tool_use, "name"))
    if not name:
        raise malformed("toolUse without a name, expected one")
    # pydantic-ai's recording of a client tool says `tool_use`, which the model's enum lacks.
    if tool_use.get("type") == SERVER_TOOL_USE:
        return ServerToolCall(id, name, kind=TOOL_USE)
    return ToolCall(unescape_id(id), name)


def call_to_wire(call: ToolCall | ServerToolCall) -> dict[str, Any]:
    """Return the `toolUse` of a call; its input follows in deltas."""
    fields = {"name": call.name, "toolUseId": id_to_wire(call.id)}
    return fields if isinstance(call, ToolCall) else {**fields, "type": SERVER_TOOL_USE}


def call_extra(tool_use: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a `toolUse` that are not mapped to the call."""
    extra = unknown_fields(tool_use, "toolUseId", "name", "input")
    if extra.get("type") == SERVER_TOOL_USE:
        del extra["type"]
    return extra


def result_from_wire(tool_result: dict[str, Any], content: list[Any]) -> ServerToolResult:
    """Return the result of a server tool; its type and status are unmapped fields."""
    return ServerToolResult(string_of(tool_result, "toolUseId"), TOOL_RESULT, content)


def result_to_wire(result: ServerToolResult) -> dict[str, Any]:
    """Return the `toolResult` of a start; its content follows in a delta."""
    return {"toolUseId": id_to_wire(result.tool_call_id)}
