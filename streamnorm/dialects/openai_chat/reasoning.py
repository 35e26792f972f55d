"""OpenRouter's `reasoning_details`: reasoning with its signatures and who issued them.

https://openrouter.ai/docs/use-cases/reasoning-tokens (read 2026-11-21)
"""

from __future__ import annotations

from typing import Any

from streamnorm._core.ids import tag_signature, untag_signature

__all__ = ["Details", "issued", "redacted_detail"]

_ISSUERS = {
    "anthropic-claude-v1": "anthropic",
    "openai-responses-v1": "openai",
    "azure-openai-responses-v1": "openai",
    "xai-responses-v1": "xai",
    "google-gemini-v1": "google",
}
_FORMATS = {
    "anthropic": "anthropic-claude-v1",
    "google": "google-gemini-v1",
    "openai": "openai-responses-v1",
    "xai": "xai-responses-v1",
}
_UNKNOWN = "unknown"


def issued(value: str, format: object) -> tuple[str, str | None, bool]:
    """Return an opaque value as its issuer wrote it, the issuer, and whether we had sealed it."""
    tagged = untag_signature(value)
    if tagged is not None:
        return *tagged, True
    return value, _ISSUERS.get(str(format)), False


class Details:
    """Number the reasoning blocks of one answer.

    Accumulators join details of one index field by field: what is told twice is doubled.
    """

    def __init__(self) -> None:
        self._count = 0

    def begin(self) -> int:
        """Return the index of the next block."""
        self._count += 1
        return self._count - 1

    def signature(self, signature: str, issuer: str | None) -> dict[str, Any]:
        """Return the detail that signs the latest block."""
        detail = {"type": "reasoning.text", "index": self._count - 1}
        return {**detail, **_sealed("signature", signature, issuer, known=_FORMATS)}


def redacted_detail(data: str, issuer: str | None, index: int) -> dict[str, Any]:
    """Return a detail that only its issuer can read.

    Those of other vendors than Anthropic go sealed, since theirs would be read as the
    signature of the reasoning before them.
    """
    anthropic = {"anthropic": _FORMATS["anthropic"]}
    detail = {"type": "reasoning.encrypted", "index": index}
    return {**detail, **_sealed("data", data, issuer, known=anthropic)}


def _sealed(field: str, value: str, issuer: str | None, *, known: dict[str, str]) -> dict[str, Any]:
    if issuer in known:
        return {field: value, "format": known[issuer]}
    return {field: tag_signature(value, issuer), "format": _UNKNOWN}
