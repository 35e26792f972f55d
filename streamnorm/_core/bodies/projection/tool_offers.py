"""The tools that a request offers, and which of them the model may call."""

from __future__ import annotations

from typing import Any, TypeVar

from msgspec import structs

from streamnorm._core.bodies.capabilities import BodyCapabilities
from streamnorm._core.bodies.projection.extras import project_extra
from streamnorm._core.bodies.projection.reasoning_options import reasons
from streamnorm._core.bodies.projection.tool_names import ToolNames
from streamnorm._core.bodies.request import Request, is_own, same_parts
from streamnorm._core.errors import EncodeError
from streamnorm._core.json import is_object
from streamnorm._core.losses import Losses
from streamnorm._core.schemas import is_ambiguous, simplify_schema
from streamnorm._core.tools import (
    AnyTool,
    CustomTool,
    MCPServer,
    ServerTool,
    Tool,
    ToolChoice,
)

__all__ = ["project_choice", "project_tools"]

T = TypeVar("T", Tool, CustomTool)

_WRAPPED_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"input": {"type": "string"}},
    "required": ["input"],
    "additionalProperties": False,
}
# Names of fields that the structs of server tools have under names of their own.
_MAPPED = frozenset(
    {"type", "name", "filters", "server_label", "excludeDomains", *ServerTool.__struct_fields__}
)


def project_tools(
    tools: tuple[AnyTool, ...], can: BodyCapabilities, names: ToolNames, losses: Losses
) -> tuple[AnyTool, ...]:
    """Return the tools as the target has them.

    Raises:
        EncodeError: There are more than the target allows.
    """
    projected: list[AnyTool] = []
    searches = any(
        isinstance(tool, ServerTool)
        and tool.kind == "tool_search"
        and (tool.dialect == can.dialect or tool.kind in can.server_tools)
        for tool in tools
    )
    for number, tool in enumerate(tools):
        match tool:
            case Tool():
                path = f"tools[{number}].input_schema"
                function = _loaded(tool, can, losses, searches=searches)
                changed: AnyTool | None = _function(function, can, names, losses, path)
            case CustomTool():
                custom = _loaded(tool, can, losses, searches=searches)
                changed = _custom(custom, can, names, losses)
            case ServerTool():
                changed = _server_tool(tool, can, losses)
            case _:
                changed = _mcp_server(tool, can, losses)
        if changed is not None:
            projected.append(project_extra(changed, can.dialect, losses, "tools"))
    if not can.mixed_tools and any(isinstance(tool, Tool | CustomTool) for tool in projected):
        for tool in projected:
            if not isinstance(tool, Tool | CustomTool):
                losses.add("server_tool_dropped", "tools", "not beside functions")
        projected = [tool for tool in projected if isinstance(tool, Tool | CustomTool)]
    if can.max_tools is not None and len(projected) > can.max_tools:
        raise EncodeError(f"{len(projected)} tools, expected at most {can.max_tools}", path="tools")
    return same_parts(tools, tuple(projected))


def _loaded(tool: T, can: BodyCapabilities, losses: Losses, *, searches: bool) -> T:
    """Return a tool that the model sees from the start, if nothing in the target finds it.

    Args:
        tool: The tool.
        can: Capabilities of the target.
        losses: Counts a tool that is changed.
        searches: Whether the provider searches for tools.  A client that does it itself loads
            them by messages which only its own dialect has.
    """
    finds = can.deferred_tools and (searches or tool.source is None or is_own(tool, can.dialect))
    if finds or not tool.deferred:
        return tool
    losses.add("deferred_tool_loaded", "tools", "offered from the start")
    return structs.replace(tool, deferred=False)


def _function(
    tool: Tool, can: BodyCapabilities, names: ToolNames, losses: Losses, path: str
) -> Tool:
    changes = _common(tool, can, names)
    if tool.vendor_type is not None and not is_own(tool, can.dialect):
        changes["vendor_type"] = None
    schema = tool.input_schema
    if schema is not None and can.schema == "simple":
        if not can.only_refusals or is_ambiguous(schema):
            schema = simplify_schema(schema, losses, path=path)
        if schema is not tool.input_schema:
            changes["input_schema"] = schema
    if tool.strict is not None and not can.strict_tools:
        changes["strict"] = None
        if tool.strict:
            losses.add("strict", "tools", "dropped")
    return structs.replace(tool, **changes) if changes else tool


def _custom(
    tool: CustomTool, can: BodyCapabilities, names: ToolNames, losses: Losses
) -> Tool | CustomTool:
    changes = _common(tool, can, names)
    if can.custom_tools:
        return structs.replace(tool, **changes) if changes else tool
    losses.add("custom_tool_wrapped", "tools", "written as a function with one string `input`")
    changed = structs.replace(tool, **changes)
    description = changed.description
    if tool.grammar is not None:
        text = (
            f"The value of `input` must match this {tool.grammar.syntax} grammar:\n"
            f"{tool.grammar.definition}"
        )
        description = f"{description}\n\n{text}" if description else text
    return Tool(
        changed.name,
        description,
        _WRAPPED_SCHEMA,
        deferred=changed.deferred,
        namespace=changed.namespace,
        cache=changed.cache,
        extra=changed.extra,
    )


def _common(tool: Tool | CustomTool, can: BodyCapabilities, names: ToolNames) -> dict[str, Any]:
    """Return the changes that functions and custom tools share."""
    changes: dict[str, Any] = {}
    namespace = None if tool.namespace is None else tool.namespace.name
    name = names.of(tool.name, namespace)
    if name != tool.name:
        changes["name"] = name
    if namespace is not None and not can.namespaces:
        changes["namespace"] = None
    return changes


def _server_tool(tool: ServerTool, can: BodyCapabilities, losses: Losses) -> ServerTool | None:
    if tool.dialect == can.dialect:
        return tool
    fields = can.server_tools.get(tool.kind)
    if fields is None:
        losses.add("server_tool_dropped", "tools", "dropped")
        return None
    changes: dict[str, Any] = {}
    for name in ("allowed_domains", "blocked_domains", "max_uses"):
        if getattr(tool, name) is not None and name not in fields:
            losses.add(name, "tools", "dropped")
            changes[name] = None
    for name, value in _fields_of(tool.data).items():
        if value is not None and name not in _MAPPED:
            losses.add(name, "tools", "dropped")
    return structs.replace(tool, **changes, data={})


def _fields_of(data: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a server tool; some vendors have them in an object within."""
    inner = next(iter(data.values())) if len(data) == 1 else None
    return inner if is_object(inner) else data


def _mcp_server(tool: MCPServer, can: BodyCapabilities, losses: Losses) -> MCPServer | None:
    if can.mcp_servers is None:
        losses.add("mcp_server_dropped", "tools", "dropped")
        return None
    changes: dict[str, Any] = {}
    for name in ("authorization", "headers", "allowed_tools", "require_approval"):
        if getattr(tool, name) and name not in can.mcp_servers:
            losses.add(name, "tools", "dropped")
            changes[name] = {} if name == "headers" else None
    return structs.replace(tool, **changes) if changes else tool


def project_choice(
    request: Request,
    tools: tuple[AnyTool, ...],
    can: BodyCapabilities,
    names: ToolNames,
    losses: Losses,
) -> tuple[ToolChoice | None, tuple[AnyTool, ...]]:
    """Return the choice as the target has it, and the tools that it leaves."""
    choice = request.tool_choice
    if choice is None:
        return None, tools
    if not tools:
        if choice.mode != "none" and request.tools:
            losses.add("tool_choice", "request", "dropped with all tools")
            return None, tools
        if not can.only_refusals:
            return choice, tools
    namespaces = {
        tool.name: tool.namespace.name
        for tool in reversed(request.tools)
        if isinstance(tool, Tool | CustomTool) and tool.namespace is not None
    }
    named = tuple(names.of(name, namespaces.get(name)) for name in choice.names)
    kind = choice.kind
    if kind == "custom" and not can.custom_tools:
        kind = "function"
    if (named, kind) != (choice.names, choice.kind):
        choice = ToolChoice(choice.mode, named, kind)
    if named and choice.mode in ("auto", "required") and not can.restricted_choice:
        losses.add("allowed_tools_filtered", "request", "other tools are not offered")
        tools = _of_names(tools, named)
        choice = ToolChoice(choice.mode)
    if not is_own(request, can.dialect) and _names_no_tool(choice, tools):
        losses.add("tool_choice_weakened", "request", "the tool is not offered")
        choice = ToolChoice("auto")
    modes = can.choices_of_tool
    if can.reasoning_choices is not None and reasons(request, can):
        modes = can.reasoning_choices
    if choice.mode not in modes:
        weak = can.weak_choice if can.weak_choice in modes else "auto"
        losses.add("tool_choice_weakened", "request", f"written as {weak}")
        if choice.mode == "named" and weak == "required":
            tools = _of_names(tools, choice.names)
        choice = ToolChoice(weak)
    return choice, tools


def _names_no_tool(choice: ToolChoice, tools: tuple[AnyTool, ...]) -> bool:
    """Return whether a choice names a server tool that the target does not have."""
    if choice.mode != "named" or choice.kind in ("function", "custom"):
        return False
    if choice.kind == "mcp":
        return not any(isinstance(t, MCPServer) and t.name in choice.names for t in tools)
    return not any(isinstance(t, ServerTool) and t.kind == choice.kind for t in tools)


def _of_names(tools: tuple[AnyTool, ...], names: tuple[str, ...]) -> tuple[AnyTool, ...]:
    wanted = frozenset(names)
    return tuple(tool for tool in tools if getattr(tool, "name", None) in wanted)
