"""Signatures and redacted reasoning, in both directions.

They stand in `providerMetadata` under the keys that the AI SDK's own providers read back
(`@ai-sdk/anthropic` 4.0.105, `@ai-sdk/openai` 4.0.118, `@ai-sdk/google` 4.0.121); those of
another issuer stand under our own key.
"""

from __future__ import annotations

from typing import Any

from streamnorm._core.blocks import RedactedReasoning
from streamnorm._core.json import clean, is_object, string_of
from streamnorm._core.text import Signed
from streamnorm.dialects.ui_message_stream.wire import OWN

_ANTHROPIC, _OPENAI, _GEMINI = "anthropic", "openai", "google"
# Vertex AI's provider writes the same field under its own name.
_GOOGLE = ("google", "vertex", "googleVertex")
_PYDANTIC = "pydantic_ai"
_ISSUERS = {"google-gla": _GEMINI, "google-vertex": _GEMINI}


def signature_to_wire(signed: Signed) -> dict[str, Any]:
    """Return the `providerMetadata` of a signature."""
    signature, issuer, id = signed
    if issuer == _ANTHROPIC and id is None:
        return {"anthropic": {"signature": signature}}
    if issuer == _OPENAI:
        item = {"itemId": id} if id is not None else {}
        return {"openai": {**item, "reasoningEncryptedContent": signature}}
    if issuer == _GEMINI and id is None:
        return {"google": {"thoughtSignature": signature}}
    own = {"signature": signature, "issuer": issuer, "id": id}
    return {OWN: {name: item for name, item in own.items() if item is not None}}


def signature_from_wire(metadata: object) -> Signed | None:
    """Return the signature in a `providerMetadata`; None if it has none."""
    if not is_object(metadata):
        return None
    for key, issuer, name in (
        ("anthropic", _ANTHROPIC, "signature"),
        ("openai", _OPENAI, "reasoningEncryptedContent"),
        *((key, _GEMINI, "thoughtSignature") for key in _GOOGLE),
    ):
        fields = metadata.get(key)
        if is_object(fields) and (signature := string_of(fields, name)):
            id = fields.get("itemId")
            return Signed(clean(signature), issuer, clean(id) if isinstance(id, str) else None)
    for key, names in ((OWN, ("issuer", "id")), (_PYDANTIC, ("provider_name", "id"))):
        fields = metadata.get(key)
        if is_object(fields) and (signature := string_of(fields, "signature")):
            named, id = (clean(string_of(fields, name)) or None for name in names)
            return Signed(clean(signature), _ISSUERS.get(named or "", named), id)
    return None


def redacted_to_wire(block: RedactedReasoning) -> dict[str, Any]:
    """Return the `providerMetadata` of redacted reasoning."""
    if block.issuer == _ANTHROPIC and block.id is None:
        return {"anthropic": {"redactedData": block.data}}
    own = {"redactedData": block.data, "issuer": block.issuer, "id": block.id}
    ours = {OWN: {name: item for name, item in own.items() if item is not None}}
    if block.issuer != _OPENAI:
        return ours
    return {**signature_to_wire(Signed(block.data, block.issuer, block.id)), **ours}


def redacted_from_wire(metadata: object) -> RedactedReasoning | None:
    """Return the redacted reasoning in a `providerMetadata`; None if it has none."""
    if not is_object(metadata):
        return None
    for key in ("anthropic", OWN):
        fields = metadata.get(key)
        if is_object(fields) and (data := string_of(fields, "redactedData")):
            issuer = "anthropic" if key == "anthropic" else clean(string_of(fields, "issuer"))
            id = clean(string_of(fields, "id"))
            return RedactedReasoning(clean(data), issuer or None, id or None)
    return None
