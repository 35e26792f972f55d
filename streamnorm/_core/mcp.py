"""Model Context Protocol (MCP) objects as bounded, decoded JSON.

Fields are those of versions 2025-11-25 and 2026-07-28, as the models of `mcp` 2.3 have them.
The package is not imported: its models are recognised by the method `model_dump`.
"""

from __future__ import annotations

from typing import Any, TypeVar

from msgspec import Struct

from streamnorm._core.errors import DecodeError
from streamnorm._core.json import InvalidJSON, convert, is_object, too_deep
from streamnorm._core.limits import Limits
from streamnorm._core.shapes import found

T = TypeVar("T")

MCP = "mcp"
"""The key of MCP's fields in `extra`, and the dialect of blocks that only MCP knows."""


def mcp_object(value: object) -> dict[str, Any]:
    """Return an MCP object as decoded JSON.

    Args:
        value: A dictionary, or a model of the `mcp` package.

    Raises:
        DecodeError: The value is no JSON object, or nests too deep.
    """
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        value = dump(mode="json", by_alias=True)
    if not is_object(value):
        raise DecodeError(f"{found(value)}, expected an object of MCP")
    limit = Limits().max_json_depth
    if too_deep(value, limit):
        raise DecodeError(f"nested deeper than {limit}, expected at most that")
    return value


def mcp_struct(value: Any, type: type[T], path: str = "$") -> T:
    """Convert part of an MCP object to a struct.

    Raises:
        DecodeError: A field is missing, or has another type than the protocol's.
    """
    try:
        return convert(value, type)
    except InvalidJSON as exc:
        problem, _, at = str(exc).partition(" - at `$")
        raise DecodeError(problem, path=path + at.removesuffix("`")) from None


def unmapped_fields(value: dict[str, Any], type: type) -> dict[str, dict[str, Any]] | None:
    """Return an object's fields that a struct lacks, except nulls, in the form of `extra`."""
    mapped: tuple[str, ...] = getattr(type, "__struct_fields__", ())
    rest = {name: item for name, item in value.items() if item is not None and name not in mapped}
    return {MCP: rest} if rest else None


class CallToolResult(Struct):
    """The result of a tool call."""

    content: list[dict[str, Any]]
    isError: bool | None = None  # noqa: N815 - the protocol's
    structuredContent: Any = None  # noqa: N815 - the protocol's
    resultType: str | None = None  # noqa: N815 - the protocol's


class RPCError(Struct):
    """The error of a JSON-RPC response."""

    code: int
    message: str


class TextContent(Struct):
    """Text in a tool result."""

    type: str
    text: str


class MediaContent(Struct):
    """An image or audio in a tool result."""

    type: str
    data: str
    mimeType: str  # noqa: N815 - the protocol's


class ResourceContents(Struct):
    """A resource's content, as text or as Base64."""

    uri: str
    mimeType: str | None = None  # noqa: N815 - the protocol's
    text: str | None = None
    blob: str | None = None


class EmbeddedResource(Struct):
    """A resource in a tool result, with its content."""

    type: str
    resource: dict[str, Any]


class ResourceLink(Struct):
    """The URI of a resource in a tool result."""

    type: str
    uri: str
    name: str
    title: str | None = None
    description: str | None = None
