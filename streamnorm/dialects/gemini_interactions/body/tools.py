"""Tools and tool choice of a request, in both directions.

google-genai 3.6.1, `_gaos/types/interactions/tool.py` (read 2026-11-27).  The choice stands in
`generation_config`: a word, or the names of the tools that are allowed and a word.
"""

from __future__ import annotations

from typing import Any

from msgspec import structs

from streamnorm._core.bodies.fields import (
    as_object,
    get_bool,
    get_object,
    get_str,
    get_strings,
    prefix_path,
    read_objects,
    require_str,
    unexpected,
    unknown_fields,
)
from streamnorm._core.bodies.request import Source, unchanged_source
from streamnorm._core.bodies.table import Reading, Writing
from streamnorm._core.errors import DecodeError, EncodeError
from streamnorm._core.json import is_object
from streamnorm._core.tools import AnyTool, MCPServer, ServerTool, Tool, ToolChoice
from streamnorm.dialects.gemini_interactions.body.content import add_extra, extra_of
from streamnorm.dialects.gemini_interactions.wire import DIALECT

CHOICE = "tool_choice"

_FUNCTION, _MCP = "function", "mcp_server"
_MAPPED = frozenset({"type", "name", "description", "parameters", "defer_loading"})
_MAPPED_OF_MCP = frozenset({"type", "name", "url", "headers"})
_KINDS = {
    "google_search": "web_search",
    "url_context": "web_fetch",
    "code_execution": "code_execution",
    "file_search": "file_search",
    "google_maps": "google_maps",
    "computer_use": "computer",
    "tool_search": "tool_search",
}
_TYPES = {kind: name for name, kind in _KINDS.items()}
_ALLOWED = "allowed_tools"


def tools_from_wire(body: dict[str, Any]) -> tuple[AnyTool, ...]:
    """Decode the tools of a request.

    Raises:
        DecodeError: An entry is no tool of the dialect.
    """
    return tuple(read_objects(body.get("tools"), _tool_from_wire, "$.tools"))


def _tool_from_wire(entry: dict[str, Any]) -> AnyTool:
    kind = require_str(entry, "type")
    tool: AnyTool
    if kind == _FUNCTION:
        tool = _function_from_wire(entry)
    elif kind == _MCP:
        tool = _mcp_server_from_wire(entry)
    else:
        tool = ServerTool(_KINDS.get(kind, kind), DIALECT, entry)
    return structs.replace(tool, source=Source(DIALECT, entry, tool))


def _function_from_wire(entry: dict[str, Any]) -> Tool:
    return Tool(
        require_str(entry, "name"),
        get_str(entry, "description"),
        get_object(entry, "parameters"),
        deferred=get_bool(entry, "defer_loading") or False,
        extra=extra_of(unknown_fields(entry, _MAPPED)),
    )


def _mcp_server_from_wire(entry: dict[str, Any]) -> MCPServer:
    token: str | None = None
    others: dict[str, str] = {}
    for name, value in (get_object(entry, "headers") or {}).items():
        if not isinstance(value, str):
            raise unexpected(value, "a string", "$.headers")
        if name.lower() == "authorization" and value.startswith("Bearer ") and token is None:
            token = value.removeprefix("Bearer ")
        else:
            others[name] = value
    extra = extra_of(unknown_fields(entry, _MAPPED_OF_MCP))
    name, url = get_str(entry, "name") or "", get_str(entry, "url")
    return MCPServer(name, url, token, others, require_approval="never", extra=extra)


def tools_to_wire(writing: Writing) -> dict[str, Any]:
    """Return tools as entries of `tools`.

    Raises:
        EncodeError: A tool has no form in the dialect.
    """
    tools: tuple[AnyTool, ...] = writing.part.tools
    written = [_tool_to_wire(tool, number, writing) for number, tool in enumerate(tools)]
    return {"tools": written} if written else {}


def _tool_to_wire(tool: AnyTool, number: int, writing: Writing) -> dict[str, Any]:
    source: dict[str, Any] | None = unchanged_source(tool, DIALECT)
    if source is not None:
        return source
    match tool:
        case Tool():
            return _function_to_wire(tool, writing)
        case MCPServer():
            return _mcp_server_to_wire(tool, writing)
        case ServerTool(_, dialect, data) if data and dialect == DIALECT:
            return dict(data)
        case ServerTool(kind) if kind in _TYPES:
            return {"type": _TYPES[kind]}
        case _:
            found = f"{type(tool).__name__} without an equivalent, expected a function"
            raise EncodeError(found, path=f"tools[{number}]")


def _function_to_wire(tool: Tool, writing: Writing) -> dict[str, Any]:
    wire: dict[str, Any] = {"type": _FUNCTION, "name": tool.name}
    if tool.description is not None:
        wire["description"] = tool.description
    if tool.input_schema is not None:
        wire["parameters"] = tool.input_schema
    if tool.deferred:
        wire["defer_loading"] = True
    if tool.strict:
        writing.context.losses.add("strict", "tools", "dropped")
    return add_extra(wire, tool.extra)


def _mcp_server_to_wire(server: MCPServer, writing: Writing) -> dict[str, Any]:
    if server.require_approval == "always":
        writing.context.losses.add("require_approval", "tools", "calls are made without approval")
    headers = dict(server.headers)
    if server.authorization is not None:
        headers["Authorization"] = f"Bearer {server.authorization}"
    wire: dict[str, Any] = {"type": _MCP, "name": server.name}
    if server.url is not None:
        wire["url"] = server.url
    if headers:
        wire["headers"] = headers
    return add_extra(wire, server.extra)


def choice_from_wire(reading: Reading) -> dict[str, Any]:
    """Return the tool choice; store a choice that `ToolChoice` cannot express as an unknown field.

    Raises:
        DecodeError: A field has another type than the vendor's.
    """
    value = reading.body[CHOICE]
    word, names = value, tuple[str, ...]()
    if is_object(value):
        try:
            allowed = as_object(value.get(_ALLOWED), f"$.{_ALLOWED}")
            word, names = allowed.get("mode"), get_strings(allowed, "tools") or ()
        except DecodeError as exc:
            raise prefix_path(exc, f"$.{CHOICE}") from None
    match word:
        case "any":
            return {CHOICE: ToolChoice("named" if len(names) == 1 else "required", names)}
        case "auto":
            return {CHOICE: ToolChoice("auto", names)}
        case "none" if not names:
            return {CHOICE: ToolChoice("none")}
        case _:
            reading.unknown[CHOICE] = value
            return {}


def choice_to_wire(writing: Writing) -> dict[str, Any]:
    """Return the tool choice; a forced tool becomes the only entry of `allowed_tools`."""
    choice: ToolChoice = writing.part.tool_choice
    if choice.mode == "named" and choice.kind != "function":
        # `any` demands a call of a function, and `allowed_tools` has names of functions alone.
        writing.context.losses.add(
            "tool_choice_weakened", "request", "server tools cannot be named"
        )
        choice = ToolChoice("auto")
    word = "any" if choice.mode in ("required", "named") else choice.mode
    if not choice.names:
        return {CHOICE: word}
    return {CHOICE: {_ALLOWED: {"mode": word, "tools": list(choice.names)}}}
