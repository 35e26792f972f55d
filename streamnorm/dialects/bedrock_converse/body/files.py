"""Files in messages and tool results, in both directions: images, documents, video, audio.

https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_DocumentBlock.html (read
2026-11-27, botocore 1.44.8).  A file has a format, and a source: bytes in Base64, or an object
in S3, which only AWS can read.  A document also has a name, unique in its request.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias, TypeVar

from msgspec import structs

from streamnorm._core.blocks import Audio, Document, Image, InputBlock, Text, ToolResult, Video
from streamnorm._core.bodies.fields import as_object, get_str, unknown_fields
from streamnorm._core.bodies.files import base64_of
from streamnorm._core.bodies.projection.history import write_as_text
from streamnorm._core.bodies.request import InputMessage, same_parts, unchanged_source
from streamnorm._core.bodies.table import unknown_of
from streamnorm._core.errors import EncodeError
from streamnorm._core.json import is_array, is_object, string_of
from streamnorm._core.losses import Losses
from streamnorm.dialects.bedrock_converse.wire import DIALECT

_Value: TypeAlias = "dict[str, Any]"
File: TypeAlias = Image | Document | Audio | Video
Extra: TypeAlias = "dict[str, dict[str, Any]] | None"

B = TypeVar("B", bound=InputBlock)

FOUND = "searchResult"
"""Field of a document's unknown fields that holds the search result that it was read from."""

S3_ISSUER = "aws"
"""Issuer of the file ids that are addresses in S3."""

_FILE = frozenset({"format", "source"})
_TITLED = frozenset({"format", "source", "name"})
_IMAGES = {name: f"image/{name}" for name in ("png", "jpeg", "gif", "webp")}
_OFFICE = "application/vnd.openxmlformats-officedocument"
_DOCUMENTS = {
    "pdf": "application/pdf",
    "csv": "text/csv",
    "doc": "application/msword",
    "docx": f"{_OFFICE}.wordprocessingml.document",
    "xls": "application/vnd.ms-excel",
    "xlsx": f"{_OFFICE}.spreadsheetml.sheet",
    "html": "text/html",
    "txt": "text/plain",
    "md": "text/markdown",
}
_VIDEOS = {
    "mkv": "video/x-matroska",
    "mov": "video/quicktime",
    "mp4": "video/mp4",
    "webm": "video/webm",
    "flv": "video/x-flv",
    "mpeg": "video/mpeg",
    "mpg": "video/mpg",
    "wmv": "video/x-ms-wmv",
    "three_gp": "video/3gpp",
}
_AUDIOS = {
    "mp3": "audio/mp3",
    "wav": "audio/wav",
    "opus": "audio/opus",
    "aac": "audio/aac",
    "x-aac": "audio/x-aac",
    "flac": "audio/flac",
    "mp4": "audio/mp4",
    "m4a": "audio/m4a",
    "ogg": "audio/ogg",
    "mpeg": "audio/mpeg",
    "mpga": "audio/mpga",
    "pcm": "audio/pcm",
    "webm": "audio/webm",
    "mkv": "audio/x-matroska",
    "mka": "audio/mka",
}
_FORMATS: dict[type, dict[str, str]] = {
    kind: {media_type: name for name, media_type in types.items()}
    for kind, types in {
        Image: _IMAGES,
        Document: _DOCUMENTS,
        Video: _VIDEOS,
        Audio: _AUDIOS,
    }.items()
}
_MEMBERS: dict[type, tuple[str, str]] = {
    Image: ("image", "image_dropped"),
    Document: ("document", "document_dropped"),
    Audio: ("audio", "audio_dropped"),
    Video: ("video", "video_dropped"),
}
# "The file name can only contain alphanumeric characters, whitespace characters, hyphens,
# parentheses, and square brackets.  The name can't contain more than one consecutive whitespace
# character."
_ILLEGAL = re.compile(r"[^A-Za-z0-9_()\[\]-]+")
_MAX_NAME_CHARS = 200
# docs.aws.amazon.com/bedrock/latest/userguide/inference-api-restrictions.html: "You can't include
# more than 5 documents in a request." (aws-samples/generative-ai-use-cases#1685).
_MAX_DOCUMENTS = 5
_UNTITLED = "untitled"
_UNTITLED_NAME = re.compile(r"untitled(?: [0-9]+)?")


def as_extra(unknown: _Value) -> Extra:
    """Return unknown fields as `extra`; None if there are none."""
    return {DIALECT: unknown} if unknown else None


def text_of(content: object, separator: str) -> str | None:
    """Return the joined text of an array; None if an element is not text."""
    if not is_array(content):
        return None
    texts: list[str] = []
    for item in content:
        text = item.get("text") if is_object(item) and len(item) == 1 else None
        if not isinstance(text, str):
            return None
        texts.append(text)
    return separator.join(texts)


# Reading


def read_image(value: object) -> Image | None:
    """Return an `image` as a block; None if its format or source is unknown."""
    image = as_object(value)
    media_type = _IMAGES.get(string_of(image, "format"))
    source = _source_of(image)
    if media_type is None or source is None:
        return None
    data, uri, unknown = source
    extra = as_extra({**unknown_fields(image, _FILE), **unknown})
    issuer = None if uri is None else S3_ISSUER
    return Image(media_type, data, file_id=uri, issuer=issuer, extra=extra)


def read_video(value: object) -> Video | None:
    """Return a `video` as a block; None if it is in S3 or has an unknown format."""
    media_type, data, extra = _read_inline(as_object(value), _VIDEOS)
    return None if data is None else Video(media_type, data, extra=extra)


def read_audio(value: object) -> Audio | None:
    """Return an `audio` as a block; None if it is in S3 or has an unknown format."""
    media_type, data, extra = _read_inline(as_object(value), _AUDIOS)
    return None if data is None else Audio(media_type, data, extra=extra)


def _read_inline(file: _Value, types: dict[str, str]) -> tuple[str | None, str | None, Extra]:
    """Return a file's media type, its inline Base64 or None, and its unknown fields.

    A file in S3 is opaque: video and audio have no file id, and no other vendor can read it.
    """
    media_type, source = types.get(string_of(file, "format")), _source_of(file)
    data = None if media_type is None or source is None else source[0]
    return media_type, data, as_extra(unknown_fields(file, _FILE))


def _source_of(file: _Value) -> tuple[str | None, str | None, _Value] | None:
    """Return a source's Base64 or S3 URI, and its unknown fields.

    None for a source of another form.
    """
    source = file.get("source")
    if not is_object(source) or len(source) != 1:
        return None
    if isinstance(data := source.get("bytes"), str):
        return data, None, {}
    location = source.get("s3Location")
    if not is_object(location) or not isinstance(uri := location.get("uri"), str):
        return None
    owner = unknown_fields(location, {"uri"})
    return None, uri, ({"source": {"s3Location": owner}} if owner else {})


def read_document(value: object) -> Document | None:
    """Return a `document` as a block; None if its format or source is unknown.

    The format of a document that is text may be missing.
    """
    document = as_object(value)
    media_type = _DOCUMENTS.get(get_str(document, "format") or "txt")
    if media_type is None:
        return None
    title = get_str(document, "name")
    unknown = unknown_fields(document, _FILE if title is None else _TITLED)
    if title is not None and _UNTITLED_NAME.fullmatch(title):
        title = None
    inner = document.get("source")
    text = _inline_text(inner)
    if text is not None:
        if is_object(inner) and "content" in inner:  # written back while the text is the same
            unknown["source"] = inner
        return Document(_text_type(media_type), text, title=title, extra=as_extra(unknown))
    source = _source_of(document)
    if source is None:
        return None
    data, uri, rest = source
    extra = as_extra({**unknown, **rest})
    if data is None:
        return Document(media_type, title=title, file_id=uri, issuer=S3_ISSUER, extra=extra)
    if not media_type.startswith("text/"):
        return Document(media_type, data, title=title, extra=extra)
    text = _decoded_text(data)
    return None if text is None else Document(media_type, text, title=title, extra=extra)


def _inline_text(source: object) -> str | None:
    if not is_object(source) or len(source) != 1:
        return None
    if isinstance(text := source.get("text"), str):
        return text
    return text_of(source.get("content"), "\n")


def _text_type(media_type: str) -> str:
    return media_type if media_type.startswith("text/") else "text/plain"


def _decoded_text(data: str) -> str | None:
    """Return the text of a Base64 file; None if it is not UTF-8."""
    try:
        return base64.b64decode(data, validate=True).decode()
    except (binascii.Error, ValueError):
        return None


# Writing


def fit_documents(messages: tuple[InputMessage, ...], losses: Losses) -> tuple[InputMessage, ...]:
    """Return messages with at most five documents; further ones of text are written as text.

    What becomes of a document depends on those before it alone, so it is the same in a longer
    history.  A message that the client itself wrote for the API is not changed.

    Args:
        messages: The projected messages.
        losses: Counter of documents that are written as text.

    Raises:
        EncodeError: A further document is no text.
    """
    left = _MAX_DOCUMENTS
    fitted: list[InputMessage] = []
    for number, message in enumerate(messages):
        count = sum(map(_is_written, _documents_of(message.blocks)))
        if count > left and unchanged_source(message, DIALECT) is None:
            blocks = _fit_blocks(message.blocks, left, losses, f"messages[{number}]")
            message = structs.replace(message, blocks=blocks)
        fitted.append(message)
        left = max(left - count, 0)
    return same_parts(messages, tuple(fitted))


def _fit_blocks(blocks: tuple[B, ...], left: int, losses: Losses, path: str) -> tuple[Any, ...]:
    """Return blocks with the first `left` documents, and the others as text."""
    fitted: list[Any] = []
    for block in blocks:
        changed: Any = block
        if isinstance(block, ToolResult):
            content = _fit_blocks(block.content, left, losses, path)
            left -= min(left, sum(map(_is_written, _documents_of(block.content))))
            if same_parts(block.content, content) is not block.content:
                # Beside a value the writer leaves out the texts of a result: they repeat it.
                changed = structs.replace(block, content=content, value=None)
        elif isinstance(block, Document) and _is_written(block):
            changed = block if left else _document_as_text(block, losses, path)
            left -= min(left, 1)
        fitted.append(changed)
    return tuple(fitted)


def _document_as_text(block: Document, losses: Losses, path: str) -> Text:
    if block.data is None or not (block.media_type or "").startswith("text/"):
        problem = f"more than {_MAX_DOCUMENTS} documents, expected at most that"
        raise EncodeError(problem, path=path)
    return write_as_text(block, losses)


def _is_written(document: Document) -> bool:
    """Return whether a document is written as one: no search result, and of a known format."""
    return FOUND not in unknown_of(document.extra, DIALECT) and _format_of(document) is not None


def document_names(messages: Iterable[InputMessage]) -> list[list[str]]:
    """Return the document names of each message, legal and unique in the request.

    A name depends on the documents before it alone, so it is the same in a longer history.
    """
    taken: dict[str, int] = {}
    return [
        [_unique_name(document.title, taken) for document in _documents_of(message.blocks)]
        for message in messages
    ]


def _documents_of(blocks: Iterable[InputBlock]) -> Iterator[Document]:
    for block in blocks:
        if isinstance(block, Document):
            yield block
        elif isinstance(block, ToolResult):
            yield from _documents_of(block.content)


def _unique_name(title: str | None, taken: dict[str, int]) -> str:
    """Return a legal name for a title, numbered if an earlier document has the same name.

    Args:
        title: The title.
        taken: Names so far, with the last number behind each; the new name is added.
    """
    name = known = _legal_name(title)
    while name in taken:
        taken[known] += 1
        name = f"{known} {taken[known]}"
    taken[name] = 1
    return name


def _legal_name(title: str | None) -> str:
    # Room for a space and a number behind it.
    name = _ILLEGAL.sub(" ", title or "").strip()[: _MAX_NAME_CHARS - 10].rstrip()
    return name or _UNTITLED


def file_to_wire(block: File, name: str, losses: Losses) -> _Value | None:
    """Return a file as a content block; None if the API cannot read it (counted as a loss).

    The API fetches nothing: a file is inline, or in S3.

    Args:
        block: The file.
        name: Name of a document.
        losses: Counter of dropped files.
    """
    member, loss = _MEMBERS[type(block)]
    unknown = unknown_of(block.extra, DIALECT)
    source = _source_to_wire(block, unknown)
    format = _format_of(block)
    if source is None or format is None:
        why = "an address outside of S3" if source is None else "of no format that the API has"
        losses.add(loss, "messages", why)
        return None
    value: _Value = {"format": format}
    if isinstance(block, Document):
        value["name"] = name
        if block.title is not None and name != block.title:
            losses.add("document_renamed", "messages", "written with a legal name")
    value["source"] = source
    return {member: value | unknown_fields(unknown, value.keys())}


def _format_of(block: File) -> str | None:
    media_type = (block.media_type or "").lower()
    format = _FORMATS[type(block)].get(media_type)
    if format is None and isinstance(block, Document) and media_type.startswith("text/"):
        return "txt"
    return format or _ALIASES.get(media_type)


_ALIASES = {
    "audio/x-wav": "wav",
    "audio/wave": "wav",
    "image/jpg": "jpeg",
    "video/mov": "mov",
    "video/matroska": "mkv",
    "video/wmv": "wmv",
}


def _source_to_wire(block: File, unknown: _Value) -> _Value | None:
    if block.data is not None:
        original = unknown.get("source")
        if _inline_text(original) == block.data:
            return original
        return {"bytes": base64_of(block.media_type or "", block.data)}
    address = block.url if isinstance(block, Audio | Video) else block.file_id or block.url
    if address is None or not address.startswith("s3://"):
        return None
    before = unknown.get("source")
    owner = before.get("s3Location") if is_object(before) else None
    return {"s3Location": {"uri": address, **(owner if is_object(owner) else {})}}
