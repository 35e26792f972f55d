"""Signatures of thinking and redacted thinking, in both directions."""

from __future__ import annotations

from typing import Any

from streamnorm._core.blocks import RedactedReasoning
from streamnorm._core.json import clean
from streamnorm._core.text import Signed, tag_signature, untag_signature

SIGNING_SERVERS = frozenset({"deepseek", "kimi"})
"""Servers that issue signatures themselves; all others relay Anthropic's."""


def signature_from_wire(value: str, server: str | None) -> Signed:
    """Return a signature and its issuer: the issuer in its tag, a signing server, or Anthropic."""
    tagged = untag_signature(value)
    if tagged is not None:
        return tagged
    # deepseek/uuid-signatures: random ids, which the API would refuse.
    return Signed(value, server if server in SIGNING_SERVERS else "anthropic")


def signature_to_wire(signed: Signed, verifier: str | None = "anthropic") -> str:
    """Return a signature for the wire, tagged with its issuer unless the verifier issued it.

    The API refuses a foreign signature ("Invalid `signature` in `thinking` block"); the tag
    lets this room find the issuer when a client sends the signature back.

    Args:
        signed: The signature.
        verifier: Issuer whose signatures are written without a tag.
    """
    is_verifiable = signed.issuer is not None and signed.issuer == verifier
    return signed.signature if is_verifiable else tag_signature(*signed)


def redacted_from_wire(data: str, server: str | None) -> RedactedReasoning:
    """Return the block of `redacted_thinking` with `data`."""
    return RedactedReasoning(*signature_from_wire(clean(data), server))


def redacted_to_wire(
    block: RedactedReasoning, verifier: str | None = "anthropic"
) -> dict[str, Any]:
    """Return the `redacted_thinking` block; for `verifier`, see `signature_to_wire`."""
    data = signature_to_wire(Signed(block.data, block.issuer, block.id), verifier)
    return {"type": "redacted_thinking", "data": data}
