"""Finish reasons of Gemini as stop reasons and errors, and back.

https://ai.google.dev/api/generate-content#FinishReason (read 2026-11-22).
A server's own word goes into the table of its meaning, and not into `validate`, which knows
the vendor's words alone.
"""

from __future__ import annotations

from typing import Any

from streamnorm._core.events import MessageStop, StopReason, StreamError
from streamnorm._core.failures import upstream_error
from streamnorm._core.json import clean

_UNSPECIFIED = frozenset(
    {"FINISH_REASON_UNSPECIFIED", "BLOCK_REASON_UNSPECIFIED", "BLOCKED_REASON_UNSPECIFIED", "0"}
)
"""Finish and block reasons that say nothing."""

FAILED = frozenset(
    {"MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS"}
    | {"MISSING_THOUGHT_SIGNATURE", "MALFORMED_RESPONSE"}
)
"""Finish reasons of an answer that failed."""

_REFUSALS = frozenset(
    {"SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "LANGUAGE"}
    | {"IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION"}
    | {"MODEL_ARMOR", "ESCALATION", "PUP_LIMITED_DISABLED"}
)
_OTHERS = frozenset({"OTHER", "NO_IMAGE", "IMAGE_OTHER"})
_KNOWN_OTHERS = _OTHERS | frozenset(map(str, range(5, 32)))  # numbers of known words

_FROM_WIRE: dict[str, StopReason] = {
    "STOP": "end_turn",
    "MAX_TOKENS": "max_tokens",
    # The client sends the message back with its continuation token to go on.
    "CONTINUATION": "pause",
    # With `enum-encoding=int`; the numbers above 4 differ between Google's two services.
    "1": "end_turn",
    "2": "max_tokens",
    "3": "refusal",
    "4": "refusal",
}
_TO_WIRE: dict[StopReason, str] = {
    "end_turn": "STOP",
    "tool_use": "STOP",
    "max_tokens": "MAX_TOKENS",
    "refusal": "SAFETY",
    "pause": "CONTINUATION",
    "other": "OTHER",
}


def finish_reason_of(value: Any) -> str:
    """Return a finish or block reason, maybe sent as its number; empty if it says nothing."""
    word = str(value) if type(value) is int else clean(value) if isinstance(value, str) else ""
    return "" if word in _UNSPECIFIED else word


def stop_reason_from_wire(finish_reason: str, *, called: bool) -> StopReason:
    """Return the stop reason of a finish reason.

    Args:
        finish_reason: As spelt on the wire.
        called: Whether the answer holds a client tool call without a result.
    """
    if finish_reason in _REFUSALS:
        return "refusal"
    reason = _FROM_WIRE.get(finish_reason, "other")
    is_unknown = finish_reason not in _FROM_WIRE and finish_reason not in _KNOWN_OTHERS
    return "tool_use" if called and (is_unknown or reason == "end_turn") else reason


def stop_reason_to_wire(event: MessageStop) -> str:
    """Return the finish reason of a stop: as it was read, where that has the same meaning."""
    raw = event.raw_reason or ""
    refused = event.reason == "refusal" and raw in _REFUSALS
    return (
        raw if refused or (event.reason == "other" and raw in _OTHERS) else _TO_WIRE[event.reason]
    )


def failed_finish(finish_reason: str, message: str) -> StreamError | None:
    """Return the error of a finish reason that means failure, else None.

    Args:
        finish_reason: As spelt on the wire.
        message: The vendor's `finishMessage`; empty if there is none.
    """
    if finish_reason not in FAILED:
        return None
    return upstream_error(
        message or f"the provider ended with {finish_reason!r}", code=finish_reason
    )
