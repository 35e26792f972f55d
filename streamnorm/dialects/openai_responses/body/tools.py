"""Tools and tool choice, in both directions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, TypeAlias

from msgspec import structs

from streamnorm._core.bodies.fields import (
    as_object,
    as_str,
    get_bool,
    get_object,
    get_objects,
    get_str,
    get_strings,
    prefix_path,
    read_array,
    read_objects,
    require_str,
    unexpected,
)
from streamnorm._core.bodies.request import Source, unchanged_source
from streamnorm._core.bodies.table import Field, Table, WithRest
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
from streamnorm.dialects.openai_responses.body.content import as_extra, unknown_fields_of
from streamnorm.dialects.openai_responses.wire import DIALECT

_Value: TypeAlias = dict[str, Any]

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


def _grammar_from_wire(value: object) -> Grammar | WithRest | None:
    form = as_object(value)
    if form == {"type": "text"}:
        return WithRest(None, None)  # the default
    if form.get("type") != "grammar" or not form.keys() <= {"type", "syntax", "definition"}:
        return None
    return Grammar(require_str(form, "syntax"), require_str(form, "definition"))


def _allowed_from_wire(value: object) -> tuple[str, ...] | None:
    """Return the names of the allowed tools; None for a filter by other properties."""
    if is_object(value):
        return get_strings(value, "tool_names") if value.keys() == {"tool_names"} else None
    return tuple(read_array(value, as_str))


def _headers_from_wire(value: object) -> dict[str, str]:
    headers = as_object(value)
    for text in headers.values():
        as_str(text)
    return headers


_NAME = (Field("name", get_str, required="a string"), Field("description", get_str))
_DEFERRED = Field("deferred", get_bool, wire="defer_loading", write=lambda it, _: it or None)
_FUNCTION = Table(
    *_NAME,
    # `parameters` is required; other dialects have functions without.
    Field(
        "input_schema",
        get_object,
        wire="parameters",
        write=lambda schema, _: _NO_PARAMETERS if schema is None else schema,
        always=True,
    ),
    # Without this field the API enforces the schema, and other dialects do not.
    Field("strict", get_bool, write=lambda strict, _: bool(strict), always=True),
    _DEFERRED,
)
_CUSTOM = Table(
    *_NAME,
    Field(
        "grammar",
        wire="format",
        read=_grammar_from_wire,
        write=lambda grammar, _: {"type": "grammar", **structs.asdict(grammar)},
    ),
    _DEFERRED,
)
_MCP = Table(
    Field("name", get_str, wire="server_label", required="a string"),
    Field("url", get_str, wire="server_url"),
    Field("authorization", get_str),
    Field("headers", read=_headers_from_wire, write=lambda headers, _: headers or None),
    Field("allowed_tools", read=_allowed_from_wire),
    Field("require_approval", read=lambda value: value if isinstance(value, str) else None),
)
_ABSENT_IF_NULL = {
    name for table in (_FUNCTION, _CUSTOM, _MCP) for row in table.rows for name in row.wire_names
} - {"parameters", "strict", "require_approval"}
"""Fields whose null means the same as their absence."""


def tools_from_wire(body: _Value) -> list[AnyTool]:
    """Return the `tools` of a request, or of an item that adds tools.

    Raises:
        DecodeError: A tool is not a Responses tool.
    """
    entries = read_objects(body.get("tools"), _entry_from_wire, "$.tools")
    return [tool for entry in entries for tool in entry]


def _entry_from_wire(entry: _Value) -> list[AnyTool]:
    """Return the tools in an entry of `tools`: one tool, or all tools of a namespace."""
    if entry.get("type") != "namespace":
        return [_tool_from_wire(entry, None)]
    namespace = Namespace(require_str(entry, "name"), get_str(entry, "description") or "")
    tools = entry.get("tools")
    return read_objects(tools, lambda tool: _tool_from_wire(tool, namespace), "$.tools")


def _tool_from_wire(value: _Value, namespace: Namespace | None) -> AnyTool:
    kind = require_str(value, "type")
    part: AnyTool
    if kind == "function":
        nested = value
        if "function" in value:  # some clients nest the fields as in Chat Completions
            nested = {**(get_object(value, "function") or {}), **value}
            del nested["function"]
        fields, unknown = _FUNCTION.read(nested)
        part = Tool(**fields, namespace=namespace, extra=_extra_of(unknown))
    elif kind == "custom":
        fields, unknown = _CUSTOM.read(value)
        part = CustomTool(**fields, namespace=namespace, extra=_extra_of(unknown))
    elif kind == "mcp":
        fields, unknown = _MCP.read(value)
        part = MCPServer(**fields, extra=_extra_of(unknown))
    else:
        part = _hosted_from_wire(value, kind)
    return structs.replace(part, source=Source(DIALECT, value, part))


def _extra_of(unknown: _Value) -> dict[str, _Value] | None:
    del unknown["type"]
    if not unknown:
        return None
    items = unknown.items()
    return as_extra({k: v for k, v in items if v is not None or k not in _ABSENT_IF_NULL})


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
    """Return tools as `tools`; consecutive tools of a namespace share one entry."""
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
        value = {"type": "function", **_FUNCTION.write(tool)}
    elif isinstance(tool, CustomTool):
        value = {"type": "custom", **_CUSTOM.write(tool)}
    elif isinstance(tool, MCPServer):
        value = {"type": "mcp", **_MCP.write(tool)}
    else:
        value = _hosted_to_wire(tool)
    return {**value, **unknown_fields_of(tool.extra)}


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


def choice_from_wire(body: _Value) -> tuple[ToolChoice, Any]:
    """Return the tool choice, and the wire value if `ToolChoice` cannot express all of it.

    Raises:
        DecodeError: The value is not a Responses choice.
    """
    value = body["tool_choice"]
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
    """Return the type that `tools` has for the server tool in `tool_choice`, if the types differ.

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
    """Return whether `ToolChoice` can express all fields of a `tool_choice` object."""
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
    """Return whether `ToolChoice` can express all fields of an allowed tool."""
    return tool.keys() <= ({"type", "name"} if _is_client_tool(tool) else {"type"})


def choice_to_wire(choice: ToolChoice, tools: Iterable[AnyTool]) -> Any:
    """Return a tool choice as `tool_choice`."""
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
    """Return the type that names a server tool in `tool_choice`.

    The API refuses a type that `tools` does not have, such as `web_search_preview` with the
    tool `web_search` (raine/claude-code-proxy#26).
    """
    for tool in tools:
        if isinstance(tool, ServerTool) and tool.kind == kind:
            type: str = _hosted_to_wire(tool)["type"]
            return type
    return _CHOICE_TYPES.get(kind, kind)
