"""Stop reasons, in both directions.

`ai` 7.0.173, `finishReason` of the chunk `finish`; another word ends the whole answer with an
error of the schema.
"""

from __future__ import annotations

from streamnorm._core.events import StopReason

_TO_WIRE: dict[StopReason, str] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "tool_use": "tool-calls",
    "refusal": "content-filter",
    "pause": "other",
    "other": "other",
}
_FROM_WIRE: dict[str, StopReason] = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool-calls": "tool_use",
    "content-filter": "refusal",
}

INTERRUPTED = "interrupted"
"""Reason of an answer that was cut (v7)."""

ERROR = "error"
"""Reason of an answer that failed."""


def stop_reason_to_wire(reason: StopReason) -> str:
    """Return the `finishReason`."""
    return _TO_WIRE[reason]


def stop_reason_from_wire(raw: str, *, has_open_call: bool) -> StopReason:
    """Return the unified stop reason.

    Args:
        raw: `finishReason` as spelt on the wire; "" if there was none.
        has_open_call: Whether a client tool call has no result.
    """
    reason = _FROM_WIRE.get(raw, "other") if raw else "end_turn"
    if reason in ("end_turn", "tool_use"):
        return "tool_use" if has_open_call else "end_turn"
    return reason
