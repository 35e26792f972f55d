"""The tools of a request and `tool_choice`, in both directions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, TypeAlias

from msgspec import structs

from streamnorm._core.bodies.fields import (
    as_object,
    get_bool,
    get_object,
    get_objects,
    get_str,
    get_strings,
    prefix_path,
    require_str,
    unexpected,
)
from streamnorm._core.bodies.request import Source, unchanged_source
from streamnorm._core.errors import DecodeError
from streamnorm._core.json import is_object, objects_of, string_of
from streamnorm._core.tools import (
    AnyTool,
    CustomTool,
    Grammar,
    MCPServer,
    Namespace,
    ServerTool,
    Tool,
    ToolChoice,
    location_of,
)
from streamnorm.dialects.openai_responses.body.content import unknown_extra, unknown_fields_of
from streamnorm.dialects.openai_responses.wire import DIALECT

_Value: TypeAlias = dict[str, Any]

_FUNCTION = frozenset(
    {"type", "name", "description", "parameters", "strict", "defer_loading", "function"}
)
_CUSTOM = frozenset({"type", "name", "description", "format", "defer_loading"})
_GRAMMAR = frozenset({"type", "syntax", "definition"})
_MCP = frozenset(
    {"type", "server_label", "server_url", "authorization", "headers", "allowed_tools"}
)
_KINDS = {
    "web_search": "web_search",
    "web_search_2025_08_26": "web_search",
    "web_search_preview": "web_search",
    "web_search_preview_2025_03_11": "web_search",
    "code_interpreter": "code_execution",
    "computer": "computer",
    "computer_use": "computer",
    "computer_use_preview": "computer",
}
"""Unified kinds of server tools, by types that differ from them."""
CLIENT_SEARCH = "client_tool_search"
"""Kind of a tool search executed by the client, which only this vendor has."""
_HOSTED: dict[str, _Value] = {
    "web_search": {"type": "web_search"},
    "code_execution": {"type": "code_interpreter", "container": {"type": "auto"}},
    "image_generation": {"type": "image_generation"},
    "tool_search": {"type": "tool_search"},
}
"""Tools written for server tools of other dialects, by unified kind."""
_NO_PARAMETERS: _Value = {"type": "object", "properties": {}}


def tools_from_wire(body: _Value) -> list[AnyTool]:
    """Return the `tools` of a request or of an item that adds tools.

    Raises:
        DecodeError: A tool is not a Responses tool.
    """
    tools: list[AnyTool] = []
    for path, value in get_objects(body, "tools"):
        try:
            if value.get("type") == "namespace":
                tools += _namespace_from_wire(value)
            else:
                tools.append(_tool_from_wire(value, None))
        except DecodeError as exc:
            raise prefix_path(exc, path) from None
    return tools


def _namespace_from_wire(value: _Value) -> list[AnyTool]:
    namespace = Namespace(require_str(value, "name"), get_str(value, "description") or "")
    tools: list[AnyTool] = []
    for path, tool in get_objects(value, "tools"):
        try:
            tools.append(_tool_from_wire(tool, namespace))
        except DecodeError as exc:
            raise prefix_path(exc, path) from None
    return tools


def _tool_from_wire(value: _Value, namespace: Namespace | None) -> AnyTool:
    kind = require_str(value, "type")
    part: AnyTool
    if kind == "function":
        part = _function_from_wire(value, namespace)
    elif kind == "custom":
        part = _custom_from_wire(value, namespace)
    elif kind == "mcp":
        part = _mcp_from_wire(value)
    else:
        part = _hosted_from_wire(value, kind)
    return structs.replace(part, source=Source(DIALECT, value, part))


def _function_from_wire(value: _Value, namespace: Namespace | None) -> Tool:
    """Return a function; some clients nest its fields as in Chat Completions."""
    fields = {**(get_object(value, "function") or {}), **value}
    mapped = _FUNCTION - {name for name in ("strict", "parameters") if value.get(name, ...) is None}
    return Tool(
        require_str(fields, "name"),
        get_str(fields, "description"),
        get_object(fields, "parameters"),
        get_bool(fields, "strict"),
        bool(get_bool(fields, "defer_loading")),
        namespace,
        extra=unknown_extra(value, mapped),
    )


def _custom_from_wire(value: _Value, namespace: Namespace | None) -> CustomTool:
    form, grammar = get_object(value, "format"), None
    mapped = _CUSTOM
    if form is not None and form.get("type") == "grammar" and form.keys() <= _GRAMMAR:
        try:
            grammar = Grammar(require_str(form, "syntax"), require_str(form, "definition"))
        except DecodeError as exc:
            raise prefix_path(exc, "$.format") from None
    elif form is not None and form != {"type": "text"}:
        mapped -= {"format"}
    return CustomTool(
        require_str(value, "name"),
        get_str(value, "description"),
        grammar,
        bool(get_bool(value, "defer_loading")),
        namespace,
        extra=unknown_extra(value, mapped),
    )


def _mcp_from_wire(value: _Value) -> MCPServer:
    mapped, allowed = _MCP, value.get("allowed_tools")
    names: tuple[str, ...] | None = None
    if is_object(allowed) and allowed.keys() == {"tool_names"}:
        names = get_strings(allowed, "tool_names")
    elif is_object(allowed):
        mapped -= {"allowed_tools"}
    else:
        names = get_strings(value, "allowed_tools")
    approval = value.get("require_approval")
    if isinstance(approval, str):
        mapped |= {"require_approval"}
    headers = get_object(value, "headers") or {}
    for text in headers.values():
        if not isinstance(text, str):
            raise unexpected(text, "a string", "$.headers")
    return MCPServer(
        require_str(value, "server_label"),
        get_str(value, "server_url"),
        get_str(value, "authorization"),
        headers,
        names,
        approval if isinstance(approval, str) else None,
        extra=unknown_extra(value, mapped),
    )


def _hosted_from_wire(value: _Value, kind: str) -> ServerTool:
    filters = value.get("filters")
    domains: tuple[str, ...] | None = None
    unified = _KINDS.get(kind, kind)
    if kind == "tool_search" and value.get("execution") == "client":
        unified = CLIENT_SEARCH
    if unified == "web_search" and is_object(filters):
        domains = get_strings(filters, "allowed_domains")
    tool = ServerTool(unified, DIALECT, value, domains)
    if unified != "web_search":
        return tool
    size = value.get("search_context_size")
    return structs.replace(
        tool,
        user_location=location_of(value.get("user_location")),
        search_context_size=size if isinstance(size, str) else None,
    )


# To the wire


def tools_to_wire(tools: Iterable[AnyTool]) -> list[_Value]:
    """Return the `tools` of a request; consecutive tools of a namespace are one entry."""
    values: list[_Value] = []
    last: Namespace | None = None
    for tool in tools:
        namespace = tool.namespace if isinstance(tool, (Tool, CustomTool)) else None
        value = unchanged_source(tool, DIALECT)
        if value is None:
            value = _tool_to_wire(tool)
        if namespace is None:
            values.append(value)
        elif namespace == last:
            values[-1]["tools"].append(value)
        else:
            group = {"type": "namespace", "name": namespace.name}
            values.append({**group, "description": namespace.description, "tools": [value]})
        last = namespace
    return values


def _tool_to_wire(tool: AnyTool) -> _Value:
    if isinstance(tool, Tool):
        value = _function_to_wire(tool)
    elif isinstance(tool, CustomTool):
        value = _custom_to_wire(tool)
    elif isinstance(tool, MCPServer):
        value = _mcp_to_wire(tool)
    else:
        value = _hosted_to_wire(tool)
    return {**value, **unknown_fields_of(tool.extra)}


def _function_to_wire(tool: Tool) -> _Value:
    value: _Value = {"type": "function", "name": tool.name}
    if tool.description is not None:
        value["description"] = tool.description
    schema = tool.input_schema
    # `parameters` is required; other dialects have functions without.
    value["parameters"] = _NO_PARAMETERS if schema is None else schema
    # Without this field the API enforces the schema, and other dialects do not.
    value["strict"] = bool(tool.strict)
    return value | _deferred_to_wire(tool.deferred)


def _custom_to_wire(tool: CustomTool) -> _Value:
    value: _Value = {"type": "custom", "name": tool.name}
    if tool.description is not None:
        value["description"] = tool.description
    if tool.grammar is not None:
        grammar = {"syntax": tool.grammar.syntax, "definition": tool.grammar.definition}
        value["format"] = {"type": "grammar", **grammar}
    return value | _deferred_to_wire(tool.deferred)


def _deferred_to_wire(deferred: bool) -> _Value:
    return {"defer_loading": True} if deferred else {}


def _mcp_to_wire(server: MCPServer) -> _Value:
    fields: _Value = {
        "server_url": server.url,
        "authorization": server.authorization,
        "headers": server.headers or None,
        "allowed_tools": None if server.allowed_tools is None else [*server.allowed_tools],
        "require_approval": server.require_approval,
    }
    said = {name: field for name, field in fields.items() if field is not None}
    return {"type": "mcp", "server_label": server.name, **said}


def _hosted_to_wire(tool: ServerTool) -> _Value:
    if tool.data:  # projected tools of other dialects have none
        return tool.data
    value = dict(_HOSTED[tool.kind])
    if tool.kind == "web_search" and tool.allowed_domains is not None:
        value["filters"] = {"allowed_domains": [*tool.allowed_domains]}
    if tool.user_location is not None:
        value["user_location"] = {"type": "approximate", **tool.user_location}
    if tool.search_context_size is not None:
        value["search_context_size"] = tool.search_context_size
    return value


# The choice

_Mode: TypeAlias = Literal["auto", "required", "none"]

_MODES: dict[str, _Mode] = {"auto": "auto", "required": "required", "none": "none"}
_CHOICE_TYPES = {
    "web_search": "web_search_preview",
    "code_execution": "code_interpreter",
}
"""Types in `tool_choice` by unified kind of a server tool, if they differ."""


def choice_from_wire(body: _Value) -> tuple[ToolChoice | None, Any]:
    """Return `tool_choice`, and its value too if `ToolChoice` cannot hold all of it.

    Raises:
        DecodeError: The value is not a Responses choice.
    """
    value = body.get("tool_choice")
    if value is None:
        return None, None
    if isinstance(value, str):
        mode = _MODES.get(value)
        if mode is None:
            raise unexpected(value, "auto, required or none", "$.tool_choice")
        return ToolChoice(mode), None
    try:
        choice = _choice_from_wire(as_object(value, "$"))
    except DecodeError as exc:
        raise prefix_path(exc, "$.tool_choice") from None
    is_exact = _is_exact(value) and type_in_tools(body) is None
    return choice, None if is_exact else value


def type_in_tools(body: _Value) -> str | None:
    """Return the type in `tools` of a server tool that `tool_choice` names by another type.

    None if `tool_choice` names a type in `tools`, or a tool that `tools` does not have.
    """
    choice = body.get("tool_choice")
    kind = choice.get("type") if is_object(choice) else None
    types = [string_of(tool, "type") for tool in objects_of(body.get("tools"))]
    if not isinstance(kind, str) or kind not in _KINDS or kind in types:
        return None
    return next((other for other in types if _KINDS.get(other) == _KINDS[kind]), None)


def _choice_from_wire(value: _Value) -> ToolChoice:
    kind = require_str(value, "type")
    if kind in ("function", "custom"):
        return ToolChoice("named", (require_str(value, "name"),), kind)
    if kind == "mcp":
        return ToolChoice("named", (require_str(value, "server_label"),), kind)
    if kind != "allowed_tools":
        return ToolChoice("named", (), _KINDS.get(kind, kind))
    mode = _MODES.get(require_str(value, "mode"))
    if mode is None:
        raise unexpected(value["mode"], "auto or required", "$.mode")
    names: list[str] = []
    server_kinds: list[str] = []
    kinds: set[str] = set()
    for path, tool in get_objects(value, "tools"):
        try:
            type = require_str(tool, "type")
            if _is_client_tool(tool):
                kinds.add(type)
                names.append(require_str(tool, "name"))
            else:
                server_kinds.append(_KINDS.get(type, type))
        except DecodeError as exc:
            raise prefix_path(exc, path) from None
    kind = "custom" if kinds == {"custom"} else "function"
    return ToolChoice(mode, tuple(names), kind, tuple(server_kinds))


def _is_client_tool(tool: _Value) -> bool:
    return tool.get("type") in ("function", "custom")


def _is_exact(value: _Value) -> bool:
    """Return whether `ToolChoice` can hold all of a value."""
    kind, fields = value["type"], {"type", "name"}
    if kind == "allowed_tools":
        tools = objects_of(value.get("tools"))
        fields = {"type", "mode", "tools"}
        if not tools or not all(map(_is_plain_choice, tools)):
            return False
    elif kind == "mcp":
        fields = {"type", "server_label"}
    return value.keys() <= fields


def _is_plain_choice(tool: _Value) -> bool:
    """Return whether `ToolChoice` can hold all fields of an allowed tool."""
    return tool.keys() <= ({"type", "name"} if _is_client_tool(tool) else {"type"})


def choice_to_wire(choice: ToolChoice, tools: Iterable[AnyTool]) -> Any:
    """Return `tool_choice`."""
    names, mode = choice.names, choice.mode
    if mode == "named":
        return _named_to_wire(choice, tools)
    if not (names or choice.server_kinds):
        return mode
    custom = {tool.name for tool in tools if isinstance(tool, CustomTool)}
    allowed = [{"type": "custom" if name in custom else "function", "name": name} for name in names]
    allowed += [{"type": _type_of(kind, tools)} for kind in choice.server_kinds]
    return {"type": "allowed_tools", "mode": mode, "tools": allowed}


def _named_to_wire(choice: ToolChoice, tools: Iterable[AnyTool]) -> _Value:
    kind, name = choice.kind, next(iter(choice.names), "")
    if kind in ("function", "custom"):
        return {"type": kind, "name": name}
    if kind == "mcp":
        return {"type": "mcp", "server_label": name}
    return {"type": _type_of(kind, tools)}


def _type_of(kind: str, tools: Iterable[AnyTool]) -> str:
    """Return the type of a server tool in `tool_choice`.

    The API refuses a type that `tools` does not have, such as `web_search_preview` with the
    tool `web_search` (raine/claude-code-proxy#26).
    """
    for tool in tools:
        if isinstance(tool, ServerTool) and tool.kind == kind:
            type: str = _hosted_to_wire(tool)["type"]
            return type
    return _CHOICE_TYPES.get(kind, kind)
