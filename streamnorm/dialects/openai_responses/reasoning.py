"""Encrypted reasoning: `encrypted_content` and its issuer."""

from __future__ import annotations

from typing import Any

from streamnorm._core.blocks import RedactedReasoning
from streamnorm._core.json import string_of
from streamnorm._core.text import (
    Signed,
    tag_redacted_reasoning,
    tag_signature,
    untag_redacted_reasoning,
    untag_signature,
)

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
    """Return the encrypted content of a reasoning item, with its issuer; None without content."""
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
    """Return redacted reasoning written by `redacted_to_wire`; None for any other item."""
    tagged = untag_redacted_reasoning(string_of(item, "encrypted_content"))
    return None if tagged is None else RedactedReasoning(*tagged)


def redacted_to_wire(block: RedactedReasoning) -> str:
    """Return another vendor's redacted reasoning as `encrypted_content`."""
    return tag_redacted_reasoning(block.data, block.issuer, block.id)
