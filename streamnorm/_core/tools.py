"""The tools that a request offers, and which of them the model may call."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from msgspec import Struct

from streamnorm._core.blocks import CacheMark
from streamnorm._core.json import clean, is_object
from streamnorm._core.mcp import MCP, mcp_object, mcp_struct, unmapped_fields

_SEPARATOR = "__"


class Namespace(Struct, frozen=True, omit_defaults=True):
    """A named group of tools, as the Responses API has them.

    Attributes:
        name: Name, in front of those of its tools.
        description: What the tools have in common.
    """

    name: str
    description: str = ""


class _Tool(Struct, frozen=True, omit_defaults=True, kw_only=True, tag_field="type"):
    """Base of all tools.

    Attributes:
        cache: Mark after this tool.
        extra: Fields that have no place in the tool, by dialect.
        source: What the tool was decoded from.
    """

    cache: CacheMark | None = None
    extra: dict[str, dict[str, Any]] | None = None
    source: Any = None


class Tool(_Tool, frozen=True, tag="function"):
    """A function that the client executes.

    Attributes:
        name: Name, unique within a request and its namespace.
        description: What the function does, for the model.
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
        """Return a tool of an MCP server.

        Its title, its annotations and other fields without a place are in `extra["mcp"]`.

        Args:
            value: A tool of `tools/list`: a dict, or the object of the `mcp` package.

        Raises:
            DecodeError: It is no tool of MCP.
        """
        fields = mcp_object(value)
        tool = mcp_struct(fields, _MCPTool)
        description = None if tool.description is None else clean(tool.description)
        extra = unmapped_fields(fields, _MCPTool)
        return cls(clean(tool.name), description, tool.inputSchema, extra=extra)

    def to_mcp(self) -> dict[str, Any]:
        """Return the tool as an MCP server lists it.

        MCP has no namespaces: the name of one stands before the tool's name and `__`.  It has
        no fields for `strict`, `deferred`, `cache` and the fields of other dialects, either.
        """
        value: dict[str, Any] = {"name": qualified_name(self.name, self.namespace)}
        if self.description is not None:
            value["description"] = self.description
        value["inputSchema"] = {"type": "object", **(self.input_schema or {})}
        return {**value, **(self.extra or {}).get(MCP, {})}


class _MCPTool(Struct):
    name: str
    inputSchema: dict[str, Any]  # noqa: N815 - the protocol's
    description: str | None = None


def qualified_name(name: str, namespace: Namespace | str | None) -> str:
    """Return a tool's name where there are no namespaces."""
    if namespace is None:
        return name
    group = namespace if isinstance(namespace, str) else namespace.name
    return f"{group}{_SEPARATOR}{name}"


class Grammar(Struct, frozen=True):
    """The form of a custom tool's input.

    Attributes:
        syntax: `lark` or `regex`.
        definition: The grammar.
    """

    syntax: str
    definition: str


class CustomTool(_Tool, frozen=True, tag="custom"):
    """A tool that takes free text.

    Attributes:
        name: Name, unique within a request and its namespace.
        description: What the tool does, for the model.
        grammar: What the text must match; None for any text.
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
        kind: What it does, in one word for all vendors: `web_search`, `web_fetch`,
            `code_execution`, `file_search`, `image_generation`, `computer`, `tool_search`,
            `google_maps`; the vendor's own word for any other.
        dialect: Dialect that it was written in.
        data: The vendor's whole object.
        allowed_domains: Only hosts to search or fetch; None = any.
        blocked_domains: Hosts not to search or fetch.
        max_uses: Number of calls that are allowed; None = no limit.
        user_location: Approximate location of the user of a search, by `city`, `country`,
            `region` and `timezone`; None = the vendor's default.
        search_context_size: How much of what a search found the model reads: `low`, `medium`
            or `high`; None = the vendor's default.
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
    """Return the fields of an approximate location; None for a value of another form.

    Args:
        value: An object that may have a `type`, as Anthropic and OpenAI's Responses have it.
    """
    if not is_object(value) or value.get("type", "approximate") != "approximate":
        return None
    fields = {name: item for name, item in value.items() if name != "type" and item is not None}
    is_known = fields.keys() <= _LOCATION
    return fields if is_known and all(isinstance(item, str) for item in fields.values()) else None


class MCPServer(_Tool, frozen=True, tag="mcp"):
    """A remote server of the Model Context Protocol whose tools the provider calls.

    Attributes:
        name: Name, unique within a request.
        url: Where it is; None where a connector of the vendor stands for it.
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
    """Which tools the model may or must call.

    Attributes:
        mode: `auto`: it may; `required`: at least one; `none`: it may not; `named`: the one
            of `names`.
        names: The allowed tools; empty = all, unless there are `server_kinds`.
        kind: What is named, where it is no function: `custom`, or a kind of server tool.
        server_kinds: Kinds of the allowed server tools, beside `names`.
    """

    mode: Literal["auto", "required", "none", "named"]
    names: tuple[str, ...] = ()
    kind: str = "function"
    server_kinds: tuple[str, ...] = ()
