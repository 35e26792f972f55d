"""Why a response ended, in unified terms."""

from __future__ import annotations

from streamnorm._core.events import StopReason

__all__ = ["stop_reason"]

_INCOMPLETE: dict[str, StopReason] = {
    "max_output_tokens": "max_tokens",
    "content_filter": "refusal",
}


def stop_reason(status: str, word: str, *, called: bool, refused: bool) -> StopReason:
    """Return what the end of a response means.

    Args:
        status: `completed` or `incomplete`.
        word: Why it is incomplete; empty if nobody said.
        called: Whether it holds a client tool call.
        refused: Whether it holds a refusal.
    """
    if status == "incomplete":
        return _INCOMPLETE.get(word, "other")
    if called:
        return "tool_use"
    return "refusal" if refused else "end_turn"
