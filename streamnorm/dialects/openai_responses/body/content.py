"""Content parts of messages and tool results, and server tool calls, in both directions.

`extra` of a block holds the unknown fields of its part.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Set
from typing import Any, Literal, TypeAlias

from streamnorm._core.blocks import (
    Audio,
    CacheMark,
    Document,
    Image,
    InputBlock,
    OpaqueBlock,
    Refusal,
    ServerToolCall,
    ServerToolResult,
    Text,
    ToolCall,
    Video,
)
from streamnorm._core.bodies.fields import (
    get_array,
    get_str,
    read_objects,
    require_str,
    unknown_fields,
)
from streamnorm._core.bodies.files import PDF, data_url, file_name, split_data_url, title_of
from streamnorm._core.bodies.request import InputMessage
from streamnorm._core.codec import WriteContext
from streamnorm._core.json import compact, is_object, object_in, objects_of, string_of
from streamnorm.dialects.openai_responses.content import (
    citation_from_wire,
    citation_to_wire,
    opaque_from_wire,
)
from streamnorm.dialects.openai_responses.items.types import ARGUMENTS, INPUT, item_type_of
from streamnorm.dialects.openai_responses.wire import DIALECT

Extra: TypeAlias = "dict[str, dict[str, Any]] | None"

Owner: TypeAlias = Literal["message", "call", "custom"]
"""What contains the content: a message, or the result of a function or custom tool call."""

ISSUER = "openai"
"""Vendor of uploaded files."""

_MAX_ITEM_ID_CHARS = 64
_MARK = "prompt_cache_breakpoint"
_TEXTS = frozenset({"input_text", "output_text", "text"})
_PDF_START = "JVBERi0"  # `%PDF-` in Base64
# What OpenAI encrypts is a Fernet token: version 0x80, a time, and at least 64 bytes.
_FERNET_TOKEN = re.compile(r"gAAAA[\w-]{92,}={0,2}", re.ASCII)

# Mapped fields of parts.
_TEXT = frozenset({"type", "text"})
_OUTPUT_TEXT = frozenset({"type", "text", "annotations", "logprobs"})
_REFUSAL = frozenset({"type", "refusal"})
_IMAGE = frozenset({"type", "image_url", "file_id", "detail"})
_FILE = frozenset({"type", "file_data", "file_url", "file_id", "filename"})


def as_extra(fields: dict[str, Any]) -> Extra:
    """Return unknown fields as the `extra` of a unified value; None if there are none."""
    return {DIALECT: fields} if fields else None


def unknown_extra(value: dict[str, Any], mapped: Set[str]) -> Extra:
    """Return the fields of a part that are not `mapped` as `extra`; None if there are none."""
    return as_extra(unknown_fields(value, mapped))


def take_cache_mark(part: dict[str, Any], mapped: Set[str]) -> tuple[CacheMark | None, Extra]:
    """Return the cache mark and the unknown fields (`extra`) of a content part.

    A mark in another mode than `explicit`, or with other fields, is an unknown field.
    """
    rest = unknown_fields(part, mapped)
    if not rest:
        return None, None
    mark = rest.get(_MARK)
    if not is_object(mark) or mark.get("mode") != "explicit" or not mark.keys() <= {"mode", "ttl"}:
        return None, as_extra(rest)
    ttl = mark.get("ttl")
    if ttl is not None and not isinstance(ttl, str):
        return None, as_extra(rest)
    del rest[_MARK]
    return CacheMark(ttl), as_extra(rest)


def mark_to_wire(mark: CacheMark | None) -> dict[str, Any]:
    """Return a cache mark as a field of its part; {} for None."""
    if mark is None:
        return {}
    ttl = {} if mark.ttl is None else {"ttl": mark.ttl}
    return {_MARK: {"mode": "explicit", **ttl}}


def unknown_fields_of(extra: Extra) -> dict[str, Any]:
    """Return the unknown fields of this dialect in `extra`."""
    return extra.get(DIALECT, {}) if extra else {}


def blocks_from_wire(item: dict[str, Any], name: str) -> tuple[InputBlock, ...]:
    """Return the content of an item, a string or parts, as blocks."""
    content = item.get(name)
    if isinstance(content, str):
        return (Text(content),)
    return tuple(read_objects(item.get(name), _block_from_wire, f"$.{name}"))


def client_item_from_wire(item: dict[str, Any]) -> tuple[InputBlock, ...]:
    """Return the blocks of a user or developer item other than a message."""
    if item["type"] != "agent_message":
        return (opaque_from_wire(item),)
    return tuple(map(_read_payload, blocks_from_wire(item, "content")))


def _read_payload(block: InputBlock) -> InputBlock:
    """Return the payload of a message between agents as text, unless OpenAI has encrypted it.

    Codex 0.171 puts an argument of `spawn_agent` into the message as if it was encrypted.  Only
    OpenAI encrypts the arguments of its calls; those of other models are the text itself.
    """
    if not isinstance(block, OpaqueBlock) or block.kind != "encrypted_content":
        return block
    payload = get_str(object_in(block.data), "encrypted_content")
    if payload is None or _FERNET_TOKEN.fullmatch(payload):
        return block
    return Text(payload)


def _block_from_wire(part: dict[str, Any]) -> InputBlock:
    kind = require_str(part, "type")
    if kind in _TEXTS:
        return _text_from_wire(part)
    if kind == "input_image":
        return _image_from_wire(part)
    if kind == "input_file":
        return _file_from_wire(part)
    if kind == "refusal":
        return Refusal(require_str(part, "refusal"), extra=unknown_extra(part, _REFUSAL))
    return opaque_from_wire(part)


def _text_from_wire(part: dict[str, Any]) -> Text:
    text = require_str(part, "text")
    if len(part) == len(_TEXT):
        return Text(text)
    # Only output text has annotations and log probabilities.
    if part["type"] != "output_text":
        mark, extra = take_cache_mark(part, _TEXT)
        return Text(text, cache=mark, extra=extra)
    annotations = get_array(part, "annotations") or ()
    mapped = _OUTPUT_TEXT if not part.get("logprobs") else _OUTPUT_TEXT - {"logprobs"}
    mark, extra = take_cache_mark(part, mapped)
    citations = tuple(map(citation_from_wire, objects_of([*annotations])))
    return Text(text, citations, cache=mark, extra=extra)


def _image_from_wire(part: dict[str, Any]) -> Image | OpaqueBlock:
    url, file_id, detail = (get_str(part, name) for name in ("image_url", "file_id", "detail"))
    if not (url or file_id):
        return opaque_from_wire(part)
    mark, extra = take_cache_mark(part, _IMAGE)
    inline = split_data_url(url) if url else None
    if inline is not None:
        media_type, data = inline
        return Image(media_type or None, data, detail=detail, cache=mark, extra=extra)
    if url:
        return Image(url=url, detail=detail, cache=mark, extra=extra)
    return Image(file_id=file_id, detail=detail, issuer=ISSUER, cache=mark, extra=extra)


def _file_from_wire(part: dict[str, Any]) -> Document | OpaqueBlock:
    data, url, file_id = (get_str(part, name) for name in ("file_data", "file_url", "file_id"))
    title = title_of(get_str(part, "filename"))
    mark, extra = take_cache_mark(part, _FILE)
    if data:
        inline = split_data_url(data)
        # `file_data` may be bare Base64, whose media type only its content shows.
        if inline is None and data.startswith(_PDF_START):
            inline = (PDF, data)
        if inline is not None and inline[0].startswith("text/"):
            inline = _decode_text(*inline)
        if inline is None:
            return opaque_from_wire(part)
        media_type, data = inline
        return Document(media_type or PDF, data, title=title, cache=mark, extra=extra)
    if url:
        return Document(url=url, title=title, cache=mark, extra=extra)
    if file_id:
        return Document(file_id=file_id, title=title, issuer=ISSUER, cache=mark, extra=extra)
    return opaque_from_wire(part)


def _decode_text(media_type: str, data: str) -> tuple[str, str] | None:
    """Return the media type and text of a text file; None if `data` is not UTF-8 in Base64."""
    try:
        return media_type, base64.b64decode(data, validate=True).decode()
    except (binascii.Error, ValueError):
        return None


# To the wire


def content_to_wire(
    blocks: list[InputBlock], context: WriteContext, *, of: Owner
) -> str | list[dict[str, Any]]:
    """Return blocks as content: a string for a single plain text, else parts.

    Args:
        blocks: The content.
        context: Counter of losses.
        of: The item that contains the content.
    """
    if not blocks:
        return "" if of != "message" else []
    first = blocks[0]
    if (
        len(blocks) == 1
        and isinstance(first, Text)
        and not (first.cache or unknown_fields_of(first.extra))
    ):
        return first.text
    parts = (_part_to_wire(block, context, of=of) for block in blocks)
    return [part for part in parts if part is not None]


def _part_to_wire(block: InputBlock, context: WriteContext, *, of: Owner) -> dict[str, Any] | None:
    """Return a block as an input part; None if it is dropped (counted as a loss)."""
    match block:
        case Text(text):
            part: dict[str, Any] = {"type": "input_text", "text": text}
        case Image():
            part = _image_to_wire(block)
            if of != "call":  # the schema requires it, but not in results of functions
                part.setdefault("detail", "auto")
        case Document():
            part = _file_to_wire(block)
        case OpaqueBlock(dialect=dialect, data=data) if dialect == DIALECT:
            return object_in(data)
        case _:
            where = "messages" if of == "message" else "tool result"
            context.losses.add(_feature_of(block), where, "no content part has it")
            return None
    return {**part, **mark_to_wire(block.cache), **unknown_fields_of(block.extra)}


def _feature_of(block: InputBlock) -> str:
    if isinstance(block, Audio):
        return "audio_dropped"
    return "video_dropped" if isinstance(block, Video) else type(block).__name__


def _image_to_wire(image: Image) -> dict[str, Any]:
    part: dict[str, Any] = {"type": "input_image"}
    if image.data is not None:
        part["image_url"] = data_url(image, "image/png")
    elif image.url is not None:
        part["image_url"] = image.url
    else:
        part["file_id"] = image.file_id
    if image.detail is not None:
        part["detail"] = image.detail
    return part


def _file_to_wire(file: Document) -> dict[str, Any]:
    part: dict[str, Any] = {"type": "input_file"}
    if file.title is not None:
        part["filename"] = file.title
    if file.data is not None:
        # The API refuses `file_data` without `filename`.
        part.setdefault("filename", file_name(None, file.media_type or PDF))
        part["file_data"] = data_url(file, PDF)
    elif file.url is not None:
        part["file_url"] = file.url
    else:
        part["file_id"] = file.file_id
    return part


def output_message_to_wire(id: str, part: dict[str, Any]) -> dict[str, Any]:
    """Return an output message with one part."""
    head = {"type": "message", "id": id, "role": "assistant", "status": "completed"}
    return {**head, "content": [part]}


def output_part_to_wire(block: Text | Refusal) -> dict[str, Any]:
    """Return assistant text or a refusal as an output part."""
    if isinstance(block, Refusal):
        return {"type": "refusal", "refusal": block.text}
    citations = [citation_to_wire(citation, len(block.text)) for citation in block.citations]
    return {"type": "output_text", "text": block.text, "annotations": citations}


def without_refused_id(fields: dict[str, Any], kind: str, context: WriteContext) -> dict[str, Any]:
    """Return an item's unknown fields without an id, of another server, that the target refuses.

    OpenAI demands the prefix of the type ("Expected an ID that begins with 'msg'",
    CherryHQ/cherry-studio#20237) and at most 64 characters (caozhiyuan/copilot-api#307).  A server
    that takes any id of reasoning takes any id.

    Args:
        fields: The unknown fields.
        kind: Type of the item.
        context: Context of the writer.
    """
    id, prefix = string_of(fields, "id"), item_type_of(kind).id_prefix
    takes_any = context.capabilities.reasoning_id_pattern is None
    if takes_any or not id or (id.startswith(prefix) and len(id) <= _MAX_ITEM_ID_CHARS):
        return fields
    context.losses.add("item_id", "messages", "dropped")
    # Only an item with an id has a status.
    return {name: value for name, value in fields.items() if name not in ("id", "status")}


def hosted_call_from_wire(item: dict[str, Any]) -> ServerToolCall:
    """Return an item as a server tool call; the item's unmapped fields become the arguments."""
    kind, id = string_of(item, "type"), string_of(item, "id")
    fields = unknown_fields(item, {"id", "type", "status"})
    status = {"status": item["status"]} if "status" in item else {}
    extra = {DIALECT: status} if status else None
    name = string_of(item, "name") or kind
    return ServerToolCall(id, name, compact(fields) if fields else "", kind, extra=extra)


def without_refused_calls(message: InputMessage, context: WriteContext) -> list[InputBlock]:
    """Return an assistant's blocks without calls of xAI's own tools that the target refuses.

    They are custom calls without an output (xai/server-run-custom-call).  Other servers demand
    the output: "No tool output found for custom tool call".
    """
    is_of_xai = context.capabilities.reasoning_issuer == "xai"
    answered = {
        block.tool_call_id for block in message.blocks if isinstance(block, ServerToolResult)
    }
    kept: list[InputBlock] = []
    for block in message.blocks:
        if (
            isinstance(block, ServerToolCall)
            and block.kind == "custom_tool_call"
            and not (is_of_xai or string_of(object_in(block.arguments), "call_id") in answered)
        ):
            context.losses.add("server_history_dropped", "messages", "dropped")
        else:
            kept.append(block)
    return kept


def hosted_call_to_wire(block: ServerToolCall) -> dict[str, Any]:
    """Return a server tool call as an item."""
    item: dict[str, Any] = {"type": block.kind}
    if block.id:
        item["id"] = block.id
    if block.kind.endswith("_call"):
        item["status"] = "completed"
    return {**item, **object_in(block.arguments or "{}"), **unknown_fields_of(block.extra)}


def executed_call(call: ToolCall, result: ServerToolResult) -> ServerToolCall:
    """Return a client tool call that the server has executed as a server tool call.

    Only the item of its result shows that the client is not asked.
    """
    is_custom = call.kind == "custom"
    fields: dict[str, Any] = {"call_id": call.id, "name": call.name}
    fields[INPUT.key if is_custom else ARGUMENTS.key] = call.arguments
    if call.namespace is not None:
        fields["namespace"] = call.namespace
    # The id of the item; `id` of the call is its `call_id`.
    id = string_of(unknown_fields_of(call.extra), "id")
    kind = "custom_tool_call" if is_custom else "function_call"
    return ServerToolCall(id, call.name, compact(fields), kind, extra=call.extra)
