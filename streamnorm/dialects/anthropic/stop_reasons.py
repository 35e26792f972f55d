"""Stop reasons of Anthropic, in both directions."""

from __future__ import annotations

from streamnorm._core.events import StopReason

__all__ = ["reason_to_wire", "stop_reason"]

_REASONS: dict[str, StopReason] = {
    "end_turn": "end_turn",
    "max_tokens": "max_tokens",
    "model_context_window_exceeded": "max_tokens",
    "stop_sequence": "stop_sequence",
    "tool_use": "tool_use",
    "refusal": "refusal",
    "pause_turn": "pause",
    # After a compaction with `pause_after_compaction` the client sends it back to go on.
    "compaction": "pause",
}


def stop_reason(word: str | None, *, called: bool, unfinished: bool) -> StopReason:
    """Return what a stop reason means.

    Args:
        word: As spelt on the wire; None if none was sent.
        called: Whether the message holds a client tool call.
        unfinished: Whether one of the calls never stopped.
    """
    if word is None and unfinished:
        return "other"
    reason = "end_turn" if word is None else _REASONS.get(word, "other")
    if reason in ("end_turn", "tool_use"):
        return "tool_use" if called else "end_turn"
    return reason


def reason_to_wire(reason: StopReason, raw: str | None) -> str:
    """Return Anthropic's word for a stop reason: the source's, if it is one of them."""
    if raw is not None and _REASONS.get(raw) == reason:
        return raw
    return "pause_turn" if reason == "pause" else reason
