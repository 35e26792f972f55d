"""Tools of a request, and the choice among them."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from msgspec import Struct

from streamnorm._core.blocks import CacheMark
from streamnorm._core.json import clean, is_object
from streamnorm._core.mcp import MCP, mcp_object, mcp_struct, unmapped_fields

_SEPARATOR = "__"


class Namespace(Struct, frozen=True, omit_defaults=True):
    """A named group of tools in the Responses API.

    Attributes:
        name: Name, which precedes the names of its tools.
        description: Purpose of the group, for the model.
    """

    name: str
    description: str = ""


class _Tool(Struct, frozen=True, omit_defaults=True, kw_only=True, tag_field="type"):
    """Base of all tools.

    Attributes:
        cache: Cache mark after this tool.
        extra: Other fields, by dialect.
        source: The `Source` of the tool; None if it was not decoded.
    """

    cache: CacheMark | None = None
    extra: dict[str, dict[str, Any]] | None = None
    source: Any = None


class Tool(_Tool, frozen=True, tag="function"):
    """A function that the client executes.

    Attributes:
        name: Name, unique within a request and its namespace.
        description: Purpose of the function, for the model.
        input_schema: JSON Schema of the arguments; None if the vendor's tool type implies it.
        strict: Whether arguments must follow the schema; None = not said.
        deferred: Whether the model finds the tool by a search and does not see it before.
        namespace: Group that the tool belongs to.
        vendor_type: The vendor's type of a tool whose schema only that vendor knows, such as
            `bash_20250124`; None for a function of the client's own.
    """

    name: str
    description: str | None = None
    input_schema: dict[str, Any] | None = None
    strict: bool | None = None
    deferred: bool = False
    namespace: Namespace | None = None
    vendor_type: str | None = None

    @classmethod
    def from_mcp(cls, value: object) -> Tool:
        """Return a tool from an MCP server's definition.

        The title, annotations and other MCP fields are in `extra["mcp"]`.

        Args:
            value: A tool of `tools/list`: a dictionary, or the object of the `mcp` package.

        Raises:
            DecodeError: The value is no tool of MCP.
        """
        fields = mcp_object(value)
        tool = mcp_struct(fields, _MCPTool)
        description = None if tool.description is None else clean(tool.description)
        extra = unmapped_fields(fields, _MCPTool)
        return cls(clean(tool.name), description, tool.inputSchema, extra=extra)

    def to_mcp(self) -> dict[str, Any]:
        """Return the tool as an MCP tool definition.

        MCP has no namespaces: the name of the namespace and `__` precede the tool's name.  MCP
        has no fields for `strict`, `deferred`, `cache` and the fields of other dialects.
        """
        value: dict[str, Any] = {"name": qualified_name(self.name, self.namespace)}
        if self.description is not None:
            value["description"] = self.description
        # MCP requires an object at the root (specification of 2026-07-28, `Tool`).
        value["inputSchema"] = {"type": "object", **(self.input_schema or {})}
        return {**value, **(self.extra or {}).get(MCP, {})}


class _MCPTool(Struct):
    name: str
    inputSchema: dict[str, Any]  # noqa: N815 - the protocol's
    description: str | None = None


def qualified_name(name: str, namespace: Namespace | str | None) -> str:
    """Return a tool's name for targets without namespaces: `namespace__name`."""
    if namespace is None:
        return name
    group = namespace if isinstance(namespace, str) else namespace.name
    return f"{group}{_SEPARATOR}{name}"


class Grammar(Struct, frozen=True):
    """The grammar of a custom tool's input.

    Attributes:
        syntax: `lark` or `regex`.
        definition: The grammar.
    """

    syntax: str
    definition: str


class CustomTool(_Tool, frozen=True, tag="custom"):
    """A tool whose input is free text.

    Attributes:
        name: Name, unique within a request and its namespace.
        description: Purpose of the tool, for the model.
        grammar: Grammar that the text must match; None for any text.
        deferred: Whether the model finds the tool by a search and does not see it before.
        namespace: Group that the tool belongs to.
    """

    name: str
    description: str | None = None
    grammar: Grammar | None = None
    deferred: bool = False
    namespace: Namespace | None = None


class ServerTool(_Tool, frozen=True, tag="server"):
    """A tool that the provider executes itself.

    Attributes:
        kind: Kind of the tool, the same for all vendors: `web_search`, `web_fetch`,
            `code_execution`, `file_search`, `image_generation`, `computer`, `tool_search`,
            `google_maps`; for other tools the vendor's type.
        dialect: Dialect that the tool was decoded from.
        data: The vendor's whole object.
        allowed_domains: The only hosts to search or fetch; None = any.
        blocked_domains: Hosts not to search or fetch.
        max_uses: Bound on the number of calls; None = no bound.
        user_location: Approximate location of the user, by `city`, `country`, `region` and
            `timezone`; None = the vendor's default.
        search_context_size: Amount of search results that the model reads: `low`, `medium` or
            `high`; None = the vendor's default.
    """

    kind: str
    dialect: str
    data: dict[str, Any] = {}
    allowed_domains: tuple[str, ...] | None = None
    blocked_domains: tuple[str, ...] | None = None
    max_uses: int | None = None
    user_location: dict[str, str] | None = None
    search_context_size: str | None = None


_LOCATION = frozenset({"city", "country", "region", "timezone"})


def location_of(value: object) -> dict[str, str] | None:
    """Return the fields of an approximate location; None if the value is no approximate location.

    Args:
        value: A location; Anthropic's and OpenAI's have `"type": "approximate"`.
    """
    # The only type that the vendors define; another would mean something else.
    if not is_object(value) or value.get("type", "approximate") != "approximate":
        return None
    fields = {name: item for name, item in value.items() if name != "type" and item is not None}
    is_known = fields.keys() <= _LOCATION
    return fields if is_known and all(isinstance(item, str) for item in fields.values()) else None


class MCPServer(_Tool, frozen=True, tag="mcp"):
    """A remote MCP server whose tools the provider calls.

    Attributes:
        name: Name, unique within a request.
        url: URL of the server; None if the vendor has a connector in its place.
        authorization: Bearer token; None = none.
        headers: Other request headers.
        allowed_tools: Names of the tools to offer; None = all.
        require_approval: `never` or `always`; None = the vendor's default.
    """

    name: str
    url: str | None = None
    authorization: str | None = None
    headers: dict[str, str] = {}
    allowed_tools: tuple[str, ...] | None = None
    require_approval: str | None = None


AnyTool: TypeAlias = Tool | CustomTool | ServerTool | MCPServer


class ToolChoice(Struct, frozen=True, omit_defaults=True):
    """The tools that the model may or must call.

    Attributes:
        mode: `auto`: the model decides; `required`: at least one call; `none`: no call; `named`:
            the tool in `names`.
        names: Names of the allowed tools; () = all, unless there are `server_kinds`.
        kind: Kind of the named tool: `function`, `custom`, or a kind of server tool.
        server_kinds: Kinds of server tools that are allowed in addition to `names`.
    """

    mode: Literal["auto", "required", "none", "named"]
    names: tuple[str, ...] = ()
    kind: str = "function"
    server_kinds: tuple[str, ...] = ()
