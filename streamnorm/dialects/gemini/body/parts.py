"""Parts of a request's contents as blocks, and back.

https://ai.google.dev/api/caching#Part (read 2026-11-23).  A part has one datum and any number
of modifiers, among them the signature of what the model wrote.
"""

from __future__ import annotations

from typing import Any

from streamnorm._core.blocks import (
    Audio,
    Document,
    Image,
    InputBlock,
    OpaqueBlock,
    Reasoning,
    RedactedReasoning,
    ServerToolCall,
    ServerToolResult,
    Text,
    Video,
)
from streamnorm._core.bodies.fields import text_in, unexpected, within
from streamnorm._core.codec import WriteContext
from streamnorm._core.errors import DecodeError, EncodeError
from streamnorm._core.failures import Fatal
from streamnorm._core.ids import Signed
from streamnorm._core.json import compact, is_object, json_value, string_of
from streamnorm.dialects.gemini.body.calls import call_from_wire
from streamnorm.dialects.gemini.body.fields import add_extra, camel, extra_of
from streamnorm.dialects.gemini.body.media import ISSUER, file_from_wire, file_to_wire
from streamnorm.dialects.gemini.body.results import result_from_wire
from streamnorm.dialects.gemini.reasoning import (
    is_decodable,
    redacted_from_wire,
    redacted_to_wire,
    signature_from_wire,
)
from streamnorm.dialects.gemini.tool_calls.parts import server_call_from_wire
from streamnorm.dialects.gemini.wire import DIALECT, RawPart, data_field

__all__ = ["block_to_wire", "read_part"]

_NO_RAW = RawPart()
_MODIFIERS = frozenset({"thought", "thoughtSignature"})
_FREQUENT = ("functionCall", "functionResponse")
_PLACEHOLDERS = frozenset(
    {"skip_thought_signature_validator", "context_engineering_is_the_way_to_go"}
)
"""Documented values that stand for a signature, and are none."""


def read_part(part: Any, blocks: list[InputBlock]) -> None:
    """Append the blocks of one part.

    Raises:
        DecodeError: It is no part, has several data, or a field of another type than the
            vendor's.
    """
    if not is_object(part):
        raise unexpected(part, "an object", "$")
    text = part.get("text")
    if type(text) is str and len(part) == 1:
        blocks.append(Text(text))
        return
    field, value, others = _datum(camel(part))
    if field == "text":
        blocks += _texts(value, others)
        return
    try:
        blocks.append(_block(field, value, others))
    except DecodeError as exc:
        raise within(exc, f"$.{field}") from None


def _datum(part: dict[str, Any]) -> tuple[str, Any, dict[str, Any]]:
    """Return the field with the data of a part, its value, and the other fields."""
    for field in _FREQUENT:
        value = part.get(field)
        if value is None:
            continue
        if len(part) == 1:
            return field, value, {}
        if len(part) == 2 and "thoughtSignature" in part:
            return field, value, {"thoughtSignature": part["thoughtSignature"]}
    try:
        field = data_field(part)
    except Fatal as fatal:
        raise DecodeError(fatal.error.message, path="$") from None
    others = {
        key: item
        for key, item in part.items()
        if key != field and (key, item) not in (("text", ""), ("thought", False))
    }
    return field, part.get(field), others


def _block(field: str, value: Any, modifiers: dict[str, Any]) -> InputBlock:
    match field:
        case "functionCall" if is_object(value):
            signed = _signature(modifiers.pop("thoughtSignature", None))
            return call_from_wire(value, signed, modifiers)
        case "functionResponse" if is_object(value):
            return result_from_wire(value, modifiers)
        case "inlineData" | "fileData" if is_object(value) and not modifiers.get("thought"):
            return file_from_wire(field, value, modifiers)
        case "executableCode" | "toolCall" if is_object(value):
            call, text = server_call_from_wire(field, value, _NO_RAW)
            return ServerToolCall(call.id, call.name, text, kind=field, extra=extra_of(modifiers))
        case "codeExecutionResult" | "toolResponse" if is_object(value):
            id = string_of(value, "id")
            return ServerToolResult(id, field, value, extra=extra_of(modifiers))
        case _:
            return OpaqueBlock(DIALECT, field, compact(value), extra=extra_of(modifiers))


def _signature(value: object) -> Signed | None:
    """Return the signature in a field, and who issued it; None if it has none."""
    if not isinstance(value, str) or not value or value in _PLACEHOLDERS:
        return None
    return signature_from_wire(value)


def _texts(value: Any, others: dict[str, Any]) -> list[InputBlock]:
    """Return the blocks of text or of a thought."""
    text = text_in({"text": value}, "text") or ""
    thought, wire = others.get("thought") is True, others.get("thoughtSignature")
    redacted = redacted_from_wire(wire) if isinstance(wire, str) else None
    if redacted is not None:
        plain = Reasoning((text,)) if thought else Text(text)
        return [plain, redacted] if text else [redacted]
    signed = _signature(wire)
    extra = extra_of(
        {key: item for key, item in others.items() if key not in _MODIFIERS or item is None}
    )
    if thought:
        return [Reasoning((text,) if text else (), *(signed or ()), extra=extra)]
    signature, issuer, _ = signed or (None, None, None)
    return [Text(text, signature=signature, issuer=issuer, extra=extra)]


def block_to_wire(block: InputBlock, context: WriteContext) -> dict[str, Any]:
    """Return a block that is no call and no result as a part.

    Raises:
        EncodeError: The dialect has no part for it.
    """
    match block:
        case Text(text):
            part: dict[str, Any] = {"text": text}
            if block.signature is not None:
                _sign(part, block, context)
        case Reasoning():
            part = {"text": block.text, "thought": True}
            if len(block.parts) > 1:
                context.losses.add("reasoning_parts", "messages", "joined by a blank line")
            if block.signature is not None:
                _sign(part, block, context)
        case RedactedReasoning():
            part = {"text": "", "thought": True, "thoughtSignature": redacted_to_wire(block)}
        case Image() | Document() | Audio() | Video():
            return file_to_wire(block, context)
        case ServerToolCall(_, _, arguments, kind):
            part = {kind: json_value(arguments, "arguments")}
        case ServerToolResult(_, kind, content):
            part = {kind: dict(content) if is_object(content) else content}
        case OpaqueBlock(_, kind, data):
            part = {kind: json_value(data, "data")}
        case _:
            raise EncodeError(f"{type(block).__name__}, expected a block with a part", path="")
    return part if block.extra is None else add_extra(part, block.extra)


def _sign(part: dict[str, Any], block: Text | Reasoning, context: WriteContext) -> None:
    """Add the signature of a block; another vendor's is of no use to Google, nor a cut one."""
    if block.issuer == ISSUER and is_decodable(block.signature or ""):
        part["thoughtSignature"] = block.signature
    else:
        context.losses.add("signature_dropped", "messages", "dropped")
