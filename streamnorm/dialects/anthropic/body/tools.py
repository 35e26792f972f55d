"""Tools, and which of them the model may call, in both directions."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import structs

from streamnorm._core.bodies.fields import (
    array_in,
    boolean_in,
    object_at,
    object_of,
    required_text,
    text_in,
    within,
)
from streamnorm._core.bodies.request import Request, Source, is_own, unchanged_source
from streamnorm._core.codec import WriteContext
from streamnorm._core.errors import DecodeError, EncodeError
from streamnorm._core.json import is_object, string_of
from streamnorm._core.tools import AnyTool, MCPServer, ServerTool, Tool, ToolChoice
from streamnorm.dialects.anthropic.body.client_tools import client_tool_schema
from streamnorm.dialects.anthropic.body.extra import DIALECT, add_rest, mark_and_rest, own_fields
from streamnorm.dialects.anthropic.body.server_tools import (
    MCPParts,
    kind_of,
    mcp_server_to_wire,
    mcp_servers_from_wire,
    mcp_toolset_from_wire,
    server_tool_from_wire,
    server_tool_to_wire,
)

__all__ = ["add_tool_choice", "add_tools", "tool_choice_from_wire", "tools_from_wire"]

_TOOL = frozenset({"type", "name", "description", "input_schema", "strict", "defer_loading"})
_MODES: dict[str, Literal["auto", "required", "none", "named"]] = {
    "auto": "auto",
    "any": "required",
    "none": "none",
    "tool": "named",
}
_CHOICES = {mode: word for word, mode in _MODES.items()}


def tools_from_wire(body: dict[str, Any]) -> tuple[AnyTool, ...]:
    """Return the tools of a request, those of `mcp_servers` without a toolset last.

    Raises:
        DecodeError: One is no tool.
    """
    servers = mcp_servers_from_wire(body)
    values = array_in(body, "tools") or ()
    tools: list[AnyTool] = []
    try:
        for value in values:
            tool = object_at(value, "$")
            if tool.get("type") == "mcp_toolset":
                tools.append(mcp_toolset_from_wire(tool, servers))
            else:
                tools.append(_tool_from_wire(tool))
    except DecodeError as exc:
        raise within(exc, f"$.tools[{len(tools)}]") from None
    return (*tools, *servers.values())


def _tool_from_wire(value: dict[str, Any]) -> Tool | ServerTool:
    kind = text_in(value, "type")
    typed = None if kind is None else client_tool_schema(kind)
    tool: Tool | ServerTool
    if typed is not None:
        description, schema = typed
        tool = _function_from_wire(value, description, schema, kind)
    elif kind is None or kind == "custom" or is_object(value.get("input_schema")):
        schema = object_at(value.get("input_schema"), "$.input_schema")
        tool = _function_from_wire(value, text_in(value, "description"), schema, None)
    else:
        tool = server_tool_from_wire(kind, value)
    return structs.replace(tool, source=Source(DIALECT, value, tool))


def _function_from_wire(
    value: dict[str, Any],
    description: str | None,
    schema: dict[str, Any],
    vendor_type: str | None,
) -> Tool:
    is_mapped = vendor_type is not None or value.get("type") in (None, "custom")
    mark, extra = mark_and_rest(value, _TOOL if is_mapped else _TOOL - {"type"})
    return Tool(
        required_text(value, "name"),
        description,
        schema,
        boolean_in(value, "strict"),
        boolean_in(value, "defer_loading") is True,
        vendor_type=vendor_type,
        cache=mark,
        extra=extra,
    )


def add_tools(body: dict[str, Any], request: Request, context: WriteContext) -> None:
    """Add `tools` and `mcp_servers` to a body.

    Raises:
        EncodeError: Two tools have the same name, be one of them Anthropic's.
    """
    tools: list[dict[str, Any]] = []
    servers: list[dict[str, Any]] = []
    names: set[str] = set()
    for number, tool in enumerate(_with_one_loaded(request.tools, context)):
        value = unchanged_source(tool, DIALECT)
        if isinstance(tool, MCPServer):
            parts: MCPParts | None = value or mcp_server_to_wire(tool, context)
            value = None if parts is None else parts["toolset"]
            if parts is not None and parts["server"] is not None:
                servers.append(parts["server"])
        elif value is None:
            value = _tool_to_wire(tool, context)
        if value is None:
            continue
        name = string_of(value, "name")  # "" of a toolset
        if name in names and not is_own(tool, DIALECT):
            problem = "name of another tool, expected one of its own"
            raise EncodeError(problem, path=f"tools[{number}]")
        if name:
            names.add(name)
        tools.append(value)
    if tools:
        body["tools"] = tools
    if servers:
        body["mcp_servers"] = servers


def _with_one_loaded(tools: tuple[AnyTool, ...], context: WriteContext) -> tuple[AnyTool, ...]:
    """Return tools of which at least one is not deferred, as the API demands."""
    loaded: list[Tool] = []
    for tool in tools:
        if not isinstance(tool, Tool) or not tool.deferred or is_own(tool, DIALECT):
            return tools
        loaded.append(structs.replace(tool, deferred=False))
    for _ in loaded:
        context.losses.add("deferred_tool_loaded", "tools", "offered from the start")
    return tuple(loaded)


def _tool_to_wire(tool: AnyTool, context: WriteContext) -> dict[str, Any] | None:
    if isinstance(tool, ServerTool):
        return server_tool_to_wire(tool, context)
    if not isinstance(tool, Tool):
        raise AssertionError(f"{type(tool).__name__} passed the projection")
    value: dict[str, Any]
    if tool.vendor_type is not None and client_tool_schema(tool.vendor_type) is not None:
        value = {"type": tool.vendor_type, "name": tool.name}
    else:
        value = {"name": tool.name}
        if tool.description is not None:
            value["description"] = tool.description
        value["input_schema"] = {"type": "object", **(tool.input_schema or {})}
    if tool.strict:
        value["strict"] = True
    if tool.deferred:
        value["defer_loading"] = True
    add_rest(value, tool.cache, own_fields(tool.extra))
    return value


def tool_choice_from_wire(
    body: dict[str, Any], tools: tuple[AnyTool, ...]
) -> tuple[ToolChoice | None, bool | None]:
    """Return which tools may be called, and whether several at once; None = not said.

    Raises:
        DecodeError: It is no choice.
    """
    choice = object_of(body, "tool_choice")
    if choice is None:
        return None, None
    try:
        word = required_text(choice, "type")
        serial = boolean_in(choice, "disable_parallel_tool_use")
        if word not in _MODES:
            raise DecodeError("a choice of another type, expected auto, any, tool or none")
        name = required_text(choice, "name") if word == "tool" else None
    except DecodeError as exc:
        raise within(exc, "$.tool_choice") from None
    parallel = None if serial is None else not serial
    if name is None:
        return ToolChoice(_MODES[word]), parallel
    return ToolChoice("named", (name,), _kind_of(name, tools)), parallel


def _kind_of(name: str, tools: tuple[AnyTool, ...]) -> str:
    """Return the kind of the server tool of a name; `function` if there is none."""
    for tool in tools:
        if isinstance(tool, ServerTool) and tool.data.get("name") == name:
            return tool.kind
    return "function"


def add_tool_choice(body: dict[str, Any], request: Request, context: WriteContext) -> None:
    """Add `tool_choice` to a body that has its tools."""
    choice, parallel = request.tool_choice, request.parallel_tool_calls
    if choice is None and parallel is None:
        return
    if "tools" not in body:  # the API refuses a choice among none
        if choice is not None:
            context.losses.add("tool_choice", "request", "dropped without tools")
        if parallel is not None:
            context.losses.add("parallel_tool_calls", "request", "dropped without tools")
        return
    value: dict[str, Any] = {"type": "auto"}
    if choice is not None:
        value["type"] = _CHOICES[choice.mode]
        if choice.mode == "named" and (name := _named_tool(choice, body["tools"])) is not None:
            value["name"] = name
        elif choice.mode == "named":
            context.losses.add("tool_choice_weakened", "request", "the tool was not written")
            value["type"] = "auto"
    if parallel is not None and value["type"] == "none":
        context.losses.add("parallel_tool_calls", "request", "dropped where no tool is called")
    elif parallel is not None:
        value["disable_parallel_tool_use"] = not parallel
    body["tool_choice"] = value


def _named_tool(choice: ToolChoice, tools: list[dict[str, Any]]) -> str | None:
    """Return the name of the tool that is chosen, as written; None if it was not written."""
    if choice.kind in ("function", "custom"):
        return choice.names[0]
    for tool in tools:
        if kind_of(str(tool.get("type"))) == choice.kind:
            name: str | None = tool.get("name")
            return name
    return None
