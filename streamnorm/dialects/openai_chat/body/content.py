"""Content parts of messages in both directions, with cache marks and unknown fields.

`extra` of a block holds the unknown fields of its part.  The unknown fields of an inner object,
such as `image_url.url_type`, stand there in an object of that name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from typing import Any, TypeAlias

from msgspec import structs

from streamnorm._core.blocks import (
    Audio,
    CacheMark,
    Document,
    Image,
    InputBlock,
    OpaqueBlock,
    Refusal,
    Text,
    file_block,
)
from streamnorm._core.bodies.fields import (
    as_object,
    get_str,
    read_array,
    require_str,
    unexpected,
    unknown_fields,
)
from streamnorm._core.bodies.files import PDF, data_url, file_name, split_data_url, title_of
from streamnorm._core.bodies.table import Field, Table, add_unknown, unknown_of
from streamnorm._core.codec import WriteContext
from streamnorm._core.errors import EncodeError
from streamnorm._core.json import compact, is_array, is_object, json_value

DIALECT = "openai_chat"

Extra: TypeAlias = "dict[str, dict[str, Any]] | None"

# Cache marks, each with the key and the word that identify it: the vendor's, and Anthropic's,
# which OpenRouter and LiteLLM accept.
_MARKS = {
    "prompt_cache_breakpoint": ("mode", "explicit"),
    "cache_control": ("type", "ephemeral"),
}
_ISSUER = "openai"

# Mapped fields of parts.
_TEXT = frozenset({"type", "text"})
_REFUSAL = frozenset({"type", "refusal"})

_AUDIO_FORMATS = {
    "audio/wav": "wav",
    "audio/wave": "wav",
    "audio/x-wav": "wav",
    "audio/mp3": "mp3",
    "audio/mpeg": "mp3",
}


def as_extra(fields: dict[str, Any]) -> Extra:
    """Return unknown fields as the `extra` of a unified value; None if there are none."""
    return {DIALECT: fields} if fields else None


def add_unknown_fields(value: dict[str, Any], extra: Extra) -> dict[str, Any]:
    """Add the unknown fields in `extra` to a wire object; return the object."""
    return add_unknown(value, unknown_of(extra, DIALECT)) if extra else value


def take_cache_mark(
    part: dict[str, Any], mapped: Set[str], inner: dict[str, Any] | None = None
) -> tuple[CacheMark | None, Extra]:
    """Return the cache mark and the unknown fields (`extra`) of a part.

    A mark with more than a lifetime is an unknown field.

    Args:
        part: The part.
        mapped: Fields that have a unified counterpart.
        inner: Unknown fields of inner objects, by name, as `{"image_url": {…}}`.
    """
    rest = unknown_fields(part, mapped, with_nulls=True)
    if not rest and not inner:
        return None, None
    mark: CacheMark | None = None
    for name, (key, word) in _MARKS.items():
        value = rest.get(name)
        if mark is None and is_object(value) and value.get(key) == word:
            ttl = value.get("ttl")
            if value.keys() <= {key, "ttl"} and (ttl is None or isinstance(ttl, str)):
                mark = CacheMark(ttl)
                del rest[name]
    if inner:
        rest |= {name: fields for name, fields in inner.items() if fields}
    return mark, as_extra(rest)


def mark_to_wire(mark: CacheMark) -> dict[str, Any]:
    """Return a cache mark as a field of its part."""
    ttl = {} if mark.ttl is None else {"ttl": mark.ttl}
    return {"prompt_cache_breakpoint": {"mode": "explicit", **ttl}}


def content_from_wire(message: dict[str, Any]) -> tuple[InputBlock, ...]:
    """Return the blocks of a message's `content`; [] for "" and null.

    Raises:
        DecodeError: The content is neither a string nor an array of parts.
    """
    content = message.get("content")
    if isinstance(content, str):
        return (Text(content),) if content else ()
    if content is None:
        return ()
    if not is_array(content):
        raise unexpected(content, "a string or an array", "$.content")
    return tuple(read_array(content, _part_from_wire, "$.content"))


def _part_from_wire(part: object) -> InputBlock:
    if isinstance(part, str):  # as Mistral has it
        return Text(part)
    if not is_object(part):
        raise unexpected(part, "an object", "$")
    kind = part.get("type")
    if kind == "text":
        text = require_str(part, "text")
        if len(part) == 2:
            return Text(text)
        mark, extra = take_cache_mark(part, _TEXT)
        return Text(text, cache=mark, extra=extra)
    if not isinstance(kind, str):
        raise unexpected(kind, "a string", "$.type")
    read = _READERS.get(kind)
    return _opaque_from_wire(kind, part) if read is None else read(part)


def _opaque_from_wire(kind: str, part: dict[str, Any]) -> OpaqueBlock:
    return OpaqueBlock(DIALECT, kind, compact(part))


def _refusal_from_wire(part: dict[str, Any]) -> Refusal:
    text = require_str(part, "refusal")
    mark, extra = take_cache_mark(part, _REFUSAL)
    return Refusal(text, cache=mark, extra=extra)


_IMAGE_URL = Table(Field("url", get_str, required="a string"), Field("detail", get_str))
_INPUT_AUDIO = Table(Field("data", get_str, required="a string"), Field("format", get_str))
_FILE = Table(
    Field("data", get_str, wire="file_data"),
    Field("file_id", get_str),
    Field("title", get_str, wire="filename"),
)


def _read_inner(
    part: dict[str, Any], name: str, table: Table, text: str = ""
) -> tuple[dict[str, Any], CacheMark | None, Extra]:
    """Return the fields of a part's inner object, its cache mark, and its unknown fields.

    Args:
        part: The part.
        name: Name of the inner object.
        table: Fields of the inner object.
        text: The field of the inner object that clients send alone as a string.
    """
    value = part.get(name)
    if text and isinstance(value, str):
        value = {text: value}
    fields, unknown = table.read_field({name: as_object(value, f"$.{name}")}, name)
    mark, extra = take_cache_mark(part, {"type", name}, {name: unknown})
    return fields, mark, extra


def _image_from_wire(part: dict[str, Any]) -> Image:
    # Mistral and many clients send the URL alone.
    image, mark, extra = _read_inner(part, "image_url", _IMAGE_URL, "url")
    inline = split_data_url(image["url"])
    if inline is None:
        return Image(**image, cache=mark, extra=extra)
    return Image(inline[0] or None, inline[1], detail=image.get("detail"), cache=mark, extra=extra)


def _audio_from_wire(part: dict[str, Any]) -> Audio:
    # Mistral takes the data alone.
    audio, mark, extra = _read_inner(part, "input_audio", _INPUT_AUDIO, "data")
    media_type, data = f"audio/{audio.get('format') or 'wav'}", audio["data"]
    inline = split_data_url(data)  # as Qwen wants it
    if inline is not None:
        media_type, data = inline[0] or media_type, inline[1]
    return Audio(media_type, data, cache=mark, extra=extra)


def _file_from_wire(part: dict[str, Any]) -> InputBlock:
    file, mark, extra = _read_inner(part, "file", _FILE)
    data, file_id, title = file.get("data"), file.get("file_id"), title_of(file.get("title"))
    if data is None:
        if file_id is None:
            return _opaque_from_wire("file", part)
        return Document(title=title, file_id=file_id, issuer=_ISSUER, cache=mark, extra=extra)
    inline = split_data_url(data)
    if inline is None:
        if data.startswith(("http://", "https://")):  # OpenRouter
            return Document(url=data, title=title, cache=mark, extra=extra)
        inline = "", data
    media_type, data = inline[0] or PDF, inline[1]
    if media_type.startswith("text/"):
        text = file_block(media_type, data, None)
        if text is None or text.data is None:
            return _opaque_from_wire("file", part)
        data = text.data
    return Document(media_type, data, title=title, cache=mark, extra=extra)


_READERS: dict[str, Callable[[dict[str, Any]], InputBlock]] = {
    "image_url": _image_from_wire,
    "input_audio": _audio_from_wire,
    "file": _file_from_wire,
    "refusal": _refusal_from_wire,
}


def content_to_wire(
    blocks: Sequence[InputBlock], context: WriteContext, mark: CacheMark | None = None
) -> str | list[dict[str, Any]]:
    """Return a message's content: a string for a single unmarked text, else parts.

    Args:
        blocks: The blocks of the message.
        context: Capabilities of the target, and the counter of losses.
        mark: Cache mark to set on the last part.

    Raises:
        EncodeError: A block has no content part.
    """
    if len(blocks) == 1 and mark is None:
        (block,) = blocks
        if type(block) is Text and block.cache is None and not block.extra:
            return block.text
    parts = [part for block in blocks if (part := part_to_wire(block, context)) is not None]
    if not parts:
        if mark is not None:
            context.losses.add("cache_mark_dropped", "messages", "dropped")
        return ""
    if mark is not None:
        parts[-1] |= mark_to_wire(mark)
    return parts


def part_to_wire(block: InputBlock, context: WriteContext) -> dict[str, Any] | None:
    """Return a block as a content part; None if it is dropped (counted as a loss).

    Raises:
        EncodeError: Blocks of this type have no content part.
    """
    part: dict[str, Any]
    match block:
        case Text(text):
            part = {"type": "text", "text": text}
        case Image(file_id=str(file_id)):
            context.losses.add("image_as_file", "messages", "written as a file with its id")
            part = {"type": "file", "file": {"file_id": file_id}}
        case Image():
            part = {"type": "image_url", "image_url": _image_to_wire(block)}
        case Document():
            part = {"type": "file", "file": _file_to_wire(block)}
        case Audio():
            if block.data is None or block.media_type not in _AUDIO_FORMATS:
                context.losses.add("audio_dropped", "messages", "neither WAV nor MP3")
                return None
            part = {"type": "input_audio", "input_audio": _audio_to_wire(block, context)}
        case Refusal(text):
            part = {"type": "refusal", "refusal": text}
        case OpaqueBlock(data=data):
            part = json_value(data, "data")
        case other:
            found = type(other).__name__
            raise EncodeError(f"{found} in a message, expected text or a file", path="")
    if block.cache is not None:
        part |= mark_to_wire(block.cache)
    return add_unknown_fields(part, block.extra)


def _audio_to_wire(audio: Audio, context: WriteContext) -> dict[str, Any]:
    media_type = audio.media_type or ""
    data = data_url(audio, media_type) if context.capabilities.audio_data_urls else audio.data
    return {"data": data, "format": _AUDIO_FORMATS[media_type]}


def _image_to_wire(image: Image) -> dict[str, Any]:
    url = image.url if image.data is None else data_url(image, "image/png")
    return _IMAGE_URL.write(structs.replace(image, url=url or ""))


def _file_to_wire(document: Document) -> dict[str, Any]:
    if document.file_id is not None:
        title = {} if document.title is None else {"filename": document.title}
        return {"file_id": document.file_id, **title}
    url = document.url or "" if document.data is None else data_url(document, PDF)
    return {"filename": file_name(document.title, document.media_type or PDF), "file_data": url}
