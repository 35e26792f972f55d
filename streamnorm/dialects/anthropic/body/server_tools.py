"""Tools that the provider executes, and remote MCP servers, in both directions."""

from __future__ import annotations

from typing import Any, TypedDict

from msgspec import structs

from streamnorm._core.bodies.fields import (
    integer_in,
    object_of,
    objects_in,
    required_text,
    rest_of,
    text_in,
    texts_in,
    within,
)
from streamnorm._core.bodies.request import Source
from streamnorm._core.codec import WriteContext
from streamnorm._core.errors import DecodeError
from streamnorm._core.json import is_object
from streamnorm._core.tools import MCPServer, ServerTool, location_of
from streamnorm.dialects.anthropic.body.extra import (
    DIALECT,
    add_rest,
    mark_and_rest,
    own_fields,
)

__all__ = [
    "MCPParts",
    "kind_of",
    "mcp_server_to_wire",
    "mcp_servers_from_wire",
    "mcp_toolset_from_wire",
    "server_tool_from_wire",
    "server_tool_to_wire",
]

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
    data = rest_of(value, _MARK) or {}
    mark, extra = mark_and_rest(value, data.keys())
    return ServerTool(
        kind_of(kind),
        DIALECT,
        data,
        texts_in(value, "allowed_domains"),
        texts_in(value, "blocked_domains"),
        integer_in(value, "max_uses"),
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
    for path, value in objects_in(body, "mcp_servers"):
        try:
            server = _server_from_wire(value)
        except DecodeError as exc:
            raise within(exc, path) from None
        if server.name in servers:
            raise DecodeError("name of another server, expected one of its own", path=path)
        servers[server.name] = server
    return servers


def _server_from_wire(value: dict[str, Any]) -> MCPServer:
    rest = rest_of(value, _SERVER) or {}
    allowed = None
    # Before there were toolsets, a server had the names of its tools.
    configuration = object_of(value, "tool_configuration")
    if configuration is not None and _is_filter(configuration):
        del rest["tool_configuration"]
        try:
            allowed = texts_in(configuration, "allowed_tools")
        except DecodeError as exc:
            raise within(exc, "$.tool_configuration") from None
    server = MCPServer(
        required_text(value, "name"),
        text_in(value, "url"),
        text_in(value, "authorization_token"),
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
    name = required_text(value, "mcp_server_name")
    entry = servers.pop(name, None)
    mark, extra = mark_and_rest(value, _TOOLSET)
    rest = own_fields(extra)
    allowed = _enabled_tools(rest)
    if allowed is not None:
        rest = rest_of(rest, _FILTER) or {}
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
