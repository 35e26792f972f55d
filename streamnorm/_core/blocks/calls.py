"""Blocks of tool calls and their results, and results in the form of MCP."""

from __future__ import annotations

import re
from typing import Any, Literal
from urllib.parse import quote

from msgspec import Struct

from streamnorm._core.blocks.content import (
    Audio,
    BaseBlock,
    Document,
    Image,
    OpaqueBlock,
    ResultBlock,
    Text,
    Video,
)
from streamnorm._core.errors import ArgumentsError, DecodeError, EncodeError, UpstreamError
from streamnorm._core.json import clean, compact, is_object, json_value, object_in
from streamnorm._core.mcp import MCP, mcp_object, mcp_struct, unmapped_fields
from streamnorm.partial_json import decode_arguments

_LINK = "resource_link"
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")
_TEXT, _BYTES = "text/plain", "application/octet-stream"


class ToolCall(BaseBlock, frozen=True, tag="tool_call"):
    """A call that the client is asked to execute.

    Attributes:
        id: The provider's id, or a minted one where it sent none.
        name: Name of the tool.
        arguments: JSON text (`function`) or free text (`custom`), byte for byte as sent.
        kind: Form of the arguments.
        signature: Opaque value that must come back with the call, byte for byte.
        issuer: Vendor that can verify the signature.
        namespace: Namespace of the tool; None if it has none.
        is_unfinished: Whether free text ended before it was complete; incomplete JSON text shows
            that itself.
    """

    id: str
    name: str
    arguments: str = ""
    kind: Literal["function", "custom"] = "function"
    signature: str | None = None
    issuer: str | None = None
    namespace: str | None = None
    is_unfinished: bool = False

    def input(self) -> dict[str, object]:
        """Decode the arguments, a JSON object; each call decodes anew.

        No text, or only white space, is the empty object.  A lone surrogate becomes U+FFFD, and
        of two members with one key the later wins.

        Raises:
            ArgumentsError: The arguments are no JSON object, or nest deeper than the default
                `max_json_depth`; or the call is a custom call.
        """
        if self.kind == "custom":
            raise ArgumentsError("custom call with free text, expected JSON", position=0)
        return decode_arguments(self.arguments)


class ServerToolCall(BaseBlock, frozen=True, tag="server_tool_call"):
    """A call that the provider executes itself; clients must not execute it.

    Attributes:
        id: The provider's id.
        name: Name of the provider's tool.
        arguments: JSON text as sent.
        kind: The vendor's type of the call, such as `mcp_tool_use`.
    """

    id: str
    name: str
    arguments: str = ""
    kind: str = ""

    def input(self) -> dict[str, object]:
        """Decode the arguments, as `ToolCall.input` does.

        Raises:
            ArgumentsError: The arguments are no JSON object, or nest deeper than the default
                `max_json_depth`.
        """
        return decode_arguments(self.arguments)


class ServerToolResult(BaseBlock, frozen=True, tag="server_tool_result"):
    """Result of a tool call that the provider executed.

    Attributes:
        tool_call_id: Id of the `ServerToolCall`.
        kind: The vendor's type of the result.
        content: The vendor's JSON value.
    """

    tool_call_id: str
    kind: str
    content: Any = None


class ToolResult(BaseBlock, frozen=True, tag="tool_result"):
    """Result of a `ToolCall` that the client executed.

    Attributes:
        tool_call_id: Id of the call.
        content: Text, images and other files.
        is_error: Whether the execution failed.
        name: Name of the tool; "" if the result names only the id of its call.
        value: JSON text of a result that is a JSON object; `content` has it as text.
    """

    tool_call_id: str
    content: tuple[ResultBlock, ...] = ()
    is_error: bool = False
    name: str = ""
    value: str | None = None

    @classmethod
    def from_mcp(cls, value: object, tool_call_id: str = "", name: str = "") -> ToolResult:
        """Return the result of a tool of an MCP server.

        An object in `structuredContent` becomes `value` if the text is its JSON, or if there is
        no text.  Any other text is what the server wants the model to read; the object is then
        in `extra["mcp"]`, with the other fields of MCP.

        Args:
            value: A `CallToolResult`: a dictionary, or the object of the `mcp` package.
            tool_call_id: Id of the call; `run_tools` sets it.
            name: Name of the tool.

        Raises:
            UpstreamError: The value is a JSON-RPC response with a protocol error.
            DecodeError: The value is no result of MCP.
        """
        fields = mcp_object(value)
        if "content" not in fields and is_object(fields.get("error")):
            error = mcp_struct(fields["error"], _MCPError, "$.error")
            raise UpstreamError(clean(error.message), code=str(error.code))
        result = mcp_struct(fields, _MCPResult)
        if result.resultType not in (None, "complete"):
            raise DecodeError("no complete result, expected one", path="$.resultType")
        content = tuple(
            [content_from_mcp(item, f"$.content[{at}]") for at, item in enumerate(result.content)]
        )
        is_error, structured = bool(result.isError), result.structuredContent
        extra, original = unmapped_fields(fields, _MCPResult), None
        if structured is not None:
            text = compact(structured)
            texts = [block.text for block in content if isinstance(block, Text)]
            if not texts:
                content, texts = (Text(text), *content), [text]
            is_same = len(texts) == 1 and _is_json_of(texts[0], structured)
            if is_same and is_object(structured) and not is_error:
                original = text
            else:
                extra = {MCP: {**(extra or {}).get(MCP, {}), _STRUCTURED: structured}}
        return cls(tool_call_id, content, is_error, name, original, extra=extra)

    def to_mcp(self) -> dict[str, Any]:
        """Return the result as an MCP server sends it: a `CallToolResult`.

        Raises:
            EncodeError: MCP has no form for a block of the content, or the value is no JSON.
        """
        content = [content_to_mcp(block, index) for index, block in enumerate(self.content)]
        value: dict[str, Any] = {"content": content, "isError": self.is_error}
        if self.value is not None:
            value[_STRUCTURED] = json_value(self.value, "value")
        return {**value, **(self.extra or {}).get(MCP, {})}


_STRUCTURED = "structuredContent"


class _MCPResult(Struct):
    content: list[dict[str, Any]]
    isError: bool | None = None  # noqa: N815 - the protocol's
    structuredContent: Any = None  # noqa: N815 - the protocol's
    resultType: str | None = None  # noqa: N815 - the protocol's


class _MCPError(Struct):
    code: int
    message: str


def _is_json_of(text: str, value: object) -> bool:
    return is_object(value) and object_in(text) == value


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
