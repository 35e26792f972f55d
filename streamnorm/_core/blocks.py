"""The blocks a message is made of, and the citations within them.

A block stands in two places: empty or whole in the `BlockStart` of a stream, and
complete in a `Message`.  Those that grow by deltas are `Text`, `Reasoning`,
`Refusal`, `ToolCall` and `ServerToolCall`; every other block is whole at its start.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from streamnorm._core.errors import ArgumentsError
from streamnorm._core.partial_json import decode_arguments

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
        kind: The vendor's word for this form of citation, such as `url_citation`.
        url: Where the source is.
        title: What the source is called.
        cited_text: The words of the source.
        start: First character of the block that the citation covers; None = the whole block.
        end: Character after the last that the citation covers.
        extra: Fields of the vendor that have no place above.
    """

    kind: str
    url: str | None = None
    title: str | None = None
    cited_text: str | None = None
    start: int | None = None
    end: int | None = None
    extra: dict[str, Any] | None = None


class CacheMark(Struct, frozen=True, omit_defaults=True):
    """The end of a prefix of a request that the provider is asked to cache.

    Attributes:
        ttl: Lifetime, such as `5m` or `1h`; None = the vendor's default.
    """

    ttl: str | None = None


class _Block(Struct, frozen=True, omit_defaults=True, kw_only=True, tag_field="type"):
    """Base of all blocks: immutable values, told apart by `type` in JSON.

    Attributes:
        cache: Mark after this block, in a request.
        extra: Fields of a request that have no place in the block, by dialect.
    """

    cache: CacheMark | None = None
    extra: dict[str, dict[str, Any]] | None = None


class Text(_Block, frozen=True, tag="text"):
    """Text for the user.

    Attributes:
        text: The text.
        citations: Sources, in the order they arrived.
        signature: Opaque proof of the block's origin, byte for byte.
        issuer: Vendor that can verify the signature.
    """

    text: str = ""
    citations: tuple[Citation, ...] = ()
    signature: str | None = None
    issuer: str | None = None


class Reasoning(_Block, frozen=True, tag="reasoning"):
    """Reasoning of the model, or a summary of it; never text for the user.

    Attributes:
        parts: The summaries, in order; a vendor without parts sends one.
        signature: Opaque proof of the block's origin, byte for byte.
        issuer: Vendor that can verify the signature.
    """

    parts: tuple[str, ...] = ()
    signature: str | None = None
    issuer: str | None = None

    @property
    def text(self) -> str:
        """All parts, a blank line between two."""
        return "\n\n".join(self.parts)


class RedactedReasoning(_Block, frozen=True, tag="redacted_reasoning"):
    """Reasoning that only its issuer can read.

    Attributes:
        data: The opaque value, byte for byte.
        issuer: Vendor that can read it.
    """

    data: str
    issuer: str | None = None


class Refusal(_Block, frozen=True, tag="refusal"):
    """The model's words when it declines."""

    text: str = ""


class ToolCall(_Block, frozen=True, tag="tool_call"):
    """A call that the client is asked to execute.

    Attributes:
        id: The provider's id, or a minted one where it sent none.
        name: Name of the tool.
        arguments: JSON text (`function`) or free text (`custom`), byte for byte as sent.
        kind: What the arguments are.
        signature: Opaque value that must come back with the call, byte for byte.
        issuer: Vendor that can verify the signature.
        namespace: Namespace of the tool; None where names stand alone.
        is_unfinished: Whether free text ended before it was complete; JSON text shows it itself.
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
        """Return the JSON object that the arguments are, decoded anew each time.

        No text, or white space alone, is the empty object.  Half of a character becomes
        U+FFFD, and of two members with one key the later counts.

        Raises:
            ArgumentsError: The arguments are no JSON object, or nest deeper than the default
                `max_json_depth`; those of a custom call never are one.
        """
        if self.kind == "custom":
            raise ArgumentsError("custom call with free text, expected JSON", position=0)
        return decode_arguments(self.arguments)


class ServerToolCall(_Block, frozen=True, tag="server_tool_call"):
    """A call that the provider executes itself; nobody else ever should.

    Attributes:
        id: The provider's id.
        name: Name of the provider's tool.
        arguments: JSON text as sent.
        kind: The vendor's word for this form of call, such as `mcp_tool_use`.
    """

    id: str
    name: str
    arguments: str = ""
    kind: str = ""

    def input(self) -> dict[str, object]:
        """Return the JSON object that the arguments are, as `ToolCall.input` does.

        Raises:
            ArgumentsError: The arguments are no JSON object, or nest deeper than the default
                `max_json_depth`.
        """
        return decode_arguments(self.arguments)


class ServerToolResult(_Block, frozen=True, tag="server_tool_result"):
    """Result of a tool call that the provider executed.

    Attributes:
        tool_call_id: Id of the `ServerToolCall`.
        kind: The vendor's word for this form of result.
        content: The vendor's JSON value.
    """

    tool_call_id: str
    kind: str
    content: Any = None


class Image(_Block, frozen=True, tag="image"):
    """An image.

    Attributes:
        media_type: As `image/png`; None where only the URL is known.
        data: Base64.
        url: Where it is, where `data` is None.
        file_id: Id of an uploaded file, where both are None.
        detail: Resolution to read it in: `low`, `high`, `original` or `auto`.
        issuer: Vendor that has the uploaded file.
    """

    media_type: str | None = None
    data: str | None = None
    url: str | None = None
    file_id: str | None = None
    detail: str | None = None
    issuer: str | None = None


class Document(_Block, frozen=True, tag="document"):
    """A document.

    Attributes:
        media_type: As `application/pdf`; None where only the URL is known.
        data: Base64, or the text itself where `media_type` is a text type.
        url: Where it is, where `data` is None.
        title: What it is called; its file name where the vendor has one.
        file_id: Id of an uploaded file, where `data` and `url` are None.
        issuer: Vendor that has the uploaded file.
    """

    media_type: str | None = None
    data: str | None = None
    url: str | None = None
    title: str | None = None
    file_id: str | None = None
    issuer: str | None = None


class Audio(_Block, frozen=True, tag="audio"):
    """Sound, in a request.

    Attributes:
        media_type: As `audio/wav`; None where only the URL is known.
        data: Base64.
        url: Where it is, where `data` is None.
    """

    media_type: str | None = None
    data: str | None = None
    url: str | None = None


class Video(_Block, frozen=True, tag="video"):
    """A video, in a request.

    Attributes:
        media_type: As `video/mp4`; None where only the URL is known.
        data: Base64.
        url: Where it is, where `data` is None.
    """

    media_type: str | None = None
    data: str | None = None
    url: str | None = None


ResultBlock: TypeAlias = "Text | Image | Document | Audio | Video | OpaqueBlock"
"""A block of a tool's result."""


class ToolResult(_Block, frozen=True, tag="tool_result"):
    """Result of a `ToolCall` that the client executed.

    Attributes:
        tool_call_id: Id of the call.
        content: Text, images and other files.
        is_error: Whether the execution failed.
        name: Name of the tool; "" where only the id says which call it answers.
        value: JSON text of a result that is one JSON object, whose text form is `content`.
    """

    tool_call_id: str
    content: tuple[ResultBlock, ...] = ()
    is_error: bool = False
    name: str = ""
    value: str | None = None


class OpaqueBlock(_Block, frozen=True, tag="opaque"):
    """A block that only its own dialect knows.

    Attributes:
        dialect: Name of that dialect.
        kind: The dialect's word for it.
        data: The whole block as JSON text.
    """

    dialect: str
    kind: str
    data: str


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


def file_block(media_type: str, data: str | None, url: str | None) -> Image | Document | None:
    """Return a file as a block; None if no block holds its type or it has no single content.

    Args:
        media_type: MIME type.
        data: Content in Base64.
        url: Address of the content.
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
