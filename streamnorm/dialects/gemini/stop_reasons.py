"""Finish reasons of Gemini.

https://ai.google.dev/api/generate-content#FinishReason (read 2026-11-22).
"""

from __future__ import annotations

from streamnorm._core.events import StopReason, StreamError
from streamnorm._core.failures import upstream_error

__all__ = ["UNSPECIFIED", "failed_finish", "stop_reason"]

UNSPECIFIED = frozenset({"FINISH_REASON_UNSPECIFIED", "0"})
"""Words that say nothing."""

_REASONS: dict[str, StopReason] = {
    "STOP": "end_turn",
    "MAX_TOKENS": "max_tokens",
    # The client sends the message back with its continuation token to go on.
    "CONTINUATION": "pause",
    # With `enum-encoding=int`; the numbers above differ between Google's two services.
    "1": "end_turn",
    "2": "max_tokens",
    "3": "refusal",
    "4": "refusal",
}

_REFUSED = frozenset(
    {"SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "LANGUAGE"}
    | {"IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION"}
    | {"MODEL_ARMOR", "ESCALATION", "PUP_LIMITED_DISABLED"}
)

_FAILED = frozenset(
    {"MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS"}
    | {"MISSING_THOUGHT_SIGNATURE", "MALFORMED_RESPONSE"}
)


def stop_reason(word: str, *, called: bool) -> StopReason:
    """Return what a finish reason means.

    Args:
        word: As spelt on the wire.
        called: Whether the answer holds a client tool call.
    """
    reason = "refusal" if word in _REFUSED else _REASONS.get(word, "other")
    return "tool_use" if reason == "end_turn" and called else reason


def failed_finish(word: str, message: str) -> StreamError | None:
    """Return the error that a finish reason stands for, or None.

    Args:
        word: As spelt on the wire.
        message: What the vendor says about it, if anything.
    """
    if word not in _FAILED:
        return None
    return upstream_error(message or f"the provider ended with {word!r}", code=word)
