"""Text and file contents of a step as blocks, in both directions.

google-genai 3.6.1, `_gaos/types/interactions/content.py` (read 2026-11-27).  `extra` of a block
holds the unknown fields of its content; mapped fields win when both are written.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any, TypeAlias

from streamnorm._core.blocks import (
    Audio,
    Document,
    Image,
    InputBlock,
    OpaqueBlock,
    Text,
    Video,
)
from streamnorm._core.bodies.fields import (
    as_object,
    get_array,
    get_str,
    require_str,
    unknown_fields,
)
from streamnorm._core.bodies.files import base64_of
from streamnorm._core.codec import WriteContext
from streamnorm._core.errors import EncodeError
from streamnorm._core.events import Opaque
from streamnorm._core.json import compact, is_object, json_value, object_in, string_of
from streamnorm._core.limits import Limits, StoredBytes
from streamnorm._core.text import TextOffsets
from streamnorm.dialects.gemini_interactions.content import (
    ISSUER,
    citation_from_wire,
    citations_to_wire,
)
from streamnorm.dialects.gemini_interactions.wire import DIALECT

Extra: TypeAlias = "dict[str, dict[str, Any]] | None"
File: TypeAlias = Image | Document | Audio | Video

CONTENTS = frozenset({"text", "image", "audio", "video", "document"})
"""Types of contents, of which a step has another."""

_TEXT, _FILE = frozenset({"type", "text", "annotations"}), frozenset({"type", "mime_type"})
_OWN_FILES = ("gs://", "https://generativelanguage.googleapis.com/")
_KINDS: dict[str, type[File]] = {
    "image": Image,
    "document": Document,
    "audio": Audio,
    "video": Video,
}
_NAMES = {kind: name for name, kind in _KINDS.items()}
_DEFAULT_TYPES = {
    "image": "image/jpeg",
    "document": "application/pdf",
    "audio": "audio/mp3",
    "video": "video/mp4",
}
_RESOLUTIONS = {"low": "low", "high": "high", "ultra_high": "original"}
_DETAILS = {detail: resolution for resolution, detail in _RESOLUTIONS.items()}


def extra_of(fields: dict[str, Any]) -> Extra:
    """Return unknown fields as the `extra` of a block; None if there are none."""
    return {DIALECT: fields} if fields else None


def add_extra(wire: dict[str, Any], extra: Extra) -> dict[str, Any]:
    """Return a wire object with a block's unknown fields added; mapped fields take precedence."""
    return {**extra[DIALECT], **wire} if extra and DIALECT in extra else wire


# Reading


def block_from_wire(value: object) -> InputBlock:
    """Return a content as a block; opaque if it has an unknown type or is no legal file.

    Raises:
        DecodeError: The content is no object, or a field has another type than the vendor's.
    """
    content = as_object(value)
    kind = require_str(content, "type")
    if kind == "text":
        return _text_from_wire(content)
    block = _file_from_wire(kind, content) if kind in _KINDS else None
    return OpaqueBlock(DIALECT, kind, compact(content)) if block is None else block


def _text_from_wire(content: dict[str, Any]) -> Text:
    text = require_str(content, "text")
    annotations = get_array(content, "annotations") or []
    if len(content) == 2:
        return Text(text)
    offsets = TextOffsets(room=StoredBytes(Limits().max_accumulated_bytes))
    offsets.append(text)
    found = [citation_from_wire(each, offsets) if is_object(each) else None for each in annotations]
    unknown = unknown_fields(content, _TEXT)
    citations = tuple([citation for citation in found if citation is not None])
    if len(citations) < len(annotations):  # one is of an unknown type
        return Text(text, extra=extra_of({**unknown, "annotations": annotations}))
    return Text(text, citations, extra=extra_of(unknown))


def _file_from_wire(kind: str, content: dict[str, Any]) -> File | None:
    """Return a file content as a block; None unless it has either data or a URI."""
    media_type, data, uri = (get_str(content, name) for name in ("mime_type", "data", "uri"))
    if (data is None) is (uri is None):
        return None
    unknown = unknown_fields(content, _FILE | {"data", "uri"})
    if uri is not None:
        return _file_by_uri(kind, media_type, uri, unknown)
    media_type = media_type or _DEFAULT_TYPES[kind]
    if kind == "image":
        detail = _take_detail(unknown)
        return Image(media_type, data, detail=detail, extra=extra_of(unknown))
    if media_type.startswith("text/"):
        try:
            data = base64.b64decode(data or "", validate=True).decode()
        except (binascii.Error, ValueError):
            return None
    return _KINDS[kind](media_type, data, extra=extra_of(unknown))


def _file_by_uri(kind: str, media_type: str | None, uri: str, unknown: dict[str, Any]) -> File:
    if kind in ("audio", "video"):
        return _KINDS[kind](media_type, url=uri, extra=extra_of(unknown))
    own = uri.startswith(_OWN_FILES)
    url, id, issuer = (None, uri, ISSUER) if own else (uri, None, None)
    if kind == "image":
        detail = _take_detail(unknown)
        extra = extra_of(unknown)
        return Image(media_type, url=url, file_id=id, detail=detail, issuer=issuer, extra=extra)
    return Document(media_type, url=url, file_id=id, issuer=issuer, extra=extra_of(unknown))


def _take_detail(unknown: dict[str, Any]) -> str | None:
    """Remove `resolution` and return the equal image detail; None if no detail matches."""
    resolution = unknown.get("resolution")
    detail = _RESOLUTIONS.get(resolution) if isinstance(resolution, str) else None
    if detail is not None:
        del unknown["resolution"]
    return detail


def opaque_content(event: Opaque) -> OpaqueBlock | None:
    """Return a file of an answer that has no unified block, such as sound, as a content.

    None if the event is no file.  The content stays as it came: a stream may have a sound in
    several deltas, each of which is a content of its own.
    """
    is_file = event.dialect == DIALECT and event.name in _KINDS
    # An event that is no delta has a name, and no `type`.
    if not is_file or string_of(object_in(event.data), "type") != event.name:
        return None
    return OpaqueBlock(DIALECT, event.name, event.data)


# Writing


def block_to_wire(block: InputBlock, context: WriteContext) -> dict[str, Any]:
    """Return a text or a file block as a content.

    Raises:
        EncodeError: The dialect has no content for the block.
    """
    match block:
        case Text(text, citations):
            content: dict[str, Any] = {"type": "text", "text": text}
            if citations:
                content["annotations"] = citations_to_wire([*citations], text, 0, extras=True)
        case Image() | Document() | Audio() | Video():
            content = _file_to_wire(block, context)
        case OpaqueBlock(data=data):
            return as_object(json_value(data, "data"))
        case _:
            raise EncodeError(f"{type(block).__name__}, expected a text or a file", path="")
    return add_extra(content, block.extra)


def _file_to_wire(block: File, context: WriteContext) -> dict[str, Any]:
    kind = _NAMES[type(block)]
    uri = block.url
    if isinstance(block, Image | Document) and block.file_id is not None:
        uri = block.file_id
    if isinstance(block, Document) and block.title is not None:
        context.losses.add("title", "messages", "dropped")
    content: dict[str, Any] = {"type": kind}
    if uri is not None:
        content["uri"] = uri
        if block.media_type is not None:
            content["mime_type"] = block.media_type
    else:
        media_type = block.media_type or _DEFAULT_TYPES[kind]
        content["data"] = base64_of(media_type, block.data or "")
        content["mime_type"] = media_type
    if isinstance(block, Image) and block.detail in _DETAILS:
        content["resolution"] = _DETAILS[block.detail]
    return content
