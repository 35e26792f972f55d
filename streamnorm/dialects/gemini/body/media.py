"""Files of a request: `inlineData` and `fileData`, both directions.

https://ai.google.dev/api/caching#Part (read 2026-11-23).  A file is told by its media type.
Google's own files are URIs that only Google can open.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any, TypeAlias

from streamnorm._core.blocks import Audio, Document, Image, OpaqueBlock, Video
from streamnorm._core.codec import WriteContext
from streamnorm._core.json import compact, is_object
from streamnorm.dialects.gemini.body.fields import add_extra, camel, extra_of
from streamnorm.dialects.gemini.wire import DIALECT

__all__ = ["ISSUER", "File", "file_from_wire", "file_to_wire"]

File: TypeAlias = Image | Document | Audio | Video

ISSUER = "google"

_MAPPED = frozenset({"mimeType", "data", "fileUri"})
_OWN_FILES = ("gs://", "https://generativelanguage.googleapis.com/")
_URL_SAFE = str.maketrans("-_", "+/")
_LEVELS = {
    "low": "MEDIA_RESOLUTION_LOW",
    "high": "MEDIA_RESOLUTION_HIGH",
    "original": "MEDIA_RESOLUTION_ULTRA_HIGH",
}
_DETAILS = {level: detail for detail, level in _LEVELS.items()}
_VIDEO_HOSTS = frozenset({"youtube.com", "www.youtube.com", "youtu.be"})
_TYPES = {
    "png": "image/png",
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "gif": "image/gif",
    "webp": "image/webp",
    "heic": "image/heic",
    "heif": "image/heif",
    "pdf": "application/pdf",
    "txt": "text/plain",
    "md": "text/markdown",
    "html": "text/html",
    "csv": "text/csv",
    "json": "application/json",
    "wav": "audio/wav",
    "mp3": "audio/mp3",
    "ogg": "audio/ogg",
    "flac": "audio/flac",
    "aac": "audio/aac",
    "mp4": "video/mp4",
    "mov": "video/mov",
    "webm": "video/webm",
}
_KINDS: dict[str, type[File]] = {"image": Image, "audio": Audio, "video": Video}
_DEFAULT_TYPES: dict[type, str] = {
    Image: "image/jpeg",
    Document: "application/pdf",
    Audio: "audio/mp3",
    Video: "video/mp4",
}


def file_from_wire(
    field: str, value: dict[str, Any], modifiers: dict[str, Any]
) -> File | OpaqueBlock:
    """Return a file as a block: opaque if no other block can hold it.

    Args:
        field: `inlineData` or `fileData`.
        value: Its object.
        modifiers: The other fields of the part, for the block to keep.
    """
    wire = camel(value)
    media_type, data, uri = wire.get("mimeType"), wire.get("data"), wire.get("fileUri")
    fields = dict(modifiers)
    for name, item in wire.items():
        if name not in _MAPPED:
            fields[f"{field}.{name}"] = item
    block: File | None = None
    if field == "fileData" and isinstance(uri, str) and isinstance(media_type, str | None):
        block = _stored(media_type, uri, fields)
    elif field == "inlineData" and isinstance(data, str) and isinstance(media_type, str):
        block = _inline(media_type, data.translate(_URL_SAFE), fields)
    if block is not None:
        return block
    return OpaqueBlock(DIALECT, field, compact(value), extra=extra_of(dict(modifiers)))


def _stored(media_type: str | None, uri: str, fields: dict[str, Any]) -> File:
    kind = _kind(media_type or _guessed(uri) or "")
    if kind is Audio or kind is Video:
        return kind(media_type, url=uri, extra=extra_of(fields))
    detail = _detail(fields) if kind is Image else None
    own = uri.startswith(_OWN_FILES)
    url, id, issuer = (None, uri, ISSUER) if own else (uri, None, None)
    if kind is Image:
        return Image(
            media_type, url=url, file_id=id, detail=detail, issuer=issuer, extra=extra_of(fields)
        )
    return Document(media_type, url=url, file_id=id, issuer=issuer, extra=extra_of(fields))


def _inline(media_type: str, data: str, fields: dict[str, Any]) -> File | None:
    data += "=" * (-len(data) % 4)
    kind = _kind(media_type)
    if kind is Image:
        detail = _detail(fields)
        return Image(media_type, data, detail=detail, extra=extra_of(fields))
    if media_type.startswith("text/"):
        try:
            data = base64.b64decode(data, validate=True).decode()
        except (binascii.Error, ValueError):
            return None
    return kind(media_type, data, extra=extra_of(fields))


def _kind(media_type: str) -> type[File]:
    return _KINDS.get(media_type.partition("/")[0], Document)


def _detail(fields: dict[str, Any]) -> str | None:
    """Take the resolution out of the fields of a part, if it has a unified word."""
    resolution = fields.get("mediaResolution")
    if not is_object(resolution) or len(resolution) != 1:
        return None
    level = resolution.get("level")
    detail = _DETAILS.get(level) if isinstance(level, str) else None
    if detail is not None:
        del fields["mediaResolution"]
    return detail


def _guessed(uri: str) -> str | None:
    """Return the media type that the suffix of a URI's path stands for."""
    address = uri.partition("?")[0].partition("#")[0]
    host, _, path = address.partition("://")[2].partition("/")
    if host in _VIDEO_HOSTS:
        return _TYPES["mp4"]
    return _TYPES.get(path.rpartition(".")[2].lower()) if "." in path else None


def file_to_wire(block: File, context: WriteContext) -> dict[str, Any]:
    """Return a file as the fields of its part."""
    uri = block.url
    if isinstance(block, Image | Document) and block.file_id is not None:
        uri = block.file_id
    if isinstance(block, Document) and block.title is not None:
        context.losses.add("title", "messages", "dropped")
    if uri is not None:
        part = {"fileData": _address(block, uri, context)}
    else:
        data = block.data or ""
        media_type = block.media_type or _DEFAULT_TYPES[type(block)]
        if media_type.startswith("text/"):
            data = base64.b64encode(data.encode("utf-8", "replace")).decode()
        part = {"inlineData": {"mimeType": media_type, "data": data}}
    if isinstance(block, Image) and block.detail in _LEVELS:
        part["mediaResolution"] = {"level": _LEVELS[block.detail]}
    return add_extra(part, block.extra)


def _address(block: File, uri: str, context: WriteContext) -> dict[str, str]:
    if block.media_type is not None:
        return {"mimeType": block.media_type, "fileUri": uri}
    guessed = _guessed(uri)
    if uri.partition("://")[2].partition("/")[0] in _VIDEO_HOSTS:
        return {"fileUri": uri}  # as the API has it
    if guessed is None or _kind(guessed) is not type(block):
        guessed = _DEFAULT_TYPES[type(block)]
    context.losses.add("media_type_guessed", "messages", f"written as {guessed}")
    return {"mimeType": guessed, "fileUri": uri}
