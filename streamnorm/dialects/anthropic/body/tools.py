"""Tools, and which of them the model may call, in both directions."""

from __future__ import annotations

from typing import Any, Literal, TypedDict

from msgspec import structs

from streamnorm._core.bodies.fields import (
    as_object,
    get_array,
    get_bool,
    get_int,
    get_object,
    get_objects,
    get_str,
    get_strings,
    prefix_path,
    require_str,
    unknown_fields,
)
from streamnorm._core.bodies.request import Request, Source, is_same_dialect, unchanged_source
from streamnorm._core.codec import WriteContext
from streamnorm._core.errors import DecodeError, EncodeError
from streamnorm._core.json import is_object, string_of
from streamnorm._core.tools import AnyTool, MCPServer, ServerTool, Tool, ToolChoice, location_of
from streamnorm.dialects.anthropic.body.content import DIALECT, add_rest, mark_and_rest, own_fields


def client_tool_schema(kind: str) -> tuple[str, dict[str, Any]] | None:
    """Return a description and the schema of a typed tool; None if its type is not known.

    Args:
        kind: Type of the tool, such as `bash_20250124`.
    """
    for prefix, described in _TOOLS.items():
        if kind.startswith(prefix):
            return described
    return None


def _object(required: list[str], **properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required}


def _words(*words: str) -> dict[str, Any]:
    return {"type": "string", "enum": list(words)}


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
_REVERTING_EDITOR = (
    _EDITOR,
    _object(["command", "path"], command=_words(*_EDITS, "undo_edit"), **_FILES),
)

# The first prefix counts.
_TOOLS: dict[str, tuple[str, dict[str, Any]]] = {
    "bash_": (
        "Run a command in a bash session that persists, or restart the session.",
        _object([], command=_TEXT, restart={"type": "boolean"}),
    ),
    "text_editor_2024": _REVERTING_EDITOR,
    "text_editor_20250124": _REVERTING_EDITOR,
    "text_editor_": (
        _EDITOR,
        _object(["command", "path"], command=_words(*_EDITS), **_FILES, insert_text=_TEXT),
    ),
    "memory_": (
        "Read and write files in the memory directory, which persists between conversations.",
        _object(
            ["command"],
            command=_words(*_EDITS, "delete", "rename"),
            **_FILES,
            insert_text=_TEXT,
            old_path=_TEXT,
            new_path=_TEXT,
        ),
    ),
}


# The vendor's type by the unified kind, without the date, and the oldest type that all models
# have, for tools of other dialects.
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
_TYPES = {
    "web_search": ("web_search_20250305", "web_search"),
    "web_fetch": ("web_fetch_20250910", "web_fetch"),
    "code_execution": ("code_execution_20250825", "code_execution"),
    "tool_search": ("tool_search_tool_bm25_20251119", "tool_search_tool_bm25"),
}
_FIELDS = frozenset({"allowed_domains", "blocked_domains", "max_uses"})
_MARK = frozenset({"cache_control"})
_TOOLSET = frozenset({"type", "mcp_server_name"})
_FILTER = frozenset({"default_config", "configs"})
_SERVER = frozenset({"type", "name", "url", "authorization_token"})


def kind_of(type: str) -> str:
    """Return the unified kind of a typed tool; the type itself if there is none."""
    return next((kind for prefix, kind in _KINDS.items() if type.startswith(prefix)), type)


def server_tool_from_wire(kind: str, value: dict[str, Any]) -> ServerTool:
    """Return a tool that the provider executes, or one of an unknown type."""
    data = unknown_fields(value, _MARK)
    mark, extra = mark_and_rest(value, data.keys())
    return ServerTool(
        kind_of(kind),
        DIALECT,
        data,
        get_strings(value, "allowed_domains"),
        get_strings(value, "blocked_domains"),
        get_int(value, "max_uses"),
        location_of(value.get("user_location")),
        cache=mark,
        extra=extra,
    )


def server_tool_to_wire(tool: ServerTool, context: WriteContext) -> dict[str, Any] | None:
    """Return a server tool; None if Anthropic has no equivalent, which is counted."""
    allowed, blocked = tool.allowed_domains, tool.blocked_domains
    value: dict[str, Any] | None
    if tool.dialect == DIALECT:
        value = {name: item for name, item in tool.data.items() if name not in _FIELDS}
    elif (value := _equivalent(tool)) is None:
        context.losses.add("server_tool_dropped", "tools", tool.kind)
        return None
    elif allowed is not None and blocked is not None:  # Anthropic takes one of them
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
    add_rest(value, tool.cache, own_fields(tool.extra))
    return value


def _equivalent(tool: ServerTool) -> dict[str, Any] | None:
    """Return Anthropic's tool of a kind; None if there is none."""
    if tool.kind not in _TYPES:
        return None
    type, name = _TYPES[tool.kind]
    return {"type": type, "name": name}


class MCPParts(TypedDict):
    """An MCP server as two parts of a request.

    Attributes:
        toolset: Its `mcp_toolset` among the tools; None if there is none.
        server: Its entry in `mcp_servers`; None if there is none.
    """

    toolset: dict[str, Any] | None
    server: dict[str, Any] | None


def mcp_servers_from_wire(body: dict[str, Any]) -> dict[str, MCPServer]:
    """Return the entries of `mcp_servers` by their names, with what they say of their tools.

    Raises:
        DecodeError: One is no MCP server, or has the name of another one.
    """
    servers: dict[str, MCPServer] = {}
    for path, value in get_objects(body, "mcp_servers"):
        try:
            server = _server_from_wire(value)
        except DecodeError as exc:
            raise prefix_path(exc, path) from None
        if server.name in servers:
            raise DecodeError("name of another server, expected one of its own", path=path)
        servers[server.name] = server
    return servers


def _server_from_wire(value: dict[str, Any]) -> MCPServer:
    rest = unknown_fields(value, _SERVER)
    allowed = None
    # Before there were toolsets, a server had the names of its tools.
    configuration = get_object(value, "tool_configuration")
    if configuration is not None and _is_filter(configuration):
        del rest["tool_configuration"]
        try:
            allowed = get_strings(configuration, "allowed_tools")
        except DecodeError as exc:
            raise prefix_path(exc, "$.tool_configuration") from None
    server = MCPServer(
        require_str(value, "name"),
        get_str(value, "url"),
        get_str(value, "authorization_token"),
        allowed_tools=allowed,
        require_approval="never",
        extra={DIALECT: {"mcp_server": rest}} if rest else None,
    )
    return structs.replace(
        server, source=Source(DIALECT, MCPParts(toolset=None, server=value), server)
    )


def _is_filter(configuration: dict[str, Any]) -> bool:
    """Return whether the tools of a server are named, and nothing else is said of them."""
    return "allowed_tools" in configuration and {
        name: value for name, value in configuration.items() if name != "allowed_tools"
    } in ({}, {"enabled": True})


def mcp_toolset_from_wire(value: dict[str, Any], servers: dict[str, MCPServer]) -> MCPServer:
    """Return the server of a toolset, which is taken from `servers` if it is there.

    Raises:
        DecodeError: It does not name its server.
    """
    name = require_str(value, "mcp_server_name")
    entry = servers.pop(name, None)
    mark, extra = mark_and_rest(value, _TOOLSET)
    rest = own_fields(extra)
    allowed = _enabled_tools(rest)
    if allowed is not None:
        rest = unknown_fields(rest, _FILTER)
    if entry is None:  # the server is known to Anthropic
        server = MCPServer(name, require_approval="never")
        own: dict[str, Any] = {"mcp_toolset": rest}
        parts = MCPParts(toolset=value, server=None)
    else:
        server = entry
        own = own_fields(entry.extra) | ({"mcp_toolset": rest} if rest else {})
        parts = MCPParts(toolset=value, server=entry.source.value["server"])
    server = structs.replace(
        server,
        allowed_tools=server.allowed_tools if allowed is None else allowed,
        cache=mark,
        extra={DIALECT: own} if own else None,
        source=None,
    )
    return structs.replace(server, source=Source(DIALECT, parts, server))


def mcp_server_to_wire(tool: MCPServer, context: WriteContext) -> MCPParts | None:
    """Return both parts of an MCP server; None if it has no URL, which is counted."""
    own = own_fields(tool.extra)
    toolset: dict[str, Any] = {"type": "mcp_toolset", "mcp_server_name": tool.name}
    if tool.allowed_tools is not None:
        toolset["default_config"] = {"enabled": False}
        toolset["configs"] = {name: {"enabled": True} for name in tool.allowed_tools}
    add_rest(toolset, tool.cache, own.get("mcp_toolset") or {})
    if tool.require_approval == "always":
        context.losses.add("require_approval", "tools", "calls are made without approval")
    if tool.url is None:
        if "mcp_toolset" in own:  # the server is known to Anthropic
            return MCPParts(toolset=toolset, server=None)
        context.losses.add("mcp_server_dropped", "tools", "without a URL")
        return None
    server: dict[str, Any] = {"type": "url", "name": tool.name, "url": tool.url}
    if tool.authorization is not None:
        server["authorization_token"] = tool.authorization
    add_rest(server, None, own.get("mcp_server") or {})
    return MCPParts(toolset=toolset, server=server)


def _enabled_tools(toolset: dict[str, Any]) -> tuple[str, ...] | None:
    """Return the names of the only tools that are enabled; None if the filter is another."""
    configs = toolset.get("configs")
    if toolset.get("default_config") != {"enabled": False} or not is_object(configs):
        return None
    if any(config != {"enabled": True} for config in configs.values()):
        return None
    return tuple(configs)


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
    values = get_array(body, "tools") or ()
    tools: list[AnyTool] = []
    try:
        for value in values:
            tool = as_object(value, "$")
            if tool.get("type") == "mcp_toolset":
                tools.append(mcp_toolset_from_wire(tool, servers))
            else:
                tools.append(_tool_from_wire(tool))
    except DecodeError as exc:
        raise prefix_path(exc, f"$.tools[{len(tools)}]") from None
    return (*tools, *servers.values())


def _tool_from_wire(value: dict[str, Any]) -> Tool | ServerTool:
    kind = get_str(value, "type")
    typed = None if kind is None else client_tool_schema(kind)
    tool: Tool | ServerTool
    if typed is not None:
        description, schema = typed
        tool = _function_from_wire(value, description, schema, kind)
    elif kind is None or kind == "custom" or is_object(value.get("input_schema")):
        schema = as_object(value.get("input_schema"), "$.input_schema")
        tool = _function_from_wire(value, get_str(value, "description"), schema, None)
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
        require_str(value, "name"),
        description,
        schema,
        get_bool(value, "strict"),
        get_bool(value, "defer_loading") is True,
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
        if name in names and not is_same_dialect(tool, DIALECT):
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
        if not isinstance(tool, Tool) or not tool.deferred or is_same_dialect(tool, DIALECT):
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
    choice = get_object(body, "tool_choice")
    if choice is None:
        return None, None
    try:
        word = require_str(choice, "type")
        serial = get_bool(choice, "disable_parallel_tool_use")
        if word not in _MODES:
            raise DecodeError("a choice of another type, expected auto, any, tool or none")
        name = require_str(choice, "name") if word == "tool" else None
    except DecodeError as exc:
        raise prefix_path(exc, "$.tool_choice") from None
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
