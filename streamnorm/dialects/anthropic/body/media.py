"""Images, documents and search results, in both directions."""

from __future__ import annotations

from typing import Any

from streamnorm._core.blocks import Document, Image, OpaqueBlock
from streamnorm._core.bodies.fields import object_of, required_text, rest_of, text_in, within
from streamnorm._core.codec import WriteContext
from streamnorm._core.errors import DecodeError, EncodeError
from streamnorm._core.json import is_array, is_object
from streamnorm.dialects.anthropic.body.extra import (
    DIALECT,
    Extra,
    add_rest,
    mark_and_rest,
    mark_to_wire,
    opaque_from_wire,
    own_fields,
)

__all__ = [
    "document_from_wire",
    "document_to_wire",
    "image_from_wire",
    "image_to_wire",
    "search_result_from_wire",
]

_FILE = frozenset({"type", "source"})
_TITLED = frozenset({"type", "source", "title"})
_FOUND = frozenset({"type", "title"})
_SOURCES = {
    "base64": frozenset({"type", "media_type", "data"}),
    "text": frozenset({"type", "media_type", "data"}),
    "url": frozenset({"type", "url"}),
    "file": frozenset({"type", "file_id"}),
}
_PDF = "application/pdf"


def image_from_wire(block: dict[str, Any], server: str | None) -> Image | OpaqueBlock:
    """Return an image; one with a source of an unknown type is opaque."""
    source = object_of(block, "source") or {}
    file = _source_from_wire(source)
    if file is None:
        return opaque_from_wire("image", block)
    mark, extra = mark_and_rest(block, _FILE)
    return Image(**file, cache=mark, extra=_with_source(extra, source))


def document_from_wire(block: dict[str, Any], server: str | None) -> Document | OpaqueBlock:
    """Return a document; one with a source of an unknown type is opaque.

    A document of blocks of text is their text, with the blocks as an extra field.
    """
    source = object_of(block, "source") or {}
    file = _source_from_wire(source)
    title = text_in(block, "title")
    mark, extra = mark_and_rest(block, _FILE if title is None else _TITLED)
    if file is not None:
        return Document(**file, title=title, cache=mark, extra=_with_source(extra, source))
    text = _text_of(source.get("content"))
    if text is None:
        return opaque_from_wire("document", block)
    extra = {DIALECT: {**own_fields(extra), "source": source}}
    return Document("text/plain", text, title=title, cache=mark, extra=extra)


def search_result_from_wire(block: dict[str, Any], server: str | None) -> Document | OpaqueBlock:
    """Return a search result as a document of its text, with the rest as an extra field."""
    text = _text_of(block.get("content"))
    if text is None:
        return opaque_from_wire("search_result", block)
    title = text_in(block, "title")
    mark, extra = mark_and_rest(block, _FOUND)
    found = {DIALECT: {"search_result": own_fields(extra)}}
    return Document("text/plain", text, title=title, cache=mark, extra=found)


def image_to_wire(block: Image, path: str) -> dict[str, Any]:
    """Return the `image` block.

    Raises:
        EncodeError: It is inline and has no media type, or it is nowhere.
    """
    value: dict[str, Any] = {"type": "image", "source": _source_to_wire(block, path)}
    add_rest(value, block.cache, own_fields(block.extra))
    return value


def document_to_wire(block: Document, context: WriteContext, path: str) -> dict[str, Any] | None:
    """Return the `document` or `search_result` block; None if its media type is refused.

    Raises:
        EncodeError: It is inline and has no media type, or it is nowhere.
    """
    rest = own_fields(block.extra)
    for name in ("search_result", "source"):
        kept = rest.get(name)
        if is_object(kept) and "content" in kept and _text_of(kept["content"]) != block.data:
            rest = rest_of(rest, {name}) or {}  # the text has been replaced since
    if is_object(found := rest.get("search_result")):
        result = {"type": "search_result", "title": block.title or "", **found}
        if block.cache is not None:
            result["cache_control"] = mark_to_wire(block.cache)
        return result
    if _is_refused(block):
        context.losses.add("document_dropped", "messages", "neither text nor PDF")
        return None
    value: dict[str, Any] = {"type": "document", "source": _source_to_wire(block, path)}
    if value["source"]["type"] == "text" and block.media_type != "text/plain":
        context.losses.add("media_type", "messages", "written as text/plain")
    if block.title is not None:
        value["title"] = block.title
    add_rest(value, block.cache, rest)
    return value


def _is_refused(block: Document) -> bool:
    """Return whether a document is known to be neither text nor PDF, or text by URL."""
    media_type = block.media_type
    if media_type is None or media_type == _PDF or (block.data is None and block.url is None):
        return False
    return block.data is None or not media_type.startswith("text/")


def _source_from_wire(source: dict[str, Any]) -> dict[str, Any] | None:
    """Return the fields of a file, by its source; None if the type of the source is unknown."""
    kind = source.get("type")
    try:
        if kind == "url":
            return {"url": required_text(source, "url")}
        if kind == "file":
            return {"file_id": required_text(source, "file_id"), "issuer": DIALECT}
        if kind == "text":
            media_type = text_in(source, "media_type") or "text/plain"
        elif kind == "base64":
            media_type = required_text(source, "media_type")
        else:
            return None
        return {"media_type": media_type, "data": required_text(source, "data")}
    except DecodeError as exc:
        raise within(exc, "$.source") from None


def _with_source(extra: Extra, source: dict[str, Any]) -> Extra:
    """Return extra fields with those of the source."""
    rest = rest_of(source, _SOURCES[source["type"]])
    return {DIALECT: {**own_fields(extra), "source": rest}} if rest else extra


def _source_to_wire(block: Image | Document, path: str) -> dict[str, Any]:
    if block.data is not None:
        if block.media_type is None:
            raise EncodeError("file without a media type, expected one", path=path)
        if isinstance(block, Document) and block.media_type.startswith("text/"):
            return {"type": "text", "media_type": "text/plain", "data": block.data}
        return {"type": "base64", "media_type": block.media_type, "data": block.data}
    if block.url is not None:
        return {"type": "url", "url": block.url}
    if block.file_id is not None:
        return {"type": "file", "file_id": block.file_id}
    raise EncodeError("file without content, expected data, a URL or an id", path=path)


def _text_of(content: object) -> str | None:
    """Return the text of content in blocks; None if one of them is no text."""
    if isinstance(content, str):
        return content
    if not is_array(content):
        return None
    texts: list[str] = []
    for block in content:
        if not (is_object(block) and block.get("type") == "text"):
            return None
        text = block.get("text")
        if not isinstance(text, str):
            return None
        texts.append(text)
    return "\n".join(texts)
