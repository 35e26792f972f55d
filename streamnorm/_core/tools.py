"""The tools that a request offers, and which of them the model may call."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from msgspec import Struct

from streamnorm._core.blocks import CacheMark

__all__ = [
    "AnyTool",
    "CustomTool",
    "Grammar",
    "MCPServer",
    "Namespace",
    "ServerTool",
    "Tool",
    "ToolChoice",
]


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
    """

    kind: str
    dialect: str
    data: dict[str, Any] = {}
    allowed_domains: tuple[str, ...] | None = None
    blocked_domains: tuple[str, ...] | None = None
    max_uses: int | None = None


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
        names: The allowed tools; empty = all.
        kind: What is named, where it is no function: `custom`, or a kind of server tool.
    """

    mode: Literal["auto", "required", "none", "named"]
    names: tuple[str, ...] = ()
    kind: str = "function"
