"""Gemini's words for stops and errors, and its form of signatures."""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from typing import Any

from streamnorm._core.blocks import RedactedReasoning
from streamnorm._core.events import MessageStop, StopReason, StreamError
from streamnorm._core.ids import seal_reasoning, sealed_reasoning, tag_signature, untag_signature

__all__ = [
    "FAILURES",
    "error_to_wire",
    "reason_to_wire",
    "redacted_to_wire",
    "signature_to_wire",
]

FAILURES = frozenset(
    {
        "MALFORMED_FUNCTION_CALL",
        "MALFORMED_RESPONSE",
        "MISSING_THOUGHT_SIGNATURE",
        "TOO_MANY_TOOL_CALLS",
        "UNEXPECTED_TOOL_CALL",
    }
)
"""The finish reasons that mean that the answer failed."""

_WORDS: dict[StopReason, str] = {
    "end_turn": "STOP",
    "tool_use": "STOP",
    "max_tokens": "MAX_TOKENS",
    "refusal": "SAFETY",
    "pause": "CONTINUATION",
    "other": "OTHER",
}

_REFUSALS = frozenset(
    {
        *("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "LANGUAGE"),
        *("IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION", "MODEL_ARMOR"),
        *("ESCALATION", "PUP_LIMITED_DISABLED"),
    }
)
_OTHERS = frozenset({"OTHER", "NO_IMAGE", "IMAGE_OTHER", "FINISH_REASON_UNSPECIFIED"})

_STATUSES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    402: "RESOURCE_EXHAUSTED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    408: "DEADLINE_EXCEEDED",
    409: "ABORTED",
    413: "INVALID_ARGUMENT",
    429: "RESOURCE_EXHAUSTED",
    499: "CANCELLED",
    501: "UNIMPLEMENTED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
    529: "UNAVAILABLE",
}

_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]+|[A-Za-z0-9_-]+)={0,2}")


def reason_to_wire(event: MessageStop) -> str:
    """Return the finish reason of a stop; of several words for it, the one that was read."""
    raw = event.raw_reason
    if (event.reason == "refusal" and raw in _REFUSALS) or (
        event.reason == "other" and raw in _OTHERS
    ):
        return str(raw)
    return _WORDS[event.reason]


def error_to_wire(error: StreamError, *, extras: bool) -> dict[str, Any]:
    """Return an error as the API tells it; `error` comes first, as google-genai needs it.

    Args:
        error: The error.
        extras: Whether it is an error of this dialect, with words of its own.
    """
    status = error.status_hint
    if status is None:
        status = 504 if error.kind == "stalled" else 500
    word = _STATUSES.get(status, "INVALID_ARGUMENT" if status < 500 else "INTERNAL")
    told: dict[str, Any] = {"code": status, "message": error.message, "status": word}
    if extras and error.kind == "upstream":
        own = error.code if error.code and error.code.isupper() else word  # Google's are
        told |= {"status": own, **(error.extra or {})}
    return {"error": told}


def signature_to_wire(signature: str, issuer: str | None) -> str:
    """Return a signature as Base64, which clients check.

    One of Google's stays as it is; another's, or one that is no Base64, is the Base64 of
    a value that names who can verify it.
    """
    if issuer == "google" and _is_base64(signature):
        return signature
    return b64encode(tag_signature(signature, issuer).encode("utf-8", "replace")).decode()


def redacted_to_wire(block: RedactedReasoning) -> str:
    """Return reasoning of another that may not be seen, so that it comes back as what it is."""
    return b64encode(seal_reasoning(block.data, block.issuer).encode("utf-8", "replace")).decode()


def _is_base64(text: str) -> bool:
    """Tell whether text is padded Base64 that we did not write ourselves."""
    if len(text) % 4 or _BASE64.fullmatch(text) is None:
        return False
    symbols = b"-_" if "-" in text or "_" in text else b"+/"
    data = b64decode(text, altchars=symbols)
    if b64encode(data, altchars=symbols).decode() != text:  # bits behind the last byte
        return False
    value = data.decode("utf-8", "replace")
    return untag_signature(value) is None and sealed_reasoning(value) is None
