"""Finish reasons of Gemini as stop reasons and errors, in both directions.

https://ai.google.dev/api/generate-content#FinishReason (read 2026-11-22).  Add a finish reason
of another server to the table of its meaning, and not to `validate`, which knows the vendor's
finish reasons alone.
"""

from __future__ import annotations

from typing import Any

from streamnorm._core.events import MessageStop, StopReason, StreamError
from streamnorm._core.failures import upstream_error
from streamnorm._core.json import clean

_UNSPECIFIED = frozenset(
    {"FINISH_REASON_UNSPECIFIED", "BLOCK_REASON_UNSPECIFIED", "BLOCKED_REASON_UNSPECIFIED", "0"}
)
"""Finish and block reasons that count as absent."""

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
_KNOWN_OTHERS = _OTHERS | frozenset(map(str, range(5, 32)))  # with the numbers of the enumeration

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
    # The reason that clients show as a refusal; the finer ones name rules of Google's.
    "refusal": "SAFETY",
    "pause": "CONTINUATION",
    "other": "OTHER",
}


def finish_reason_of(value: Any) -> str:
    """Return a finish or block reason; "" if it is absent or unspecified.

    Clients can ask for numbers (`enum-encoding=int`), which become strings here.
    """
    reason = str(value) if type(value) is int else clean(value) if isinstance(value, str) else ""
    return "" if reason in _UNSPECIFIED else reason


def stop_reason_from_wire(finish_reason: str, *, awaits_client: bool) -> StopReason:
    """Return the stop reason of a finish reason; Google has none for tool calls.

    Args:
        finish_reason: Finish reason as spelt on the wire.
        awaits_client: Whether the answer holds a client tool call without a result.
    """
    if finish_reason in _REFUSALS:
        return "refusal"
    reason = _FROM_WIRE.get(finish_reason, "other")
    # A reason that is newer than this table does not cancel a call that the client must run.
    is_unknown = finish_reason not in _FROM_WIRE and finish_reason not in _KNOWN_OTHERS
    return "tool_use" if awaits_client and (is_unknown or reason == "end_turn") else reason


def stop_reason_to_wire(event: MessageStop) -> str:
    """Return the `finishReason`: the raw one if it maps to the same stop reason."""
    raw = event.raw_reason or ""
    # Google's finer reasons return as they came.
    if event.reason == "refusal" and raw in _REFUSALS:
        return raw
    return raw if event.reason == "other" and raw in _OTHERS else _TO_WIRE[event.reason]


def failed_finish(finish_reason: str, message: str) -> StreamError | None:
    """Return the error of a finish reason that means failure, else None.

    Args:
        finish_reason: Finish reason as spelt on the wire.
        message: `finishMessage` of the candidate; "" if it is missing.
    """
    if finish_reason not in FAILED:
        return None
    return upstream_error(
        message or f"the provider ended with {finish_reason!r}", code=finish_reason
    )
