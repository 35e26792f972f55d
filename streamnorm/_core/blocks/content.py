"""Blocks of content, the base of all blocks, and the citations within them."""

from __future__ import annotations

import base64
import binascii
from typing import Any, TypeAlias

from msgspec import Struct


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


class BaseBlock(Struct, frozen=True, omit_defaults=True, kw_only=True, tag_field="type"):
    """Base of all blocks: immutable values, told apart by `type` in JSON.

    Attributes:
        cache: Mark after this block, in a request.
        extra: Fields of a request that have no place in the block, by dialect.
    """

    cache: CacheMark | None = None
    extra: dict[str, dict[str, Any]] | None = None


class Text(BaseBlock, frozen=True, tag="text"):
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


class Reasoning(BaseBlock, frozen=True, tag="reasoning"):
    """Reasoning of the model, or a summary of it; never text for the user.

    Attributes:
        parts: The summaries, in order; a vendor without parts sends one.
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
        """All parts, a blank line between two."""
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
    """The model's words when it declines."""

    text: str = ""


class Image(BaseBlock, frozen=True, tag="image"):
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


class Document(BaseBlock, frozen=True, tag="document"):
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


class Audio(BaseBlock, frozen=True, tag="audio"):
    """Sound, in a request.

    Attributes:
        media_type: As `audio/wav`; None where only the URL is known.
        data: Base64.
        url: Where it is, where `data` is None.
    """

    media_type: str | None = None
    data: str | None = None
    url: str | None = None


class Video(BaseBlock, frozen=True, tag="video"):
    """A video, in a request.

    Attributes:
        media_type: As `video/mp4`; None where only the URL is known.
        data: Base64.
        url: Where it is, where `data` is None.
    """

    media_type: str | None = None
    data: str | None = None
    url: str | None = None


class OpaqueBlock(BaseBlock, frozen=True, tag="opaque"):
    """A block that only its own dialect knows.

    Attributes:
        dialect: Name of that dialect.
        kind: The dialect's word for it.
        data: The whole block as JSON text.
    """

    dialect: str
    kind: str
    data: str


ResultBlock: TypeAlias = Text | Image | Document | Audio | Video | OpaqueBlock
"""A block of a tool's result."""


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
