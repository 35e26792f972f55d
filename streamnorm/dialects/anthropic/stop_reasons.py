"""Stop reasons, in both directions.

https://docs.anthropic.com/en/docs/build-with-claude/streaming (read 2026-11-21).
"""

from __future__ import annotations

from streamnorm._core.events import StopReason

_STOP_REASONS: dict[str, StopReason] = {
    "end_turn": "end_turn",
    "max_tokens": "max_tokens",
    # To a client the answer is cut either way; the raw reason names the bound.
    "model_context_window_exceeded": "max_tokens",
    "stop_sequence": "stop_sequence",
    "tool_use": "tool_use",
    "refusal": "refusal",
    "pause_turn": "pause",
    # After a compaction with `pause_after_compaction` the client sends it back to continue.
    "compaction": "pause",
}


def stop_reason_from_wire(
    raw: str | None, *, has_client_call: bool, has_unfinished_call: bool
) -> StopReason:
    """Return the unified stop reason of a message.

    Args:
        raw: `stop_reason` as spelt on the wire; None if none was sent.
        has_client_call: Whether the message contains a client tool call.
        has_unfinished_call: Whether a client tool call has incomplete arguments.
    """
    # Nothing shows that the arguments are whole (proxy/no-message-delta-in-arguments).
    if raw is None and has_unfinished_call:
        return "other"
    reason = "end_turn" if raw is None else _STOP_REASONS.get(raw, "other")
    # Compatible servers end a message with calls by `end_turn`, and one without by `tool_use`.
    if reason in ("end_turn", "tool_use"):
        return "tool_use" if has_client_call else "end_turn"
    return reason


def stop_reason_to_wire(reason: StopReason, raw: str | None) -> str:
    """Return the `stop_reason`: `raw` if it maps to the same unified reason."""
    # The API's finer reasons return unchanged: a compaction as a compaction.
    if raw is not None and _STOP_REASONS.get(raw) == reason:
        return raw
    return "pause_turn" if reason == "pause" else reason
