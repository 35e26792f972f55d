"""Encrypted values: signatures and redacted reasoning, in both directions.

An encrypted value is one string, while a signature has an issuer and may be bound to an item:
the string is tagged with both.  pydantic-ai packs a JSON object with the same fields.
"""

from __future__ import annotations

from streamnorm._core.blocks import RedactedReasoning
from streamnorm._core.events import SignatureDelta
from streamnorm._core.json import object_in, string_of
from streamnorm._core.text import (
    Signed,
    tag_redacted_reasoning,
    tag_signature,
    untag_redacted_reasoning,
    untag_signature,
)


def signature_to_wire(event: SignatureDelta) -> str:
    """Return the encrypted value of a signature."""
    return tag_signature(event.signature, event.issuer, event.id)


def redacted_to_wire(block: RedactedReasoning) -> str:
    """Return the encrypted value of redacted reasoning."""
    return tag_redacted_reasoning(block.data, block.issuer, block.id)


def redacted_from_wire(value: str) -> RedactedReasoning | None:
    """Return the redacted reasoning in an encrypted value; None if the value is a signature."""
    redacted = untag_redacted_reasoning(value)
    return None if redacted is None else RedactedReasoning(*redacted)


def signature_from_wire(value: str) -> Signed:
    """Return the signature in an encrypted value."""
    signed = untag_signature(value)
    if signed is not None:
        return signed
    # `pydantic_ai/ui/ag_ui/_event_stream.py` of pydantic-ai (read 2026-11-27).
    packed = object_in(value) if value.startswith("{") else {}
    if signature := string_of(packed, "signature"):
        return Signed(
            signature, string_of(packed, "provider_name") or None, string_of(packed, "id") or None
        )
    return Signed(value)
