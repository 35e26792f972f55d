"""Content other than text and calls, in both directions: signatures, citations, opaque events.

An encrypted value is one string, while a signature has an issuer and may be bound to an item:
the string is tagged with both.  pydantic-ai packs a JSON object with the same fields.  Citations
are an entry each in `metadata` of the message.  Opaque events change no block: state, activities,
steps, raw events.
"""

from __future__ import annotations

from typing import Any

from streamnorm._core.blocks import Citation, RedactedReasoning
from streamnorm._core.events import Opaque, SignatureDelta
from streamnorm._core.json import compact, count_of, encode_line, is_object, object_in, string_of
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
from streamnorm.dialects.ag_ui.capabilities import URL_CITATION
from streamnorm.dialects.ag_ui.wire import DIALECT


def signature_to_wire(event: SignatureDelta) -> str:
    """Return the encrypted value of a signature."""
    return tag_signature(event.signature, event.issuer, event.id)


def redacted_to_wire(block: RedactedReasoning) -> str:
    """Return the encrypted value of redacted reasoning."""
    return tag_redacted_reasoning(block.data, block.issuer, block.id)


def redacted_from_wire(value: str) -> RedactedReasoning | None:
    """Return the redacted reasoning in an encrypted value; None if the value is none."""
    redacted = untag_redacted_reasoning(value) or unpack_redacted_reasoning(_packed(value))
    return None if redacted is None else RedactedReasoning(*redacted)


def signature_from_wire(value: str) -> Signed | None:
    """Return the signature in an encrypted value; None if the value has claims alone.

    pydantic-ai also packs claims about a call or a result, which it reads back itself.
    """
    signed = untag_signature(value) or unpack_signature(_packed(value))
    return Signed(value) if signed is None and not _packed(value) else signed


def item_id_of(value: str) -> str | None:
    """Return the id of the item that an encrypted value of pydantic-ai names; None for others."""
    return unpack_item_id(_packed(value))


def _packed(value: str) -> dict[str, Any]:
    return object_in(value) if value.startswith("{") else {}


_TEXTS = {"url": "url", "title": "title", "cited_text": "citedText"}
_EXTRA = "extra"
_POSITIONS = ("start", "end")


def citation_to_wire(citation: Citation) -> dict[str, Any]:
    """Return the entry of a citation."""
    fields = {wire: getattr(citation, name) for name, wire in _TEXTS.items()}
    fields |= {name: getattr(citation, name) for name in _POSITIONS}
    fields[_EXTRA] = citation.extra
    return {name: value for name, value in fields.items() if value is not None}


def citation_from_wire(entry: dict[str, Any]) -> Citation:
    """Return the citation of an entry."""
    fields: dict[str, Any] = {name: string_of(entry, wire) or None for name, wire in _TEXTS.items()}
    fields |= {name: count_of(entry.get(name)) for name in _POSITIONS}
    extra = entry.get(_EXTRA)
    fields["extra"] = extra if is_object(extra) else None
    return Citation(URL_CITATION, **fields)


def event_from_wire(name: str, value: Any) -> Opaque:
    """Return an event as data that only this dialect knows."""
    return Opaque(DIALECT, name, compact(value))


def event_to_wire(event: Opaque) -> bytes:
    """Return the frame of an event."""
    return b"data: %b\n\n" % encode_line(event.data)
