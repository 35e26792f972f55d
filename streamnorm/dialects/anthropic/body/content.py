"""Content blocks of messages, in both directions.

https://platform.claude.com/docs/en/api/messages (read 2026-11-22).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from msgspec import structs

from streamnorm._core.blocks import (
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
    boolean_in,
    object_at,
    objects_in,
    required_text,
    text_in,
    unexpected,
    within,
)
from streamnorm._core.codec import WriteContext
from streamnorm._core.errors import DecodeError
from streamnorm._core.ids import Signed, escape_id, unescape_id
from streamnorm._core.json import is_array
from streamnorm.dialects.anthropic.body.extra import (
    add_rest,
    mark_and_rest,
    opaque_from_wire,
    opaque_to_wire,
    own_fields,
)
from streamnorm.dialects.anthropic.body.media import (
    document_from_wire,
    document_to_wire,
    image_from_wire,
    image_to_wire,
    search_result_from_wire,
)
from streamnorm.dialects.anthropic.citations import citation_from_wire, citation_to_wire
from streamnorm.dialects.anthropic.reasoning import (
    redacted_from_wire,
    redacted_to_wire,
    signature_from_wire,
    signature_to_wire,
)
from streamnorm.dialects.anthropic.tool_calls import (
    call_to_wire,
    input_from_wire,
    result_from_wire,
    result_to_wire,
)

__all__ = ["block_to_wire", "blocks_from_wire", "content_to_wire", "text_from_wire"]

_TEXT = frozenset({"type", "text"})
_CITED_TEXT = frozenset({"type", "text", "citations"})
_THINKING = frozenset({"type", "thinking", "signature"})
_REDACTED = frozenset({"type", "data"})
_CALL = frozenset({"type", "id", "name", "input"})
_RESULT = frozenset({"type", "tool_use_id", "content", "is_error"})
_SERVER_RESULT = frozenset({"type", "tool_use_id", "content"})

_Value: TypeAlias = "dict[str, Any]"
_Readers: TypeAlias = "Mapping[str, Callable[[_Value, str | None], InputBlock]]"


def blocks_from_wire(content: object, server: str | None) -> tuple[InputBlock, ...]:
    """Return the blocks of a message's content, which is text, blocks or null.

    Raises:
        DecodeError: It is something else, or a block lacks a required field.
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
        for value in content:
            block = object_at(value, "$")
            kind = block.get("type")
            read = readers.get(kind) if isinstance(kind, str) else None
            blocks.append(_other_from_wire(block) if read is None else read(block, server))
    except DecodeError as exc:
        raise within(exc, f"$.content[{len(blocks)}]") from None
    return tuple(blocks)


def text_from_wire(block: _Value, server: str | None) -> Text:
    """Return a `text` block."""
    text = required_text(block, "text")
    if len(block) == len(_TEXT):
        return Text(text)
    citations = tuple(citation_from_wire(item) for _, item in objects_in(block, "citations"))
    mark, extra = mark_and_rest(block, _CITED_TEXT if citations else _TEXT)
    return Text(text, citations, cache=mark, extra=extra)


def _thinking_from_wire(block: _Value, server: str | None) -> Reasoning:
    text, signature = required_text(block, "thinking"), text_in(block, "signature")
    issued = signature_from_wire(signature, server) if signature else ()
    mark, extra = mark_and_rest(block, _THINKING)
    return Reasoning((text,) if text else (), *issued, cache=mark, extra=extra)


def _redacted_from_wire(block: _Value, server: str | None) -> RedactedReasoning:
    redacted = redacted_from_wire(required_text(block, "data"), server)
    mark, extra = mark_and_rest(block, _REDACTED)
    return structs.replace(redacted, cache=mark, extra=extra)


def _call_from_wire(block: _Value, server: str | None) -> ToolCall:
    id, name = unescape_id(required_text(block, "id")), required_text(block, "name")
    arguments = input_from_wire(block, None) or "{}"
    mark, extra = mark_and_rest(block, _CALL)
    return ToolCall(id, name, arguments, cache=mark, extra=extra)


def _server_call_from_wire(block: _Value, server: str | None) -> ServerToolCall:
    id, name = required_text(block, "id"), required_text(block, "name")
    arguments = input_from_wire(block, None) or "{}"
    mark, extra = mark_and_rest(block, _CALL)
    return ServerToolCall(id, name, arguments, block["type"], cache=mark, extra=extra)


def _result_from_wire(block: _Value, server: str | None) -> ToolResult:
    id = unescape_id(required_text(block, "tool_use_id"))
    content = block.get("content") or None  # "" is no block
    blocks = _blocks_from_wire(content, server, _RESULT_READERS)
    is_error = boolean_in(block, "is_error") is True
    mark, extra = mark_and_rest(block, _RESULT)
    return ToolResult(id, blocks, is_error, cache=mark, extra=extra)


def _other_from_wire(block: _Value) -> InputBlock:
    """Return the result of a server tool, or a block of an unknown type."""
    kind = required_text(block, "type")
    if not kind.endswith("_tool_result"):
        return opaque_from_wire(kind, block)
    result = result_from_wire(kind, required_text(block, "tool_use_id"), block)
    mark, extra = mark_and_rest(block, _SERVER_RESULT)
    return structs.replace(result, cache=mark, extra=extra)


_RESULT_READERS: _Readers = {
    "text": text_from_wire,
    "image": image_from_wire,
    "document": document_from_wire,
    "search_result": search_result_from_wire,
}
_READERS: _Readers = {
    **_RESULT_READERS,
    "thinking": _thinking_from_wire,
    "redacted_thinking": _redacted_from_wire,
    "tool_use": _call_from_wire,
    "tool_result": _result_from_wire,
    "server_tool_use": _server_call_from_wire,
    "mcp_tool_use": _server_call_from_wire,
}


def content_to_wire(
    blocks: tuple[InputBlock, ...], context: WriteContext, path: str
) -> str | list[_Value]:
    """Return content: text if it is one plain text, else blocks.

    Blocks of blank text are left out: the API refuses them, and models write them.

    Args:
        blocks: The blocks, as projected.
        context: What the writer needs.
        path: Of the part that has the blocks, such as `messages[3]`.

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
    """Return a block of a request or a response; None if it cannot be written, which is counted.

    Raises:
        EncodeError: It has no legal form.
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
            value = {"type": "thinking", "thinking": block.text, "signature": signed}
        case RedactedReasoning():
            value = redacted_to_wire(block, context.capabilities.reasoning_issuer)
        case Image():
            return image_to_wire(block, path)
        case Document():
            return document_to_wire(block, context, path)
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
        add_rest(value, block.cache, own_fields(block.extra))
    return value


def _result_to_wire(block: ToolResult, context: WriteContext, path: str) -> _Value:
    value: _Value = {"type": "tool_result", "tool_use_id": escape_id(block.tool_call_id)}
    content = content_to_wire(block.content, context, path)
    if content or isinstance(content, str):  # an empty array is refused
        value["content"] = content
    if block.is_error:
        value["is_error"] = True
    return value
