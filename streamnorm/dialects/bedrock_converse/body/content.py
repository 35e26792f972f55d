"""Content blocks of messages, in both directions.

https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ContentBlock.html (read
2026-11-27, botocore 1.44.8).  A block is an object with one member, named by its type.  A cache
point is a block of its own, behind the block that it marks.  Files are in `files.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from msgspec import structs

from streamnorm._core.blocks import (
    Audio,
    CacheMark,
    Document,
    Image,
    InputBlock,
    OpaqueBlock,
    Reasoning,
    RedactedReasoning,
    ResultBlock,
    ServerToolCall,
    ServerToolResult,
    Text,
    ToolCall,
    ToolResult,
    Video,
)
from streamnorm._core.bodies.fields import (
    as_object,
    as_str,
    get_array,
    get_str,
    prefix_path,
    read_array,
    read_objects,
    require_str,
    unknown_fields,
)
from streamnorm._core.bodies.table import unknown_of
from streamnorm._core.bodies.tool_calls import fill_error
from streamnorm._core.codec import WriteContext
from streamnorm._core.errors import DecodeError
from streamnorm._core.failures import Fatal
from streamnorm._core.json import compact, is_object, json_value, string_of
from streamnorm._core.text import Signed, unescape_id
from streamnorm.dialects.bedrock_converse.body.files import (
    FOUND,
    as_extra,
    file_to_wire,
    read_audio,
    read_document,
    read_image,
    read_video,
    text_of,
)
from streamnorm.dialects.bedrock_converse.content import (
    SERVER_TOOL_USE,
    TOOL_RESULT,
    TOOL_USE,
    blob_from_wire,
    citation_from_wire,
    citation_to_wire,
    id_to_wire,
    redacted_from_wire,
    redacted_to_wire,
    result_to_wire,
    signature_from_wire,
    signature_to_wire,
)
from streamnorm.dialects.bedrock_converse.wire import DIALECT

_Value: TypeAlias = "dict[str, Any]"

_MARK, _GUARD, _CITED = "cachePoint", "guardContent", "citationsContent"
_PLAIN_MARK = frozenset({"type", "ttl"})
_CALL = frozenset({"toolUseId", "name", "input", "type"})
_RESULT = frozenset({"toolUseId", "content", "status"})
_SERVER_RESULT = frozenset({"toolUseId", "content"})
_REASONING = frozenset({"text", "signature"})


def member_of(block: object) -> tuple[str, Any]:
    """Return the name and value of the only member of a union.

    Raises:
        DecodeError: The value is no object with one member; a null is no member.
    """
    value = as_object(block)
    members = [name for name, item in value.items() if item is not None]
    if len(members) != 1:
        raise DecodeError(f"object with {len(members)} members, expected one")
    return members[0], value[members[0]]


def mark_from_wire(point: object) -> CacheMark | None:
    """Return a `cachePoint` as a cache mark; None for a cache point of another type."""
    if not is_object(point) or point.get("type") != "default" or not point.keys() <= _PLAIN_MARK:
        return None
    return CacheMark(get_str(point, "ttl"))


def mark_to_wire(mark: CacheMark) -> _Value:
    """Return a cache mark as a `cachePoint` block."""
    lifetime = {} if mark.ttl is None else {"ttl": mark.ttl}
    return {_MARK: {"type": "default", **lifetime}}


def blocks_from_wire(content: object, readers: Mapping[str, _Reader] | None = None) -> list[Any]:
    """Return the blocks of a `content`; its cache points become cache marks.

    A cache point that follows no block, or another point, marks an empty text.

    Args:
        content: The array.
        readers: Readers of the blocks, by type; None for the content of a message.

    Raises:
        DecodeError: A block has several members, or a field has another type than the vendor's.
    """
    known = _READERS if readers is None else readers
    blocks: list[Any] = []

    def read(value: object) -> None:
        kind, item = member_of(value)
        if kind == _MARK and (mark := mark_from_wire(item)) is not None:
            if not blocks or blocks[-1].cache is not None:
                blocks.append(Text(""))
            blocks[-1] = structs.replace(blocks[-1], cache=mark)
            return
        reader = known.get(kind)
        try:
            block = None if reader is None else reader(item)
        except DecodeError as exc:
            raise prefix_path(exc, f"$.{kind}") from None
        blocks.append(OpaqueBlock(DIALECT, kind, compact(value)) if block is None else block)

    read_array(content, read)
    return blocks


def _text_from_wire(value: object) -> Text:
    return Text(as_str(value))


def guarded_from_wire(value: object) -> Text | None:
    """Return a `guardContent` as a text block; None if it has no text."""
    guarded = as_object(value)
    inner = guarded.get("text")
    if not is_object(inner) or len(guarded) != 1:
        return None
    text = require_str(inner, "text")
    return Text(text, extra={DIALECT: {_GUARD: unknown_fields(inner, {"text"})}})


def _cited_from_wire(value: object) -> Text | None:
    """Return `citationsContent` as a text block; None if a part is not text."""
    cited = as_object(value)
    text = text_of(get_array(cited, "content") or [], "")
    if text is None:
        return None
    citations = tuple(read_objects(cited.get("citations"), citation_from_wire, "$.citations"))
    unknown = unknown_fields(cited, {"content", "citations"})
    return Text(text, citations, extra=as_extra({_CITED: unknown} if unknown else {}))


def _reasoning_from_wire(value: object) -> Reasoning | RedactedReasoning | None:
    kind, item = member_of(value)
    if kind == "redactedContent":
        try:
            return redacted_from_wire(blob_from_wire(as_str(item)))
        except Fatal as exc:
            raise DecodeError(exc.error.message, path="$.redactedContent") from None
    if kind != "reasoningText":
        return None
    inner = as_object(item, "$.reasoningText")
    text, signature = get_str(inner, "text") or "", get_str(inner, "signature")
    issued = signature_from_wire(signature) if signature else ()
    extra = as_extra(unknown_fields(inner, _REASONING))
    return Reasoning((text,) if text else (), *issued, extra=extra)


def _call_from_wire(value: object) -> ToolCall | ServerToolCall:
    call = as_object(value)
    id, name = require_str(call, "toolUseId"), require_str(call, "name")
    given = call.get("input")
    # The API demands an object; clients that join the deltas of a stream send their text.
    arguments = given if isinstance(given, str) else compact(given)
    if given is None or not arguments.strip():
        arguments = "{}"
    type = get_str(call, "type")
    if type == SERVER_TOOL_USE:
        extra = as_extra(unknown_fields(call, _CALL))
        return ServerToolCall(id, name, arguments, TOOL_USE, extra=extra)
    # Claude's calls have the type `tool_use`, which tells no more than no type.
    known = _CALL if type in (None, "tool_use") else _CALL - {"type"}
    return ToolCall(unescape_id(id), name, arguments, extra=as_extra(unknown_fields(call, known)))


def _result_from_wire(value: object) -> ToolResult | ServerToolResult:
    """Return a `toolResult` with a `type` as a server tool's result, others as a client tool's."""
    result = as_object(value)
    id, content = require_str(result, "toolUseId"), get_array(result, "content") or []
    if result.get("type") is not None:
        extra = as_extra(unknown_fields(result, _SERVER_RESULT))
        is_error = result.get("status") == "error"
        return ServerToolResult(id, TOOL_RESULT, content, is_error, extra=extra)
    try:
        blocks = blocks_from_wire(content, _RESULT_READERS)
    except DecodeError as exc:
        raise prefix_path(exc, "$.content") from None
    only = content[0].get("json") if len(content) == 1 else None
    original = compact(only) if is_object(only) else None
    is_error = get_str(result, "status") == "error"
    extra = as_extra(unknown_fields(result, _RESULT))
    return ToolResult(unescape_id(id), tuple(blocks), is_error, value=original, extra=extra)


def _json_from_wire(value: object) -> Text:
    return Text(compact(value))


def _search_result_from_wire(value: object) -> Document | None:
    """Return a `searchResult` as a text document."""
    found = as_object(value)
    text = text_of(found.get("content"), "\n")
    if text is None:
        return None
    title = get_str(found, "title")
    rest = found if title is None else unknown_fields(found, {"title"})
    return Document("text/plain", text, title=title, extra={DIALECT: {FOUND: rest}})


_Reader: TypeAlias = "Callable[[object], InputBlock | None]"

_RESULT_READERS: dict[str, _Reader] = {
    "text": _text_from_wire,
    "json": _json_from_wire,
    "image": read_image,
    "document": read_document,
    "video": read_video,
    FOUND: _search_result_from_wire,
}
_READERS: dict[str, _Reader] = {
    "text": _text_from_wire,
    "image": read_image,
    "document": read_document,
    "video": read_video,
    "audio": read_audio,
    TOOL_USE: _call_from_wire,
    TOOL_RESULT: _result_from_wire,
    "reasoningContent": _reasoning_from_wire,
    _CITED: _cited_from_wire,
    _GUARD: guarded_from_wire,
    FOUND: _search_result_from_wire,
}


def _is_pdf(item: _Value) -> bool:
    return string_of(item["document"], "format") == "pdf"


class ContentWriter:
    """Encoder of the blocks of one message.

    Args:
        context: Capabilities of the target, and its losses.
        names: Names of the message's documents, in order.
    """

    def __init__(self, context: WriteContext, names: Sequence[str]) -> None:
        self._context = context
        self._names = iter(names)

    def write(self, blocks: tuple[InputBlock, ...], path: str) -> list[_Value]:
        """Return blocks as a `content`, with cache points after the marked blocks.

        Blank texts are left out: the API refuses them with "The text field in the ContentBlock
        object is blank".

        Args:
            blocks: The projected blocks.
            path: Path of the message, for errors.

        Raises:
            EncodeError: A block has no legal form.
        """
        content: list[_Value] = []
        for number, block in enumerate(blocks):
            if not isinstance(block, Text) or block.text.strip():
                value = self.write_block(block, f"{path}.blocks[{number}]")
                if value is None:
                    continue
                content.append(value)
            # A point marks all that stands before it, which must not be nothing.
            if block.cache is not None and content:
                self._add_point(mark_to_wire(block.cache), content)
        return content

    def _add_point(self, point: _Value, content: list[_Value]) -> None:
        """Add a cache point behind the last block, or before documents that are read as text.

        Claude refuses one directly behind such a document, with "content.2.type: Field required"
        (aws/aws-sdk-java-v2#6277, strands-agents/harness-sdk#1966).
        """
        end = len(content)
        while end and "document" in content[end - 1] and not _is_pdf(content[end - 1]):
            end -= 1
        if not end or (end < len(content) and _MARK in content[end - 1]):
            self._context.losses.add("cache_mark_dropped", "messages", "behind a document")
            return
        if end < len(content):
            self._context.losses.add("cache_mark_moved", "messages", "before a document")
        content.insert(end, point)

    def write_block(self, block: InputBlock, path: str) -> _Value | None:
        """Return a block of a request or response; None if it is dropped (counted as a loss).

        Raises:
            EncodeError: The block has no legal form.
        """
        match block:
            case Text():
                return text_to_wire(block)
            case ToolCall(id, name):
                return self._call(block, id, name, {}, path)
            case ToolResult():
                return self._result(block, path)
            case Reasoning():
                return self._reasoning(block)
            case RedactedReasoning():
                return {"reasoningContent": {"redactedContent": redacted_to_wire(block)}}
            case Image() | Document() | Audio() | Video():
                return self._file(block)
            case OpaqueBlock():
                return self._opaque(block, path)
            case ServerToolCall(id, name, arguments):
                call = ToolCall(id, name, arguments, extra=block.extra)
                return self._call(call, id, name, {"type": SERVER_TOOL_USE}, path)
            case ServerToolResult(content=content):
                value = {**result_to_wire(block), "content": content}
                unknown = unknown_of(block.extra, DIALECT)
                return {TOOL_RESULT: value | unknown_fields(unknown, value.keys())}
            case _:
                raise AssertionError(f"{type(block).__name__} passed the projection")

    def _call(self, call: ToolCall, id: str, name: str, fields: _Value, path: str) -> _Value:
        value: _Value = {"toolUseId": id_to_wire(id), "name": name}
        value["input"] = self._context.arguments_of(call, path)
        value |= fields
        return {TOOL_USE: value | unknown_fields(unknown_of(call.extra, DIALECT), value.keys())}

    def _reasoning(self, block: Reasoning) -> _Value:
        value: _Value = {"text": block.text}
        if block.signature is not None:
            signed = Signed(block.signature, block.issuer, block.id)
            value["signature"] = signature_to_wire(signed)
        value |= unknown_fields(unknown_of(block.extra, DIALECT), value.keys())
        return {"reasoningContent": {"reasoningText": value}}

    def _opaque(self, block: OpaqueBlock, path: str) -> _Value | None:
        """Return an opaque block as its JSON object; None if only a stream can carry it."""
        value: _Value = json_value(block.data, "data", path)
        if "deltas" not in value:
            return value
        if is_object(start := value.get("start")) and not value["deltas"]:
            return start
        self._context.losses.add("opaque_block", "messages", "of a stream, dropped")
        return None

    def _file(self, block: Image | Document | Audio | Video) -> _Value | None:
        name = next(self._names) if isinstance(block, Document) else ""
        found = unknown_of(block.extra, DIALECT).get(FOUND)
        if isinstance(block, Document) and is_object(found):
            # The caller may have replaced the text.
            is_same = text_of(found.get("content"), "\n") == block.data
            fields = found if is_same else {**found, "content": [{"text": block.data}]}
            return {FOUND: {"title": block.title or "", **fields}}
        return file_to_wire(block, name, self._context.losses)

    def _result(self, result: ToolResult, path: str) -> _Value:
        content: list[_Value] = []
        original = None if result.value is None else json_value(result.value, "value", path)
        is_written = is_object(original)  # the API takes no other JSON value
        if is_written:
            content.append({"json": original})
        for item in result.content:
            # The texts of a result with a value are the text of that value.
            if not (is_written and isinstance(item, Text)):
                written = self._result_item(item, path)
                content += [] if written is None else [written]
        # aws-samples/sample-multi-agent-orchestration-chat-on-agentcore#15
        if result.is_error and all(_is_blank(item) for item in content):
            content = [{"text": fill_error(self._context.losses)}]
        value: _Value = {"toolUseId": id_to_wire(result.tool_call_id), "content": content}
        if result.is_error:
            value["status"] = "error"
        unknown = unknown_fields(unknown_of(result.extra, DIALECT), value.keys())
        return {TOOL_RESULT: value | unknown}

    def _result_item(self, item: ResultBlock, path: str) -> _Value | None:
        # Blank text is refused in a message and accepted in a result; a result has no citations.
        return {"text": item.text} if isinstance(item, Text) else self.write_block(item, path)


def _is_blank(item: _Value) -> bool:
    text = item.get("text")
    return isinstance(text, str) and not text.strip()


def text_to_wire(block: Text) -> _Value:
    """Return a text block as `text`, `citationsContent` or `guardContent`."""
    unknown = unknown_of(block.extra, DIALECT)
    if is_object(guard := unknown.get(_GUARD)):
        return {_GUARD: {"text": {"text": block.text, **guard}}}
    if not block.citations:
        return {"text": block.text}
    citations = [citation_to_wire(citation) for citation in block.citations]
    rest: _Value = unknown.get(_CITED) or {}
    return {_CITED: {"content": [{"text": block.text}], "citations": citations, **rest}}
