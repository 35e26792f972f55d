"""Stop reasons, in both directions.

botocore 1.44.5, `StopReason` (read 2026-11-23).
"""

from __future__ import annotations

from typing import Any

from streamnorm._core.events import StopReason
from streamnorm._core.json import is_object, string_of

_STOP_REASONS: dict[str, StopReason] = {
    "end_turn": "end_turn",
    "tool_use": "tool_use",
    "max_tokens": "max_tokens",
    # To a client the answer is cut either way; the raw reason names the bound.
    "model_context_window_exceeded": "max_tokens",
    "stop_sequence": "stop_sequence",
    "guardrail_intervened": "refusal",
    "content_filtered": "refusal",
    "malformed_model_output": "other",
    "malformed_tool_use": "other",
}

NATIVE_STOP_REASONS = frozenset({"malformed_model_output", "malformed_tool_use"})
"""Reasons that have no unified one."""


def stop_reason_from_wire(raw: str, *, has_client_call: bool) -> StopReason:
    """Return the unified stop reason of a message.

    Args:
        raw: `stopReason` as spelt on the wire.
        has_client_call: Whether the message contains a client tool call.
    """
    reason = _STOP_REASONS.get(raw, "other")
    # A call of a server tool ends a message with `tool_use`, too.
    if reason in ("end_turn", "tool_use"):
        return "tool_use" if has_client_call else "end_turn"
    return reason


def stop_reason_to_wire(reason: StopReason, raw: str | None) -> str:
    """Return the `stopReason`: `raw` if it maps to the same unified reason."""
    if raw is not None and _STOP_REASONS.get(raw) == reason:
        return raw
    return "content_filtered" if reason == "refusal" else reason


def stop_sequence_from_wire(fields: object) -> str | None:
    """Return the stop sequence in `additionalModelResponseFields`, of which a request asks for it.

    Claude has it beside the reason, as in an answer, or in the `delta` of its last event.
    """
    if not is_object(fields):
        return None
    delta: Any = fields.get("delta")
    inner = string_of(delta, "stop_sequence") if is_object(delta) else ""
    return string_of(fields, "stop_sequence") or inner or None
