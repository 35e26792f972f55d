"""Signatures of thinking and redacted thinking, in both directions."""

from __future__ import annotations

from typing import Any

from streamnorm._core.blocks import RedactedReasoning
from streamnorm._core.ids import tag_signature, untag_signature
from streamnorm._core.json import clean

__all__ = [
    "SIGNING_SERVERS",
    "redacted_from_wire",
    "redacted_to_wire",
    "signature_from_wire",
    "signature_to_wire",
]

SIGNING_SERVERS = frozenset({"deepseek", "kimi"})
"""Servers that sign by themselves; all others pass on signatures of Anthropic."""


def signature_from_wire(value: str, server: str | None) -> tuple[str, str | None]:
    """Return a signature and its issuer: the one tagged on it, the server, or Anthropic."""
    tagged = untag_signature(value)
    if tagged is not None:
        return tagged
    return value, server if server in SIGNING_SERVERS else "anthropic"


def signature_to_wire(signature: str, issuer: str | None) -> str:
    """Return a signature; one that Anthropic cannot verify is tagged with its issuer."""
    return signature if issuer == "anthropic" else tag_signature(signature, issuer)


def redacted_from_wire(data: str, server: str | None) -> RedactedReasoning:
    """Return the block of `redacted_thinking` with `data`."""
    return RedactedReasoning(*signature_from_wire(clean(data), server))


def redacted_to_wire(block: RedactedReasoning) -> dict[str, Any]:
    """Return the `redacted_thinking` block."""
    return {"type": "redacted_thinking", "data": signature_to_wire(block.data, block.issuer)}
