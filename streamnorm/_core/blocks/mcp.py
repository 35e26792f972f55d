"""Conversion of tool result content to and from the Model Context Protocol (MCP)."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import quote

from msgspec import Struct

from streamnorm._core.blocks.content import (
    Audio,
    Document,
    Image,
    OpaqueBlock,
    ResultBlock,
    Text,
    Video,
)
from streamnorm._core.errors import DecodeError, EncodeError
from streamnorm._core.json import clean, compact, json_value
from streamnorm._core.mcp import MCP, mcp_struct, unmapped_fields

_LINK = "resource_link"
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")
_TEXT, _BYTES = "text/plain", "application/octet-stream"


class _Text(Struct):
    type: str
    text: str


class _Media(Struct):
    type: str
    data: str
    mimeType: str  # noqa: N815 - the protocol's


class _Resource(Struct):
    uri: str
    mimeType: str | None = None  # noqa: N815 - the protocol's
    text: str | None = None
    blob: str | None = None


class _Embedded(Struct):
    type: str
    resource: dict[str, Any]


class _Link(Struct):
    type: str
    uri: str
    name: str
    title: str | None = None
    description: str | None = None


_OF_OTHERS = {
    "image": frozenset({"uri", "resource"}),
    "audio": frozenset({"uri", "resource"}),
    "resource": frozenset({"uri", "mimeType"}),
}
"""Fields that `content_to_mcp` would take for another type of block, by the type of a block."""


def content_from_mcp(value: dict[str, Any], path: str) -> ResultBlock:
    """Return a content block of MCP as a unified block.

    A resource becomes a file or a text document.  A link becomes text: the model cannot follow
    it.  A block with fields of another type of block becomes an `OpaqueBlock`.

    Args:
        value: The block.
        path: Path of the block, for errors.

    Raises:
        DecodeError: A field is missing, or has another type than the protocol's.
    """
    match value.get("type"):
        case str(kind) if value.keys() & _OF_OTHERS.get(kind, frozenset()):
            return OpaqueBlock(MCP, kind, compact(value))
        case "text":
            text = mcp_struct(value, _Text, path)
            return Text(clean(text.text), extra=unmapped_fields(value, _Text))
        case "image":
            image = mcp_struct(value, _Media, path)
            return Image(image.mimeType, image.data, extra=unmapped_fields(value, _Media))
        case "audio":
            audio = mcp_struct(value, _Media, path)
            return Audio(audio.mimeType, audio.data, extra=unmapped_fields(value, _Media))
        case "resource":
            return _resource_from_mcp(value, path)
        case "resource_link":
            link = mcp_struct(value, _Link, path)
            lines = [f"{link.title or link.name}: {link.uri}", link.description or ""]
            return Text(clean("\n".join(filter(None, lines))), extra={MCP: {_LINK: value}})
        case str(kind):
            return OpaqueBlock(MCP, clean(kind), compact(value))
        case _:
            raise DecodeError("no type, expected a string", path=f"{path}.type")


def _resource_from_mcp(value: dict[str, Any], path: str) -> ResultBlock:
    inner = mcp_struct(value, _Embedded, path).resource
    resource = mcp_struct(inner, _Resource, f"{path}.resource")
    uri, kind = clean(resource.uri), resource.mimeType
    rest = (unmapped_fields(value, _Embedded) or {}).get(MCP, {})
    if unmapped := unmapped_fields(inner, _Resource):
        rest["resource"] = unmapped[MCP]
    if resource.text is not None:
        media_type = kind if kind is not None and kind.startswith("text/") else _TEXT
        if kind not in (None, media_type):  # only documents of text types have text as data
            rest["mimeType"] = kind
        return Document(media_type, clean(resource.text), title=uri, extra=_extra(rest))
    if resource.blob is None:
        raise DecodeError("neither text nor blob, expected one", path=f"{path}.resource")
    family = (kind or "").partition("/")[0]
    if family not in _FILES:
        return Document(kind or _BYTES, resource.blob, title=uri, extra=_extra(rest))
    return _FILES[family](kind, resource.blob, extra=_extra({**rest, "uri": uri}))


_FILES: dict[str, type[Image | Audio | Video]] = {"image": Image, "audio": Audio, "video": Video}


def _extra(fields: dict[str, Any]) -> dict[str, dict[str, Any]] | None:
    return {MCP: fields} if fields else None


def content_to_mcp(block: ResultBlock, index: int) -> dict[str, Any]:
    """Return a block of a tool result as a content block of MCP.

    A file with a URL becomes a link.  A document becomes a resource, whose URI is its title or is
    made from it.

    Args:
        block: The block.
        index: Position of the block in the result.

    Raises:
        EncodeError: Only a provider has the file or knows the block, or its data is no JSON.
    """
    path = f"content[{index}]"
    rest: dict[str, Any] = (block.extra or {}).get(MCP, {})
    match block:
        case Text(text):
            link: dict[str, Any] = rest.get(_LINK, {"type": "text", "text": text, **rest})
            return link
        case OpaqueBlock("mcp", _, data):
            opaque: dict[str, Any] = json_value(data, "data", path)
            return opaque
        case OpaqueBlock(dialect):
            raise EncodeError(f"block of dialect {dialect}, expected content of MCP", path=path)
        case Document(media_type, data, title=title) if data is not None:
            return _resource_to_mcp(media_type, data, _uri(title, index), rest)
        case Video(media_type, data) if data is not None:
            return _resource_to_mcp(media_type, data, rest.get("uri", _uri(None, index)), rest)
        case Image(media_type, data) | Audio(media_type, data) if data is not None:
            if "uri" in rest:
                return _resource_to_mcp(media_type, data, rest["uri"], rest)
            kind = "image" if isinstance(block, Image) else "audio"
            if media_type is None:
                raise EncodeError(f"{kind} without a media type, expected one", path=path)
            return {"type": kind, "data": data, "mimeType": media_type, **rest}
        case _ if block.url is not None:
            title = block.title if isinstance(block, Document) else None
            link = {"type": _LINK, "uri": block.url, "name": title or block.url}
            return link if block.media_type is None else {**link, "mimeType": block.media_type}
        case _:
            raise EncodeError("file of a provider, expected its content or address", path=path)


def _resource_to_mcp(
    media_type: str | None, data: str, uri: str, rest: dict[str, Any]
) -> dict[str, Any]:
    is_text = media_type is None or media_type.startswith("text/")
    inner: dict[str, Any] = {
        "uri": uri,
        "mimeType": rest.get("mimeType", media_type or _TEXT),
        "text" if is_text else "blob": data,
        **rest.get("resource", {}),
    }
    others = {name: item for name, item in rest.items() if name not in _OF_RESOURCES}
    return {"type": "resource", "resource": inner, **others}


_OF_RESOURCES = frozenset({"uri", "mimeType", "resource"})


def _uri(title: str | None, index: int) -> str:
    if title is None:
        return f"file:///content-{index}"
    return title if _URI.match(title) else f"file:///{quote(title)}"
