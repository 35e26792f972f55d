"""Encrypted reasoning: `encrypted_content`, and the vendor that can read it."""

from __future__ import annotations

from typing import Any

from streamnorm._core.ids import tag_signature, untag_signature
from streamnorm._core.json import string_of

__all__ = ["signature_from_wire", "signature_to_wire"]

# `format` of OpenRouter, which names the vendor whose reasoning it forwards.
_ISSUER_BY_FORMAT = {
    "anthropic-claude-v1": "anthropic",
    "google-gemini-v1": "google",
    "xai-responses-v1": "xai",
}
# Servers whose encrypted reasoning is not OpenAI's.
_ISSUER_BY_SERVER = {"xai": "xai"}


def signature_from_wire(item: dict[str, Any], server: str | None) -> tuple[str, str | None] | None:
    """Return the encrypted content of a reasoning item and its issuer; None if it has none."""
    encrypted = string_of(item, "encrypted_content")
    if not encrypted:
        return None
    tagged = untag_signature(encrypted)
    if tagged is not None:
        return tagged
    issuer = _ISSUER_BY_FORMAT.get(string_of(item, "format")) or _ISSUER_BY_SERVER.get(server or "")
    return encrypted, issuer or "openai"


def signature_to_wire(signature: str, issuer: str | None) -> str:
    """Return a signature as `encrypted_content`, tagged if OpenAI did not issue it."""
    return signature if issuer == "openai" else tag_signature(signature, issuer)
