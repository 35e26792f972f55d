"""Tools and tool choice, in both directions.

https://platform.claude.com/docs/en/api/messages (read 2026-11-22).  Anthropic has three kinds:
tools that the client runs (with a schema of the client's or, by type, of Anthropic's), server
tools, and MCP servers.  An MCP server is two parts of a request: its toolset stands among the
tools, its address in `mcp_servers`.
"""

from __future__ import annotations

from typing import Any, Literal, TypedDict

from msgspec import structs

from streamnorm._core.bodies.fields import (
    as_object,
    get_bool,
    get_int,
    get_object,
    get_str,
    get_strings,
    read_objects,
    require_str,
    unexpected,
    unknown_fields,
)
from streamnorm._core.bodies.request import Source, is_same_dialect, unchanged_source
from streamnorm._core.bodies.table import (
    Field,
    Reading,
    Table,
    Writing,
    add_unknown,
    constant,
    leave_out,
    unknown_of,
)
from streamnorm._core.codec import WriteContext
from streamnorm._core.errors import DecodeError, EncodeError
from streamnorm._core.json import is_object, string_of
from streamnorm._core.tools import AnyTool, MCPServer, ServerTool, Tool, ToolChoice, location_of
from streamnorm.dialects.anthropic.body.content import (
    add_extra,
    as_extra,
    drop_untyped,
    mark_from_wire,
    mark_to_wire,
    split_cache_mark,
)
from streamnorm.dialects.anthropic.wire import DIALECT

# Types without their date by unified kind; the first matching prefix counts.
_KINDS = {
    "web_search_": "web_search",
    "web_fetch_": "web_fetch",
    "code_execution_": "code_execution",
    "tool_search_tool_": "tool_search",
    "computer_toolset_": "computer_toolset",
    "computer_": "computer",
    "browser_toolset_": "browser_toolset",
    "advisor_": "advisor",
}
# Type and name written for a tool of another dialect: the oldest, which all models accept.
_TYPES = {
    "web_search": ("web_search_20250305", "web_search"),
    "web_fetch": ("web_fetch_20250910", "web_fetch"),
    "code_execution": ("code_execution_20250825", "code_execution"),
    "tool_search": ("tool_search_tool_bm25_20251119", "tool_search_tool_bm25"),
}
_FIELDS = frozenset({"allowed_domains", "blocked_domains", "max_uses"})
_MARK = "cache_control"
_TOOLSET = frozenset({"type", "mcp_server_name"})
_FILTER = frozenset({"default_config", "configs"})
_MODES: dict[str, Literal["auto", "required", "none", "named"]] = {
    "auto": "auto",
    "any": "required",
    "none": "none",
    "tool": "named",
}
_CHOICES = {mode: word for word, mode in _MODES.items()}

# Schemas of the client tools that Anthropic defines.
_TEXT: dict[str, Any] = {"type": "string"}

_LINES: dict[str, Any] = {
    "type": "array",
    "items": {"type": "integer"},
    "description": "First and last line",
}
_FILES: dict[str, dict[str, Any]] = {
    "path": _TEXT,
    "view_range": _LINES,
    "file_text": _TEXT,
    "old_str": _TEXT,
    "new_str": _TEXT,
    "insert_line": {"type": "integer", "description": "Line after which to insert"},
}
_EDITS = ("view", "create", "str_replace", "insert")
_EDITOR = "View, create and edit files."


def _schema_to_wire(schema: dict[str, Any] | None, writing: Writing) -> dict[str, Any]:
    return {"type": "object", **(schema or {})}


_FUNCTION = Table(
    Field("name", get_str, required="a string"),
    Field("description", get_str),
    Field(
        "input_schema",
        get_object,
        write=_schema_to_wire,
        always=True,
    ),
    Field("strict", get_bool, write=lambda strict, _: strict or None),
    Field("deferred", get_bool, wire="defer_loading", write=lambda deferred, _: deferred or None),
    Field("cache", wire="cache_control", read=mark_from_wire, write=mark_to_wire),
)


def tools_from_wire(body: dict[str, Any]) -> tuple[AnyTool, ...]:
    """Return the tools of a request; MCP servers without a toolset come last.

    Raises:
        DecodeError: A tool or a server has a field of another type.
    """
    servers = {} if body.get("mcp_servers") is None else _mcp_servers_from_wire(body)

    def read_tool(value: dict[str, Any]) -> AnyTool:
        if value.get("type") == "mcp_toolset":
            return _mcp_toolset_from_wire(value, servers)
        return _tool_from_wire(value)

    return (*read_objects(body.get("tools"), read_tool, "$.tools"), *servers.values())


def _tool_from_wire(value: dict[str, Any]) -> Tool | ServerTool:
    kind = get_str(value, "type")
    typed = None if kind is None else _client_tool_schema(kind)
    tool: Tool | ServerTool
    if typed is None and kind not in (None, "custom") and not is_object(value.get("input_schema")):
        tool = _server_tool_from_wire(str(kind), value)
        return structs.replace(tool, source=Source(DIALECT, value, tool))
    fields, unknown = _FUNCTION.read(value)
    if typed is not None:
        description, schema = typed
        fields |= {"description": description, "input_schema": schema, "vendor_type": kind}
    elif not is_object(parameters := value.get("input_schema")):
        raise unexpected(parameters, "an object", "$.input_schema")
    if typed is not None or kind in (None, "custom"):
        unknown.pop("type", None)
    tool = Tool(**fields, extra={DIALECT: unknown} if unknown else None)
    return structs.replace(tool, source=Source(DIALECT, value, tool))


def tools_to_wire(writing: Writing) -> dict[str, Any]:
    """Return `tools` and `mcp_servers`.

    Raises:
        EncodeError: Two tools have the same name, be one of them Anthropic's: the API refuses
            "Tool names must be unique." (danny-avila/LibreChat#13162).  Or two MCP servers have,
            which a toolset names.
    """
    context = writing.context
    tools: list[dict[str, Any]] = []
    servers: dict[str, dict[str, Any]] = {}
    names: set[str] = set()
    for number, tool in enumerate(_clear_deferral(writing.part.tools, context)):
        value = unchanged_source(tool, DIALECT)
        if isinstance(tool, MCPServer):
            parts: _MCPParts | None = value or _mcp_server_to_wire(tool, context)
            value = None if parts is None else parts["toolset"]
            if parts is not None and parts["server"] is not None:
                if tool.name in servers:
                    problem = "name of another MCP server, expected one of its own"
                    raise EncodeError(problem, path=f"tools[{number}]")
                servers[tool.name] = parts["server"]
        elif value is None:
            value = _tool_to_wire(tool, context)
        if value is None:
            continue
        name = string_of(value, "name")  # "" for a toolset, which has no name
        if name in names and not is_same_dialect(tool, DIALECT):
            problem = "name of another tool, expected one of its own"
            raise EncodeError(problem, path=f"tools[{number}]")
        if name:
            names.add(name)
        tools.append(value)
    body: dict[str, Any] = {"tools": tools} if tools else {}
    return {**body, "mcp_servers": [*servers.values()]} if servers else body


def _clear_deferral(tools: tuple[AnyTool, ...], context: WriteContext) -> tuple[AnyTool, ...]:
    """Return tools; clear `deferred` if every tool is deferred, which the API refuses."""
    loaded: list[Tool] = []
    for tool in tools:
        if not isinstance(tool, Tool) or not tool.deferred or is_same_dialect(tool, DIALECT):
            return tools
        loaded.append(structs.replace(tool, deferred=False))
    for _ in loaded:
        context.losses.add("deferred_tool_loaded", "tools", "offered from the start")
    return tuple(loaded)


def _tool_to_wire(tool: AnyTool, context: WriteContext) -> dict[str, Any] | None:
    if isinstance(tool, ServerTool):
        return _server_tool_to_wire(tool, context)
    if not isinstance(tool, Tool):
        raise AssertionError(f"{type(tool).__name__} passed the projection")
    value = _FUNCTION.write(tool)
    if tool.vendor_type is not None and _client_tool_schema(tool.vendor_type) is not None:
        fields = unknown_fields(value, {"description", "input_schema"})
        value = {"type": tool.vendor_type, **fields}
    if tool.extra is not None:
        drop_untyped(add_unknown(value, unknown_of(tool.extra, DIALECT)), _MARK)
    return value


def _client_tool_schema(kind: str) -> tuple[str, dict[str, Any]] | None:
    """Return the description and schema of an Anthropic client tool; None for other tools.

    Other vendors need both: on Anthropic's wire the type stands for them.

    Args:
        kind: Type of the tool, such as `bash_20250124`.
    """
    for prefix, described in _TOOLS.items():
        if kind.startswith(prefix):
            return described
    return None


def _object_schema(required: list[str], **properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required}


def _enum_schema(*words: str) -> dict[str, Any]:
    return {"type": "string", "enum": list(words)}


_REVERTING_EDITOR = (
    _EDITOR,
    _object_schema(["command", "path"], command=_enum_schema(*_EDITS, "undo_edit"), **_FILES),
)


# By prefix of the type; the first match counts, since later editors lost `undo_edit`.
_TOOLS: dict[str, tuple[str, dict[str, Any]]] = {
    "bash_": (
        "Run a command in a bash session that persists, or restart the session.",
        _object_schema([], command=_TEXT, restart={"type": "boolean"}),
    ),
    "text_editor_2024": _REVERTING_EDITOR,
    "text_editor_20250124": _REVERTING_EDITOR,
    "text_editor_": (
        _EDITOR,
        _object_schema(
            ["command", "path"], command=_enum_schema(*_EDITS), **_FILES, insert_text=_TEXT
        ),
    ),
    "memory_": (
        "Read and write files in the memory directory, which persists between conversations.",
        _object_schema(
            ["command"],
            command=_enum_schema(*_EDITS, "delete", "rename"),
            **_FILES,
            insert_text=_TEXT,
            old_path=_TEXT,
            new_path=_TEXT,
        ),
    ),
}


def _server_tool_from_wire(kind: str, value: dict[str, Any]) -> ServerTool:
    """Return an entry of `tools` as a server tool, also if its type is unknown."""
    data = unknown_fields(value, {_MARK})
    mark, extra = split_cache_mark(value, data.keys())
    return ServerTool(
        _unified_kind(kind),
        DIALECT,
        data,
        get_strings(value, "allowed_domains"),
        get_strings(value, "blocked_domains"),
        get_int(value, "max_uses"),
        location_of(value.get("user_location")),
        cache=mark,
        extra=extra,
    )


def _server_tool_to_wire(tool: ServerTool, context: WriteContext) -> dict[str, Any] | None:
    """Return a server tool as its JSON object; None if it is dropped (counted as a loss)."""
    allowed, blocked = tool.allowed_domains, tool.blocked_domains
    value: dict[str, Any] | None
    if tool.dialect == DIALECT:
        value = {name: item for name, item in tool.data.items() if name not in _FIELDS}
    elif (value := _equivalent_of(tool)) is None:
        context.losses.add("server_tool_dropped", "tools", tool.kind)
        return None
    elif allowed is not None and blocked is not None:  # the API accepts one of the two lists
        context.losses.add("blocked_domains", "tools", "dropped beside allowed domains")
        blocked = None
    if allowed is not None:
        value["allowed_domains"] = list(allowed)
    if blocked is not None:
        value["blocked_domains"] = list(blocked)
    if tool.max_uses is not None:
        value["max_uses"] = tool.max_uses
    if tool.user_location is not None and tool.dialect != DIALECT:
        value["user_location"] = {"type": "approximate", **tool.user_location}
    add_extra(value, tool.cache, unknown_of(tool.extra, DIALECT))
    return value


def _equivalent_of(tool: ServerTool) -> dict[str, Any] | None:
    """Return Anthropic's equivalent of another vendor's server tool, or None."""
    if tool.kind not in _TYPES:
        return None
    type, name = _TYPES[tool.kind]
    return {"type": type, "name": name}


def _unified_kind(type: str) -> str:
    """Return the unified kind for a server tool's type; unknown types stay unchanged."""
    return next((kind for prefix, kind in _KINDS.items() if type.startswith(prefix)), type)


def _mcp_servers_from_wire(body: dict[str, Any]) -> dict[str, MCPServer]:
    """Return the entries of `mcp_servers` by name.

    Raises:
        DecodeError: An entry has a field of another type, or the name of an earlier entry.
    """
    servers: dict[str, MCPServer] = {}

    def read_server(entry: dict[str, Any]) -> None:
        server = _server_from_wire(entry)
        if server.name in servers:
            raise DecodeError("name of another server, expected one of its own")
        servers[server.name] = server

    read_objects(body.get("mcp_servers"), read_server, "$.mcp_servers")
    return servers


class _MCPParts(TypedDict):
    """The entries of an MCP server in `tools` and in `mcp_servers`.

    Attributes:
        toolset: The `mcp_toolset` among the tools; None if the server has none.
        server: The entry in `mcp_servers`; None if Anthropic itself knows the server.
    """

    toolset: dict[str, Any] | None
    server: dict[str, Any] | None


def _filter_from_wire(value: object) -> tuple[str, ...] | None:
    """Return the tool names in a `tool_configuration`; None if it has other settings."""
    configuration = as_object(value)
    others = unknown_fields(configuration, {"allowed_tools"})
    if "allowed_tools" not in configuration or others not in ({}, {"enabled": True}):
        return None
    return get_strings(configuration, "allowed_tools")


_SERVER = Table(
    constant("type", "url"),
    Field("name", get_str, required="a string"),
    Field("url", get_str),
    Field("authorization", get_str, wire="authorization_token"),
    # In the first revision of the beta, 2025-04-04, a server names its tools itself.
    Field(
        "allowed_tools",
        wire="tool_configuration",
        read=_filter_from_wire,
        write=leave_out,
    ),
)


def _server_from_wire(value: dict[str, Any]) -> MCPServer:
    fields, unknown = _SERVER.read(value)
    extra = as_extra({"mcp_server": unknown} if unknown else {})
    server = MCPServer(**fields, require_approval="never", extra=extra)
    return structs.replace(
        server, source=Source(DIALECT, _MCPParts(toolset=None, server=value), server)
    )


def _mcp_toolset_from_wire(value: dict[str, Any], servers: dict[str, MCPServer]) -> MCPServer:
    """Return the MCP server of a toolset; remove the server's entry from `servers`.

    Raises:
        DecodeError: The toolset does not name its server.
    """
    name = require_str(value, "mcp_server_name")
    entry = servers.pop(name, None)
    mark, extra = split_cache_mark(value, _TOOLSET)
    toolset = unknown_of(extra, DIALECT)
    allowed = _enabled_tools(toolset)
    if allowed is not None:
        toolset = unknown_fields(toolset, _FILTER)
    if entry is None:  # Anthropic itself knows the server
        server = MCPServer(name, require_approval="never")
        unknown: dict[str, Any] = {"mcp_toolset": toolset}
        parts = _MCPParts(toolset=value, server=None)
    else:
        server = entry
        unknown = unknown_of(entry.extra, DIALECT) | ({"mcp_toolset": toolset} if toolset else {})
        parts = _MCPParts(toolset=value, server=entry.source.value["server"])
    server = structs.replace(
        server,
        allowed_tools=server.allowed_tools if allowed is None else allowed,
        cache=mark,
        extra=as_extra(unknown),
        source=None,
    )
    return structs.replace(server, source=Source(DIALECT, parts, server))


def _mcp_server_to_wire(tool: MCPServer, context: WriteContext) -> _MCPParts | None:
    """Return an MCP server and its toolset; None if it has no URL (counted as a loss)."""
    unknown = unknown_of(tool.extra, DIALECT)
    toolset: dict[str, Any] = {"type": "mcp_toolset", "mcp_server_name": tool.name}
    if tool.allowed_tools is not None:
        toolset["default_config"] = {"enabled": False}
        toolset["configs"] = {name: {"enabled": True} for name in tool.allowed_tools}
    add_extra(toolset, tool.cache, unknown.get("mcp_toolset") or {})
    if tool.require_approval == "always":
        context.losses.add("require_approval", "tools", "calls are made without approval")
    if tool.url is None:
        if "mcp_toolset" in unknown:  # Anthropic itself knows the server
            return _MCPParts(toolset=toolset, server=None)
        context.losses.add("mcp_server_dropped", "tools", "without a URL")
        return None
    server = add_unknown(_SERVER.write(tool), unknown.get("mcp_server") or {})
    return _MCPParts(toolset=toolset, server=server)


def _enabled_tools(toolset: dict[str, Any]) -> tuple[str, ...] | None:
    """Return the names of a toolset's enabled tools if all other tools are disabled, else None."""
    configs = toolset.get("configs")
    if toolset.get("default_config") != {"enabled": False} or not is_object(configs):
        return None
    if any(config != {"enabled": True} for config in configs.values()):
        return None
    return tuple(configs)


_CHOICE = Table(
    Field("mode", get_str, wire="type", required="a string"),
    Field("is_serial", get_bool, wire="disable_parallel_tool_use"),
    Field("name", get_str),
)


def tool_choice_from_wire(reading: Reading) -> dict[str, Any]:
    """Return the tool choice, and whether parallel calls are allowed.

    Raises:
        DecodeError: `tool_choice` has an unknown type, or a field of another type.
    """
    choice, unknown = _CHOICE.read_field(reading.body, "tool_choice")
    if unknown:
        reading.unknown["tool_choice"] = unknown
    word, name, is_serial = (choice.get(name) for name in ("mode", "name", "is_serial"))
    if word not in _MODES:
        problem = "a choice of another type, expected auto, any, tool or none"
        raise DecodeError(problem, path="$.tool_choice")
    fields: dict[str, Any] = {"tool_choice": ToolChoice(_MODES[word])}
    if word == "tool":
        if name is None:
            raise DecodeError("missing, expected a string", path="$.tool_choice.name")
        kind = _kind_of_named(name, reading.fields.get("tools", ()))
        fields["tool_choice"] = ToolChoice("named", (name,), kind)
    if is_serial is not None:
        fields["parallel_tool_calls"] = not is_serial
    return fields


def _kind_of_named(name: str, tools: tuple[AnyTool, ...]) -> str:
    """Return the kind of the server tool called `name`, or `function` without such a tool."""
    for tool in tools:
        if isinstance(tool, ServerTool) and tool.data.get("name") == name:
            return tool.kind
    return "function"


def tool_choice_to_wire(writing: Writing) -> dict[str, Any]:
    """Return a tool choice as `tool_choice`."""
    losses, tools = writing.context.losses, writing.body.get("tools")
    choice: ToolChoice | None = writing.part.tool_choice
    parallel: bool | None = writing.part.parallel_tool_calls
    if choice is None and parallel is None:
        return {}
    if not tools:  # the API refuses `tool_choice` without tools
        if choice is not None:
            losses.add("tool_choice", "request", "dropped without tools")
        if parallel is not None:
            losses.add("parallel_tool_calls", "request", "dropped without tools")
        return {}
    value: dict[str, Any] = {"type": "auto"}
    if choice is not None:
        value["type"] = _CHOICES[choice.mode]
        if choice.mode == "named" and (name := _named_tool(choice, tools)) is not None:
            value["name"] = name
        elif choice.mode == "named":
            losses.add("tool_choice_weakened", "request", "the tool was not written")
            value["type"] = "auto"
    if parallel is not None and value["type"] == "none":
        losses.add("parallel_tool_calls", "request", "dropped where no tool is called")
    elif parallel is not None:
        value["disable_parallel_tool_use"] = not parallel
    return {"tool_choice": value}


def _named_tool(choice: ToolChoice, tools: list[dict[str, Any]]) -> str | None:
    """Return the name of the chosen tool in `tools`; None if the tool was dropped."""
    if choice.kind in ("function", "custom"):
        return choice.names[0]
    for tool in tools:
        if _unified_kind(str(tool.get("type"))) == choice.kind:
            name: str | None = tool.get("name")
            return name
    return None
