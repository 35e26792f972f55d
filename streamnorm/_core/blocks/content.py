"""Blocks of content, the base of all blocks, and the citations within them."""

from __future__ import annotations

import base64
import binascii
from typing import Any, TypeAlias

from msgspec import Struct


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
    """The end of a prefix of a request that the provider is asked to cache.

    Attributes:
        ttl: Lifetime, such as `5m` or `1h`; None = the vendor's default.
    """

    ttl: str | None = None


class BaseBlock(Struct, frozen=True, omit_defaults=True, kw_only=True, tag_field="type"):
    """Base of all blocks: immutable values, told apart by `type` in JSON.

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
    """Reasoning of the model, or a summary of it; never text for the user.

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
        """All parts, separated by blank lines."""
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
    """The text of the model when it declines."""

    text: str = ""


class Image(BaseBlock, frozen=True, tag="image"):
    """An image.

    Attributes:
        media_type: Media type, such as `image/png`; None if only the URL is known.
        data: Content in Base64.
        url: URL of the image, if `data` is None.
        file_id: Id of an uploaded file, if both are None.
        detail: Resolution for the model: `low`, `high`, `original` or `auto`.
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
    """A block that only its own dialect knows.

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
    """Return a file as a block; None if no block has its type, or unless it has data or a URL.

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
