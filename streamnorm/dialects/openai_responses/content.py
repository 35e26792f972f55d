"""Reasoning, citations and opaque items, in both directions.

Reasoning is encrypted: `encrypted_content`, and its issuer.  Citations are the annotations of an
`output_text` part.  Opaque events, items and content parts are stored as JSON text.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from streamnorm._core.blocks import Citation, OpaqueBlock, RedactedReasoning
from streamnorm._core.events import Opaque
from streamnorm._core.json import (
    FAST_ERRORS,
    clean,
    compact,
    encode_line,
    is_array,
    is_object,
    string_of,
)
from streamnorm._core.text import (
    Signed,
    tag_redacted_reasoning,
    tag_signature,
    untag_redacted_reasoning,
    untag_signature,
)
from streamnorm.dialects.openai_responses.wire import DIALECT

# Issuers by OpenRouter's `format`, which names the vendor whose reasoning it forwards.
_ISSUER_BY_FORMAT = {
    "anthropic-claude-v1": "anthropic",
    "google-gemini-v1": "google",
    "xai-responses-v1": "xai",
}
# Servers whose encrypted reasoning is not OpenAI's.
_ISSUER_BY_SERVER = {"xai": "xai"}
# Issuers that bind encrypted reasoning to the id of its item (maximhq/bifrost#5186).
_BINDING_ISSUERS = frozenset({"openai", "xai"})


def signature_from_wire(item: dict[str, Any], server: str | None) -> Signed | None:
    """Return a reasoning item's `encrypted_content` with its issuer; None without this field."""
    encrypted = string_of(item, "encrypted_content")
    if not encrypted:
        return None
    tagged = untag_signature(encrypted)
    if tagged is not None:
        return tagged
    named = _ISSUER_BY_FORMAT.get(string_of(item, "format"))
    issuer = named or _ISSUER_BY_SERVER.get(server or "", "openai")
    id = string_of(item, "id") if issuer in _BINDING_ISSUERS else ""
    return Signed(encrypted, issuer, id or None)


def signature_to_wire(signed: Signed, item_id: str) -> str:
    """Return a signature as `encrypted_content`.

    It is tagged with issuer and id unless OpenAI issued it for this item: OpenAI refuses
    encrypted content under a different id.
    """
    is_verifiable = signed.issuer == "openai" and signed.id == item_id
    return signed.signature if is_verifiable else tag_signature(*signed)


def redacted_from_wire(item: dict[str, Any]) -> RedactedReasoning | None:
    """Return the redacted reasoning of another vendor that an item carries; else None."""
    tagged = untag_redacted_reasoning(string_of(item, "encrypted_content"))
    return None if tagged is None else RedactedReasoning(*tagged)


def redacted_to_wire(block: RedactedReasoning) -> str:
    """Return another vendor's redacted reasoning as `encrypted_content`."""
    return tag_redacted_reasoning(block.data, block.issuer, block.id)


def citation_from_wire(annotation: dict[str, Any]) -> Citation:
    """Return an annotation as a citation, whose offsets are characters of the part."""
    rest = {key: value for key, value in annotation.items() if key != "type" and value is not None}

    def text(key: str) -> str | None:
        return clean(rest.pop(key)) if isinstance(rest.get(key), str) else None

    def offset(key: str) -> int | None:
        return rest.pop(key) if type(rest.get(key)) is int else None

    kind = annotation.get("type")
    return Citation(
        clean(kind) if isinstance(kind, str) else "",
        url=text("url"),
        title=text("title"),
        cited_text=text("content"),  # added by OpenRouter
        start=offset("start_index"),
        end=offset("end_index"),
        extra=rest or None,
    )


def citation_to_wire(citation: Citation, text_length: int) -> dict[str, Any]:
    """Return a citation as an annotation; a missing end becomes `text_length`."""
    annotation: dict[str, Any] = {**(citation.extra or {}), "type": citation.kind}
    start, end, url, title = citation.start, citation.end, citation.url, citation.title
    if citation.kind == "url_citation":  # all of its fields are required
        start, end = start or 0, text_length if end is None else end
        url, title = url or "", title or ""
    fields = {"start_index": start, "end_index": end, "url": url, "title": title}
    annotation |= {key: value for key, value in fields.items() if value is not None}
    if citation.cited_text is not None:
        annotation["content"] = citation.cited_text
    return annotation


_LINE_BREAKS = re.compile("[\r\n\0]")


def event_from_wire(event_type: str, payload: Any, index: int | None = None) -> Opaque:
    """Return a wire event of an unknown type as an opaque event."""
    return Opaque(DIALECT, event_type, compact(payload), index)


def event_to_wire(event: Opaque, position: dict[str, Any]) -> tuple[str, dict[str, Any]] | None:
    """Return the wire type and fields of an opaque event; None if its data is no JSON object.

    Args:
        event: The event.
        position: Item id and indexes of the written item; {} without an item.
    """
    value = _decode(event.data)
    if not is_object(value):
        return None
    fields = {key: item for key, item in value.items() if key not in ("type", "sequence_number")}
    fields |= {key: item for key, item in position.items() if key in fields}
    # A line break in the event type would begin another frame.
    return _LINE_BREAKS.sub(" ", clean(event.name)), fields


def opaque_from_wire(item: dict[str, Any]) -> OpaqueBlock:
    """Return an item or content part of an unknown type as an opaque block."""
    return OpaqueBlock(DIALECT, string_of(item, "type"), compact(item))


def opaque_to_wire(data: str) -> bytes:
    """Return an opaque item or content part as JSON on one line."""
    return encode_line(data)


def logprobs_from_wire(tokens: Any, index: int) -> Opaque:
    """Return the log probabilities of block `index` as an opaque event."""
    return event_from_wire("logprobs", tokens, index)


def logprobs_to_wire(event: Opaque) -> list[Any] | None:
    """Return log probabilities as an array; None for other values."""
    tokens = _decode(event.data)
    return tokens if is_array(tokens) else None


def _decode(data: str) -> Any:
    try:
        return msgspec.json.decode(data)
    except FAST_ERRORS:
        return None
