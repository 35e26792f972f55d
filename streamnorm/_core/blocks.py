"""The blocks of a message, and the citations within them.

A `Message` has complete blocks.  In a stream, the `BlockStart` of `Text`, `Reasoning`, `Refusal`,
`ToolCall` and `ServerToolCall` has an empty block, which deltas fill; every other block is
complete at its start.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import Any, Literal, TypeAlias
from urllib.parse import quote

from msgspec import Struct

from streamnorm._core.errors import ArgumentsError, DecodeError, EncodeError, UpstreamError
from streamnorm._core.json import clean, compact, is_object, json_value, name_numbers, object_in
from streamnorm._core.mcp import (
    MCP,
    CallToolResult,
    EmbeddedResource,
    MediaContent,
    ResourceContents,
    ResourceLink,
    RPCError,
    TextContent,
    mcp_object,
    mcp_struct,
    unmapped_fields,
)
from streamnorm.partial_json import decode_arguments

__all__ = [
    "Audio",
    "Block",
    "CacheMark",
    "Citation",
    "Document",
    "Image",
    "InputBlock",
    "OpaqueBlock",
    "Reasoning",
    "RedactedReasoning",
    "Refusal",
    "ResultBlock",
    "ServerToolCall",
    "ServerToolResult",
    "Text",
    "ToolCall",
    "ToolResult",
    "Video",
    "file_block",
]


class Citation(Struct, frozen=True, omit_defaults=True):
    """A source that a text block names.

    Attributes:
        kind: The vendor's type of the citation, such as `url_citation`.
        url: URL of the source.
        title: Title of the source.
        cited_text: Quoted text of the source.
        start: Index of the first cited character of the block; None = the whole block.
        end: Index after the last cited character.
        extra: Other fields of the vendor.
    """

    kind: str
    url: str | None = None
    title: str | None = None
    cited_text: str | None = None
    start: int | None = None
    end: int | None = None
    extra: dict[str, Any] | None = None


class CacheMark(Struct, frozen=True, omit_defaults=True):
    """The end of a request prefix that the provider is asked to cache.

    Attributes:
        ttl: Lifetime, such as `5m` or `1h`; None = the vendor's default.
    """

    ttl: str | None = None


class BaseBlock(Struct, frozen=True, omit_defaults=True, kw_only=True, tag_field="type"):
    """Base of all blocks, which are immutable and have a `type` in JSON.

    Attributes:
        cache: Cache mark after this block, in a request.
        extra: Other fields of a request, by dialect.
    """

    cache: CacheMark | None = None
    extra: dict[str, dict[str, Any]] | None = None


class Text(BaseBlock, frozen=True, tag="text"):
    """Text for the user.

    Attributes:
        text: The text.
        citations: Citations, in the order of arrival.
        signature: Opaque proof of the block's origin, byte for byte.
        issuer: Vendor that can verify the signature.
    """

    text: str = ""
    citations: tuple[Citation, ...] = ()
    signature: str | None = None
    issuer: str | None = None


class Reasoning(BaseBlock, frozen=True, tag="reasoning"):
    """Reasoning of the model, or a summary of its reasoning; never text for the user.

    Attributes:
        parts: Summaries, in order; one part for vendors without parts.
        signature: Opaque proof of the block's origin, byte for byte.
        issuer: Vendor that can verify the signature.
        id: Id of the item under which the issuer accepts the signature; None = any, or
            unknown.
    """

    parts: tuple[str, ...] = ()
    signature: str | None = None
    issuer: str | None = None
    id: str | None = None

    @property
    def text(self) -> str:
        """All parts of the reasoning, separated by blank lines."""
        return "\n\n".join(self.parts)


class RedactedReasoning(BaseBlock, frozen=True, tag="redacted_reasoning"):
    """Reasoning that only its issuer can read.

    Attributes:
        data: The opaque value, byte for byte.
        issuer: Vendor that can read it.
        id: Id of the item under which the issuer accepts it; None = any, or unknown.
    """

    data: str
    issuer: str | None = None
    id: str | None = None


class Refusal(BaseBlock, frozen=True, tag="refusal"):
    """The text with which the model declines to answer."""

    text: str = ""


class Image(BaseBlock, frozen=True, tag="image"):
    """An image.

    Attributes:
        media_type: Media type, such as `image/png`; None if only the URL is known.
        data: Content in Base64.
        url: URL of the image, if `data` is None.
        file_id: Id of an uploaded file, if both are None.
        detail: Resolution for the model: `low`, `high`, `original` or `auto`.
        signature: Opaque proof of the image's origin, byte for byte.
        issuer: Vendor that has the uploaded file, or can verify the signature.
    """

    media_type: str | None = None
    data: str | None = None
    url: str | None = None
    file_id: str | None = None
    detail: str | None = None
    signature: str | None = None
    issuer: str | None = None


class Document(BaseBlock, frozen=True, tag="document"):
    """A document.

    Attributes:
        media_type: Media type, such as `application/pdf`; None if only the URL is known.
        data: Content in Base64, or the text itself if `media_type` is a text type.
        url: URL of the document, if `data` is None.
        title: Title; the file name for vendors that have one.
        file_id: Id of an uploaded file, if `data` and `url` are None.
        issuer: Vendor that has the uploaded file.
    """

    media_type: str | None = None
    data: str | None = None
    url: str | None = None
    title: str | None = None
    file_id: str | None = None
    issuer: str | None = None


class Audio(BaseBlock, frozen=True, tag="audio"):
    """Audio, in a request.

    Attributes:
        media_type: Media type, such as `audio/wav`; None if only the URL is known.
        data: Content in Base64.
        url: URL of the audio, if `data` is None.
    """

    media_type: str | None = None
    data: str | None = None
    url: str | None = None


class Video(BaseBlock, frozen=True, tag="video"):
    """A video, in a request.

    Attributes:
        media_type: Media type, such as `video/mp4`; None if only the URL is known.
        data: Content in Base64.
        url: URL of the video, if `data` is None.
    """

    media_type: str | None = None
    data: str | None = None
    url: str | None = None


class OpaqueBlock(BaseBlock, frozen=True, tag="opaque"):
    """A block of a type that only one dialect has.

    Attributes:
        dialect: Name of the dialect.
        kind: Type of the block in the dialect.
        data: The whole block as JSON text.
    """

    dialect: str
    kind: str
    data: str


ResultBlock: TypeAlias = Text | Image | Document | Audio | Video | OpaqueBlock
"""A block of a tool's result."""


def file_block(media_type: str, data: str | None, url: str | None) -> Image | Document | None:
    """Return an image or document block for a file; None if no block fits the file.

    Args:
        media_type: Media type.
        data: Content in Base64.
        url: URL of the content.
    """
    if (data is None) is (url is None):
        return None
    if media_type.startswith("image/"):
        return Image(media_type, data, url)
    if media_type.startswith("application/"):
        return Document(media_type, data, url)
    if not media_type.startswith("text/"):
        return None
    try:
        text = None if data is None else base64.b64decode(data, validate=True).decode()
    except (binascii.Error, ValueError):
        return None
    return Document(media_type, text, url)


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
        """Decode the arguments to a new dictionary.

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
        """Decode the arguments to a new dictionary, as `ToolCall.input` does.

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
        is_error: Whether the execution failed.
    """

    tool_call_id: str
    kind: str
    content: Any = None
    is_error: bool = False


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
        """Create a tool result from an MCP server's `CallToolResult`.

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
            error = mcp_struct(fields["error"], RPCError, "$.error")
            raise UpstreamError(clean(error.message), code=str(error.code))
        result = mcp_struct(fields, CallToolResult)
        if result.resultType not in (None, "complete"):
            raise DecodeError("no complete result, expected one", path="$.resultType")
        content = tuple(
            [content_from_mcp(item, f"$.content[{at}]") for at, item in enumerate(result.content)]
        )
        # A server in the same process may return numbers that JSON lacks.
        is_error, structured = bool(result.isError), name_numbers(result.structuredContent)
        extra, original = unmapped_fields(fields, CallToolResult), None
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
        """Return the result as an MCP `CallToolResult`.

        Raises:
            EncodeError: MCP has no form for a block of the content, or the value is no JSON.
        """
        content = [content_to_mcp(block, index) for index, block in enumerate(self.content)]
        value: dict[str, Any] = {"content": content, "isError": self.is_error}
        if self.value is not None:
            value[_STRUCTURED] = json_value(self.value, "value")
        return {**value, **(self.extra or {}).get(MCP, {})}


_STRUCTURED = "structuredContent"


def _is_json_of(text: str, value: object) -> bool:
    return is_object(value) and object_in(text) == value


_OF_OTHERS = {
    "image": frozenset({"uri", "resource"}),
    "audio": frozenset({"uri", "resource"}),
    "resource": frozenset({"uri", "mimeType"}),
}
"""Fields that `content_to_mcp` would take for another type of block, by the type of a block."""


def content_from_mcp(value: dict[str, Any], path: str) -> ResultBlock:
    """Return an MCP content block as a unified block.

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
            text = mcp_struct(value, TextContent, path)
            return Text(clean(text.text), extra=unmapped_fields(value, TextContent))
        case "image":
            image = mcp_struct(value, MediaContent, path)
            return Image(image.mimeType, image.data, extra=unmapped_fields(value, MediaContent))
        case "audio":
            audio = mcp_struct(value, MediaContent, path)
            return Audio(audio.mimeType, audio.data, extra=unmapped_fields(value, MediaContent))
        case "resource":
            return _resource_from_mcp(value, path)
        case "resource_link":
            link = mcp_struct(value, ResourceLink, path)
            lines = [f"{link.title or link.name}: {link.uri}", link.description or ""]
            return Text(clean("\n".join(filter(None, lines))), extra={MCP: {_LINK: value}})
        case str(kind):
            return OpaqueBlock(MCP, clean(kind), compact(value))
        case _:
            raise DecodeError("no type, expected a string", path=f"{path}.type")


def _resource_from_mcp(value: dict[str, Any], path: str) -> ResultBlock:
    inner = mcp_struct(value, EmbeddedResource, path).resource
    resource = mcp_struct(inner, ResourceContents, f"{path}.resource")
    uri, kind = clean(resource.uri), resource.mimeType
    rest = (unmapped_fields(value, EmbeddedResource) or {}).get(MCP, {})
    if unmapped := unmapped_fields(inner, ResourceContents):
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
    """Return a block of a tool result as an MCP content block.

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


Block: TypeAlias = (
    Text
    | Reasoning
    | RedactedReasoning
    | Refusal
    | ToolCall
    | ServerToolCall
    | ServerToolResult
    | Image
    | Document
    | ToolResult
    | OpaqueBlock
)

InputBlock: TypeAlias = Block | Audio | Video
"""A block of a message in a request."""
