"""Text and file parts of messages, in both directions.

`@ag-ui/core` 1.0.0, `src/generated/schemas.ts`, and the `binary` part of 0.x (read 2026-11-27).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from streamnorm._core.blocks import Audio, Document, Image, InputBlock, Text, Video
from streamnorm._core.bodies.fields import (
    get_object,
    get_str,
    prefix_path,
    read_objects,
    require_str,
    unexpected,
)
from streamnorm._core.bodies.files import (
    Media,
    base64_of,
    file_at_url,
    file_of_content,
    file_of_provider,
)
from streamnorm._core.errors import DecodeError
from streamnorm._core.json import is_array, is_object
from streamnorm._core.losses import Losses

PartBlock: TypeAlias = Text | Image | Document | Audio | Video

_DEFAULTS = {
    "image": "image/png",
    "audio": "audio/wav",
    "video": "video/mp4",
    "document": "application/octet-stream",
}
# Where a part of its type has no media type of its own.
_PATTERNS = {"image": "image/*", "audio": "audio/*", "video": "video/*", "document": ""}


def content_from_wire(value: dict[str, Any]) -> tuple[PartBlock, ...]:
    """Return the content of a user or tool message as blocks.

    Raises:
        DecodeError: It is neither a text nor an array of parts.
    """
    content = value.get("content")
    if isinstance(content, str):
        return (Text(content),) if content else ()
    if not is_array(content):
        if "content" not in value:
            raise DecodeError("missing, expected a string or an array", path="$.content")
        raise unexpected(content, "a string or an array", "$.content")
    return tuple(read_objects(content, _part_from_wire, "$.content"))


def _part_from_wire(part: dict[str, Any]) -> PartBlock:
    kind = require_str(part, "type")
    if kind == "text":
        return Text(require_str(part, "text"))
    if kind == "binary":
        return _binary_from_wire(part)
    if kind not in _PATTERNS:
        expected = "text, image, audio, video or document"
        raise DecodeError(f"another type, expected {expected}", path="$.type")
    source = get_object(part, "source")
    if source is None:
        raise DecodeError("missing, expected an object", path="$.source")
    metadata = part.get("metadata")
    title = metadata.get("filename") if is_object(metadata) else None
    try:
        return _file_from_wire(source, _PATTERNS[kind], title if isinstance(title, str) else None)
    except DecodeError as exc:
        raise prefix_path(exc, "$.source") from None


def _file_from_wire(source: dict[str, Any], pattern: str, title: str | None) -> PartBlock:
    kind, value = require_str(source, "type"), require_str(source, "value")
    media_type = get_str(source, "mimeType") or ""
    if kind == "data":
        return _read_value(file_of_content, value, require_str(source, "mimeType"), title)
    if kind == "url":
        return _read_value(file_at_url, value, media_type or pattern, title)
    if kind != "file":
        raise DecodeError("another type, expected data, url or file", path="$.type")
    issuer = get_str(source, "provider")
    known = file_of_provider(value, issuer, media_type or pattern, title)
    if known is None:
        raise DecodeError("audio or video by its id, expected its content or URL", path="$.type")
    return known


def _read_value(
    read: Callable[[str, str, str | None], PartBlock],
    value: str,
    media_type: str,
    title: str | None,
) -> PartBlock:
    try:
        return read(value, media_type, title)
    except DecodeError as exc:
        raise prefix_path(exc, "$.value") from None


def _binary_from_wire(part: dict[str, Any]) -> PartBlock:
    """Return the file block of a `binary` part, which AG-UI 0.x uses for files of every type."""
    media_type, title = require_str(part, "mimeType"), get_str(part, "filename")
    data, url, id = (get_str(part, name) for name in ("data", "url", "id"))
    if data:
        return file_of_content(data, media_type, title)
    if url:
        return file_at_url(url, media_type, title)
    known = file_of_provider(id, None, media_type, title) if id else None
    if known is None:
        raise DecodeError("a file without data and URL, expected one")
    return known


def content_to_wire(blocks: Iterable[InputBlock], losses: Losses) -> str | list[dict[str, Any]]:
    """Return the content of a user message: a string, or parts if there are files.

    Args:
        blocks: The blocks.
        losses: Counter of what the content has no place for.
    """
    parts: list[dict[str, Any]] = []
    for block in blocks:
        match block:
            case Text(text):
                parts.append({"type": "text", "text": text})
            case Image() | Document() | Audio() | Video():
                parts += _file_to_wire(block, losses)
            case _:
                losses.add("opaque_block", "messages", "dropped")
    if all(part["type"] == "text" for part in parts):
        return "".join(part["text"] for part in parts)
    return parts


def _file_to_wire(block: Media, losses: Losses) -> list[dict[str, Any]]:
    kind = str(block.__struct_config__.tag)
    fields: dict[str, Any] = {}
    if isinstance(block, Document) and block.title is not None:
        fields["metadata"] = {"filename": block.title}
    media_type = block.media_type
    if block.data is not None:
        media_type = media_type or _DEFAULTS[kind]
        source = {"type": "data", "value": base64_of(media_type, block.data)}
        return [{"type": kind, "source": {**source, "mimeType": media_type}, **fields}]
    if block.url is None:
        # 0.x refuses the whole input for a file by its id.
        losses.add("file_id_dropped", "messages", "dropped")
        return []
    source = {"type": "url", "value": block.url}
    if media_type is not None:
        source["mimeType"] = media_type
    return [{"type": kind, "source": source, **fields}]
