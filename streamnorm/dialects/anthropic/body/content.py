"""Content blocks of messages, in both directions.

https://platform.claude.com/docs/en/api/messages (read 2026-11-22).  First the fields that every
block shares (cache control, unknown fields), then opaque blocks, images and documents, and last
the content of a message with its blocks by type.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from typing import Any, TypeAlias

from msgspec import structs

from streamnorm._core.blocks import (
    CacheMark,
    Document,
    Image,
    InputBlock,
    OpaqueBlock,
    Reasoning,
    RedactedReasoning,
    ServerToolCall,
    ServerToolResult,
    Text,
    ToolCall,
    ToolResult,
)
from streamnorm._core.bodies.fields import (
    as_object,
    get_bool,
    get_object,
    get_objects,
    get_str,
    prefix_path,
    require_str,
    unexpected,
    unknown_fields,
)
from streamnorm._core.bodies.table import (
    Field,
    Table,
    WithRest,
    add_unknown,
    constant,
    unknown_of,
)
from streamnorm._core.bodies.tool_calls import fill_error
from streamnorm._core.codec import WriteContext
from streamnorm._core.errors import DecodeError, EncodeError
from streamnorm._core.json import compact, is_array, is_object, json_value, string_of
from streamnorm._core.text import Signed, escape_id, unescape_id
from streamnorm.dialects.anthropic.content import (
    call_to_wire,
    citation_from_wire,
    citation_to_wire,
    input_from_wire,
    redacted_from_wire,
    redacted_to_wire,
    result_fields,
    result_from_wire,
    result_to_wire,
    signature_from_wire,
    signature_to_wire,
)
from streamnorm.dialects.anthropic.wire import DIALECT

Extra: TypeAlias = "dict[str, dict[str, Any]] | None"

_MARK = "cache_control"
_PLAIN_MARK = frozenset({"type", "ttl"})
_FILE = frozenset({"type", "source"})
_TITLED = frozenset({"type", "source", "title"})
_FOUND = frozenset({"type", "title"})
_SOURCES = {
    "base64": Table(
        constant("type", "base64"),
        Field("media_type", get_str, required="a string"),
        Field("data", get_str, required="a string"),
    ),
    "text": Table(
        constant("type", "text"),
        Field("media_type", get_str, write=lambda _, __: "text/plain"),
        Field("data", get_str, required="a string"),
    ),
    "url": Table(constant("type", "url"), Field("url", get_str, required="a string")),
    "file": Table(constant("type", "file"), Field("file_id", get_str, required="a string")),
}
_PDF = "application/pdf"
_TEXT = frozenset({"type", "text"})
_CITED_TEXT = frozenset({"type", "text", "citations"})
_THINKING = frozenset({"type", "thinking", "signature"})
_REDACTED = frozenset({"type", "data"})
_CALL = frozenset({"type", "id", "name", "input"})
_RESULT = frozenset({"type", "tool_use_id", "content", "is_error"})

_Value: TypeAlias = "dict[str, Any]"
_Readers: TypeAlias = "Mapping[str, Callable[[_Value, str | None], InputBlock]]"


def split_cache_mark(value: dict[str, Any], mapped: Set[str]) -> tuple[CacheMark | None, Extra]:
    """Return the cache mark and the unknown fields (`extra`) of a part.

    Unknown fields of the mark itself, such as Claude Code's `scope`, stay in `cache_control`
    without its type.

    Args:
        value: The part.
        mapped: Names of its fields that have a unified field.
    """
    unknown = unknown_fields(value, mapped)
    if not unknown:
        return None, None
    if unknown.get(_MARK) is None:
        return None, {DIALECT: unknown}
    try:
        mark = mark_from_wire(unknown[_MARK])
    except DecodeError as exc:
        raise prefix_path(exc, f"$.{_MARK}") from None
    if mark is None:
        return None, {DIALECT: unknown}
    del unknown[_MARK]
    if mark.rest:
        unknown[_MARK] = mark.rest
    return mark.value, as_extra(unknown)


def mark_from_wire(value: object) -> WithRest | None:
    """Return a `cache_control` as cache mark and unknown fields; None for unknown types."""
    mark = as_object(value)
    if mark.get("type") != "ephemeral":
        return None
    ttl = get_str(mark, "ttl")
    return WithRest(CacheMark(ttl), unknown_fields(mark, {"type"} if ttl is None else _PLAIN_MARK))


def mark_to_wire(mark: CacheMark, writing: object = None) -> dict[str, Any]:
    """Return a cache mark as `cache_control`."""
    return {"type": "ephemeral"} if mark.ttl is None else {"type": "ephemeral", "ttl": mark.ttl}


def as_extra(unknown: dict[str, Any]) -> Extra:
    """Return unknown fields as `extra`; None if there are none."""
    return {DIALECT: unknown} if unknown else None


def add_extra(value: dict[str, Any], mark: CacheMark | None, unknown: dict[str, Any]) -> None:
    """Add the cache mark and the unknown fields of a part to its JSON object."""
    if mark is not None:
        value[_MARK] = mark_to_wire(mark)
    add_unknown(value, unknown)
    drop_untyped(value, _MARK)


def drop_untyped(value: dict[str, Any], *names: str) -> dict[str, Any]:
    """Remove the fields `names` that hold an object without `type`; return `value`.

    They are the unknown fields of an object that was removed since it was read.
    """
    for name in names:
        if is_object(field := value.get(name)) and "type" not in field:
            del value[name]
    return value


def opaque_from_wire(kind: str, block: dict[str, Any]) -> OpaqueBlock:
    """Return a block of an unknown type as an opaque block, without its cache mark."""
    mark = block.get(_MARK)
    # A mark with unknown fields stays in the data: `CacheMark` holds the lifetime alone.
    if not (is_object(mark) and mark.keys() <= _PLAIN_MARK):
        return OpaqueBlock(DIALECT, kind, compact(block))
    cache, _ = split_cache_mark({_MARK: mark}, frozenset())
    data = {name: item for name, item in block.items() if name != _MARK}
    return OpaqueBlock(DIALECT, kind, compact(data), cache=cache)


def opaque_to_wire(block: OpaqueBlock, path: str) -> dict[str, Any]:
    """Return an opaque block as its JSON object.

    Raises:
        EncodeError: The data of the block are no JSON.
    """
    value: dict[str, Any] = json_value(block.data, "data", path)
    if block.cache is not None:
        value[_MARK] = mark_to_wire(block.cache)
    return value


def _image_from_wire(block: dict[str, Any], server: str | None) -> Image | OpaqueBlock:
    """Return an `image` block; opaque if the type of its source is unknown."""
    source = _source_from_wire(block)
    if source is None:
        return opaque_from_wire("image", block)
    fields, unknown = source
    mark, extra = split_cache_mark(block, _FILE)
    return Image(**fields, cache=mark, extra=_add_source_fields(extra, unknown))


def _document_from_wire(block: dict[str, Any], server: str | None) -> Document | OpaqueBlock:
    """Return a `document` block; opaque if the type of its source is unknown.

    A source of text blocks (`content`) becomes their joined text.  The source stays an unknown
    field, which is written back while the text is unchanged.
    """
    source = _source_from_wire(block)
    title = get_str(block, "title")
    mark, extra = split_cache_mark(block, _FILE if title is None else _TITLED)
    if source is not None:
        fields, unknown = source
        extra = _add_source_fields(extra, unknown)
        return Document(**fields, title=title, cache=mark, extra=extra)
    content = get_object(block, "source") or {}
    text = _text_of(content.get("content"))
    if text is None:
        return opaque_from_wire("document", block)
    extra = _add_source_fields(extra, content)
    return Document("text/plain", text, title=title, cache=mark, extra=extra)


def _search_result_from_wire(block: dict[str, Any], server: str | None) -> Document | OpaqueBlock:
    """Return a `search_result` as a text document."""
    text = _text_of(block.get("content"))
    if text is None:
        return opaque_from_wire("search_result", block)
    title = get_str(block, "title")
    mark, extra = split_cache_mark(block, _FOUND)
    found = {DIALECT: {"search_result": unknown_of(extra, DIALECT)}}
    return Document("text/plain", text, title=title, cache=mark, extra=found)


def _image_to_wire(block: Image, path: str) -> dict[str, Any]:
    """Return an image as an `image` block.

    Raises:
        EncodeError: The image has data without a media type, or neither data, URL nor id.
    """
    value: dict[str, Any] = {"type": "image", "source": _source_to_wire(block, path)}
    add_extra(value, block.cache, unknown_of(block.extra, DIALECT))
    return value


def _document_to_wire(block: Document, context: WriteContext, path: str) -> dict[str, Any] | None:
    """Return a document as a `document` or `search_result`; None if it is dropped.

    The API reads text and PDF alone; any other document is dropped and counted as a loss.

    Raises:
        EncodeError: The document has data without a media type, or neither data, URL nor id.
    """
    unknown = unknown_of(block.extra, DIALECT)
    for name in ("search_result", "source"):
        original = unknown.get(name)
        if not is_object(original) or "content" not in original:
            continue
        if _text_of(original["content"]) != block.data:  # the caller has replaced the text
            unknown = unknown_fields(unknown, {name})
    if is_object(search_result := unknown.get("search_result")):
        result = {"type": "search_result", "title": block.title or "", **search_result}
        if block.cache is not None:
            result[_MARK] = mark_to_wire(block.cache)
        return result
    if _is_refused(block):
        context.losses.add("document_dropped", "messages", "neither text nor PDF")
        return None
    source: dict[str, Any] = _source_to_wire(block, path)
    if "content" in unknown.get("source", ()):
        source = unknown["source"]
    value: dict[str, Any] = {"type": "document", "source": source}
    if source["type"] == "text" and block.media_type != "text/plain":
        context.losses.add("media_type", "messages", "written as text/plain")
    if block.title is not None:
        value["title"] = block.title
    add_extra(value, block.cache, unknown)
    return value


def _is_refused(block: Document) -> bool:
    """Return whether the API refuses a document: neither PDF nor inline text."""
    media_type = block.media_type
    if media_type is None or media_type == _PDF or (block.data is None and block.url is None):
        return False
    return block.data is None or not media_type.startswith("text/")


def _source_from_wire(block: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """Return a `source` as fields of a file block and unknown fields; None for unknown types."""
    source = get_object(block, "source") or {}
    table = _SOURCES.get(string_of(source, "type"))
    if table is None:
        return None
    fields, unknown = table.read_field(block, "source")
    if "file_id" in fields:
        fields["issuer"] = DIALECT
    elif "data" in fields:
        fields.setdefault("media_type", "text/plain")
    return fields, unknown


def _add_source_fields(extra: Extra, unknown: dict[str, Any]) -> Extra:
    """Return `extra` with a source's unknown fields under `source`."""
    return {DIALECT: {**unknown_of(extra, DIALECT), "source": unknown}} if unknown else extra


def _source_to_wire(block: Image | Document, path: str) -> dict[str, Any]:
    if block.data is not None:
        if block.media_type is None:
            raise EncodeError("file without a media type, expected one", path=path)
        is_text = isinstance(block, Document) and block.media_type.startswith("text/")
        return _SOURCES["text" if is_text else "base64"].write(block)
    if block.url is not None:
        return _SOURCES["url"].write(block)
    if block.file_id is not None:
        return _SOURCES["file"].write(block)
    raise EncodeError("file without content, expected data, a URL or an id", path=path)


def _text_of(content: object) -> str | None:
    """Return the joined text of a `content`; None if it has blocks other than text."""
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


def blocks_from_wire(content: object, server: str | None) -> tuple[InputBlock, ...]:
    """Return the blocks of a message's `content`: a string, an array of blocks, or null.

    Raises:
        DecodeError: The content has another type, or a block lacks a required field.
    """
    return _blocks_from_wire(content, server, _READERS)


def _blocks_from_wire(content: object, server: str | None, readers: _Readers) -> tuple[Any, ...]:
    if isinstance(content, str):
        return (Text(content),)
    if content is None:
        return ()
    if not is_array(content):
        raise unexpected(content, "a string or an array", "$.content")
    blocks: list[InputBlock] = []
    try:
        # Not `read_array`: a call for each block costs a fifth of the reading of a history.
        for value in content:
            block = as_object(value)
            kind = block.get("type")
            read = readers.get(kind) if isinstance(kind, str) else None
            blocks.append(_unlisted_from_wire(block) if read is None else read(block, server))
    except DecodeError as exc:
        raise prefix_path(exc, f"$.content[{len(blocks)}]") from None
    return tuple(blocks)


def text_from_wire(block: _Value, server: str | None) -> Text:
    """Return a `text` block."""
    text = require_str(block, "text")
    if len(block) == len(_TEXT):
        return Text(text)
    citations = tuple(citation_from_wire(item) for _, item in get_objects(block, "citations"))
    mark, extra = split_cache_mark(block, _CITED_TEXT if citations else _TEXT)
    return Text(text, citations, cache=mark, extra=extra)


_RESULT_READERS: _Readers = {
    "text": text_from_wire,
    "image": _image_from_wire,
    "document": _document_from_wire,
    "search_result": _search_result_from_wire,
}


def _thinking_from_wire(block: _Value, server: str | None) -> Reasoning:
    text, signature = require_str(block, "thinking"), get_str(block, "signature")
    issued = signature_from_wire(signature, server) if signature else ()
    mark, extra = split_cache_mark(block, _THINKING)
    return Reasoning((text,) if text else (), *issued, cache=mark, extra=extra)


def _redacted_from_wire(block: _Value, server: str | None) -> RedactedReasoning:
    redacted = redacted_from_wire(require_str(block, "data"), server)
    mark, extra = split_cache_mark(block, _REDACTED)
    return structs.replace(redacted, cache=mark, extra=extra)


def _call_from_wire(block: _Value, server: str | None) -> ToolCall:
    id, name = unescape_id(require_str(block, "id")), require_str(block, "name")
    arguments = input_from_wire(block, None) or "{}"
    mark, extra = split_cache_mark(block, _CALL)
    return ToolCall(id, name, arguments, cache=mark, extra=extra)


def _server_call_from_wire(block: _Value, server: str | None) -> ServerToolCall:
    id, name = require_str(block, "id"), require_str(block, "name")
    arguments = input_from_wire(block, None) or "{}"
    mark, extra = split_cache_mark(block, _CALL)
    return ServerToolCall(id, name, arguments, block["type"], cache=mark, extra=extra)


def _result_from_wire(block: _Value, server: str | None) -> ToolResult:
    id = unescape_id(require_str(block, "tool_use_id"))
    content = block.get("content") or None  # "" and [] are results without content
    blocks = _blocks_from_wire(content, server, _RESULT_READERS)
    is_error = get_bool(block, "is_error") is True
    mark, extra = split_cache_mark(block, _RESULT)
    return ToolResult(id, blocks, is_error, cache=mark, extra=extra)


_READERS: _Readers = {
    **_RESULT_READERS,
    "thinking": _thinking_from_wire,
    "redacted_thinking": _redacted_from_wire,
    "tool_use": _call_from_wire,
    "tool_result": _result_from_wire,
    "server_tool_use": _server_call_from_wire,
    "mcp_tool_use": _server_call_from_wire,
}


def _unlisted_from_wire(block: _Value) -> InputBlock:
    """Return a block whose type ends in `_tool_result` as a server result, else as opaque.

    Anthropic adds server tools from time to time; their results are all `…_tool_result`.
    """
    kind = require_str(block, "type")
    if not kind.endswith("_tool_result"):
        return opaque_from_wire(kind, block)
    result = result_from_wire(kind, require_str(block, "tool_use_id"), block)
    mark, extra = split_cache_mark(block, result_fields(result))
    return structs.replace(result, cache=mark, extra=extra)


def content_to_wire(
    blocks: tuple[InputBlock, ...], context: WriteContext, path: str
) -> str | list[_Value]:
    """Return blocks as a `content`: a string for a single plain text, else an array.

    Blocks of blank text are left out: models write them, and the API refuses them with "text
    content blocks must be non-empty" (anomalyco/opencode#17381).

    Args:
        blocks: The projected blocks.
        context: Capabilities of the target, and its losses.
        path: Path of the part that holds the blocks, such as `messages[3]`.

    Raises:
        EncodeError: A block has no legal form.
    """
    if len(blocks) == 1:
        only = blocks[0]
        if isinstance(only, Text) and not (only.cache or only.extra or only.citations):
            return only.text
    written: list[_Value] = []
    for number, block in enumerate(blocks):
        if isinstance(block, Text) and not block.text.strip():
            continue
        value = block_to_wire(block, context, f"{path}.blocks[{number}]")
        if value is not None:
            written.append(value)
    return written


def block_to_wire(block: InputBlock, context: WriteContext, path: str) -> _Value | None:
    """Return a block of a request or response; None if it is dropped and counted as lost.

    Raises:
        EncodeError: The block has no legal form.
    """
    value: _Value
    match block:
        case Text(text, citations):
            value = {"type": "text", "text": text}
            if citations:
                value["citations"] = [citation_to_wire(citation) for citation in citations]
        case ToolCall():
            value = call_to_wire(block)
            value["input"] = context.arguments_of(block, path)
        case ToolResult():
            value = _result_to_wire(block, context, path)
        case Reasoning(signature=signature, issuer=issuer, id=id):
            verifier, signed = context.capabilities.reasoning_issuer, ""
            if signature is not None:
                signed = signature_to_wire(Signed(signature, issuer, id), verifier)
            # Both fields are required, even for thinking that no vendor has signed.
            value = {"type": "thinking", "thinking": block.text, "signature": signed}
        case RedactedReasoning():
            value = redacted_to_wire(block, context.capabilities.reasoning_issuer)
        case Image():
            return _image_to_wire(block, path)
        case Document():
            return _document_to_wire(block, context, path)
        case OpaqueBlock():
            return opaque_to_wire(block, path)
        case ServerToolCall(id, name, arguments):
            value = call_to_wire(block)
            value["input"] = context.arguments_of(ToolCall(id, name, arguments), path)
        case ServerToolResult():
            value = result_to_wire(block)
        case _:
            raise AssertionError(f"{type(block).__name__} passed the projection")
    if block.cache is not None or block.extra is not None:
        add_extra(value, block.cache, unknown_of(block.extra, DIALECT))
    return value


def _result_to_wire(block: ToolResult, context: WriteContext, path: str) -> _Value:
    value: _Value = {"type": "tool_result", "tool_use_id": escape_id(block.tool_call_id)}
    content = content_to_wire(block.content, context, path)
    if block.is_error and not (content.strip() if isinstance(content, str) else content):
        # anthropics/claude-agent-sdk-python#248
        content = fill_error(context.losses)
    if content or isinstance(content, str):  # the API refuses an empty array, not an empty text
        value["content"] = content
    if block.is_error:
        value["is_error"] = True
    return value
