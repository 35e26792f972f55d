"""Signatures, citations, opaque events and tool results, in both directions.

An encrypted value is one string, while a signature has an issuer and may be bound to an item:
the string is tagged with both.  pydantic-ai packs a JSON object with the same fields.  Citations
are an entry each in `metadata` of the message.  Opaque events change no block: state, activities,
steps, raw events.

AG-UI has no mark of calls that the provider executed, or that are not whole: a client takes a call
without a result for its own.  The encoder marks call and result in `metadata`, and answers each
call.
"""

from __future__ import annotations

import re
from typing import Any

from streamnorm._core.blocks import Citation, RedactedReasoning, ServerToolCall, ServerToolResult
from streamnorm._core.events import Opaque, SignatureDelta
from streamnorm._core.json import (
    clean,
    compact,
    count_of,
    encode_line,
    is_json,
    is_object,
    object_in,
    string_of,
)
from streamnorm._core.text import (
    Signed,
    tag_redacted_reasoning,
    tag_signature,
    unpack_item_id,
    unpack_redacted_reasoning,
    unpack_signature,
    untag_redacted_reasoning,
    untag_signature,
)
from streamnorm.dialects.ag_ui.traits import URL_CITATION
from streamnorm.dialects.ag_ui.wire import DIALECT, IS_ERROR, IS_JSON, PROVIDER_EXECUTED


def signature_to_wire(event: SignatureDelta) -> str:
    """Return the encrypted value of a signature."""
    return tag_signature(event.signature, event.issuer, event.id)


def redacted_to_wire(block: RedactedReasoning) -> str:
    """Return the encrypted value of redacted reasoning."""
    return tag_redacted_reasoning(block.data, block.issuer, block.id)


def redacted_from_wire(value: str) -> RedactedReasoning | None:
    """Return the redacted reasoning in an encrypted value; None for other values."""
    redacted = untag_redacted_reasoning(value) or unpack_redacted_reasoning(_decode_packed(value))
    return None if redacted is None else RedactedReasoning(*redacted)


def signature_from_wire(value: str) -> Signed | None:
    """Return the signature in an encrypted value; None for other values.

    pydantic-ai also packs claims about a call or a result, which it reads back itself.
    """
    signed = untag_signature(value) or unpack_signature(_decode_packed(value))
    return Signed(value) if signed is None and not _decode_packed(value) else signed


def item_id_of(value: str) -> str | None:
    """Return the item id in an encrypted value of pydantic-ai; None for other values."""
    return unpack_item_id(_decode_packed(value))


_PART_ID = re.compile(r"(.*)\.([0-9]{1,6})", re.DOTALL)


def part_id(span_id: str, number: int) -> str:
    """Return the id of a reasoning message: the id of its span and its number in the span."""
    return f"{span_id}.{number}"


def is_next_part(before: str, id: str) -> bool:
    """Return whether two ids are of consecutive reasoning messages of one span."""
    first, second = _PART_ID.fullmatch(before), _PART_ID.fullmatch(id)
    if first is None or second is None:
        return False
    return first[1] == second[1] and int(first[2]) + 1 == int(second[2])


def _decode_packed(value: str) -> dict[str, Any]:
    return object_in(value) if value.startswith("{") else {}


_TEXTS = {"url": "url", "title": "title", "cited_text": "citedText"}
_EXTRA = "extra"
_POSITIONS = ("start", "end")


def citation_to_wire(citation: Citation) -> dict[str, Any]:
    """Return a citation as its wire entry."""
    fields = {wire: getattr(citation, name) for name, wire in _TEXTS.items()}
    fields |= {name: getattr(citation, name) for name in _POSITIONS}
    fields[_EXTRA] = citation.extra
    return {name: value for name, value in fields.items() if value is not None}


def citation_from_wire(entry: dict[str, Any]) -> Citation:
    """Return a wire entry as a citation."""
    fields: dict[str, Any] = {name: string_of(entry, wire) or None for name, wire in _TEXTS.items()}
    fields |= {name: count_of(entry.get(name)) for name in _POSITIONS}
    extra = entry.get(_EXTRA)
    fields["extra"] = extra if is_object(extra) else None
    return Citation(URL_CITATION, **fields)


def event_from_wire(name: str, value: Any) -> Opaque:
    """Return an event without a unified form as opaque data."""
    return Opaque(DIALECT, name, compact(value))


def event_to_wire(event: Opaque) -> bytes:
    """Return the frame of an opaque event."""
    return b"data: %b\n\n" % encode_line(event.data)


PYDANTIC_SERVER_CALL = "pyd_ai_builtin|"
"""Start of the ids of calls that pydantic-ai's providers execute."""

_KIND = "kind"
_UNANSWERED = "isUnanswered"
_CUT = "isCut"

BROKEN = "the arguments of the call are no JSON"
UNFINISHED = "the arguments of the call ended early"
NO_ARGUMENTS = "the answer ended before the arguments of the call"


def mark_of(block: ServerToolCall) -> dict[str, Any]:
    """Return the `metadata` that marks a call as executed by the provider."""
    return {PROVIDER_EXECUTED: True, _KIND: block.kind}


def is_server_call(metadata: Any) -> bool:
    """Return whether `metadata` marks a call as executed by the provider."""
    return is_object(metadata) and metadata.get(PROVIDER_EXECUTED) is True


def kind_of(metadata: dict[str, Any]) -> str:
    """Return the vendor's tool type in the `metadata` of a provider-executed call or result."""
    return string_of(metadata, _KIND)


def result_to_wire(result: ServerToolResult) -> dict[str, Any]:
    """Return the `content` and `metadata` of a result."""
    is_text = isinstance(result.content, str)
    metadata = {PROVIDER_EXECUTED: True, _KIND: result.kind, IS_JSON: not is_text}
    if result.is_error:
        metadata[IS_ERROR] = True
    return {
        "content": result.content if is_text else compact(result.content),
        "metadata": metadata,
    }


def unanswered_to_wire() -> dict[str, Any]:
    """Return the `content` and `metadata` of a made-up result for an unanswered server call."""
    return {"content": "", "metadata": {PROVIDER_EXECUTED: True, _UNANSWERED: True}}


def is_unanswered(metadata: Any) -> bool:
    """Return whether a result was made up for an unanswered server call."""
    return is_object(metadata) and metadata.get(_UNANSWERED) is True


def cut_to_wire(problem: str) -> dict[str, Any]:
    """Return the `content` and `metadata` of a made-up result for an incomplete call.

    Args:
        problem: What is wrong with its arguments.
    """
    return {"content": problem, "metadata": {IS_ERROR: True, _CUT: True}}


def is_made_up(metadata: Any) -> bool:
    """Return whether the encoder made up a result: neither provider nor client sent it."""
    return is_unanswered(metadata) or (is_object(metadata) and metadata.get(_CUT) is True)


def value_from_wire(content: object, metadata: Any) -> str | None:
    """Return the JSON text of a client's result that is marked as a JSON object, else None."""
    if not is_object(metadata) or metadata.get(IS_JSON) is not True or not isinstance(content, str):
        return None
    return content if content.startswith("{") and is_json(content) else None


def result_from_wire(call_id: str, content: Any, metadata: Any) -> ServerToolResult:
    """Return the result of a server tool."""
    fields = metadata if is_object(metadata) else {}
    if isinstance(content, str):
        content = clean(content)
        if fields.get(IS_JSON) is True and is_json(content):
            content = object_in(f'{{"value":{content}}}').get("value", content)
    return ServerToolResult(call_id, kind_of(fields), content, fields.get(IS_ERROR) is True)
