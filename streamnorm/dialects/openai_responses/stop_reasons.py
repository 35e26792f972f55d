"""Stop reasons: the status of a response, and the reason why it is incomplete."""

from __future__ import annotations

from streamnorm._core.events import MessageStop, StopReason

_INCOMPLETE: dict[str, StopReason] = {
    "max_output_tokens": "max_tokens",
    "content_filter": "refusal",
}


def stop_reason_from_wire(
    status: str, incomplete_reason: str, *, has_tool_call: bool, has_refusal: bool
) -> StopReason:
    """Return the stop reason of a response.

    Args:
        status: `completed` or `incomplete`.
        incomplete_reason: `incomplete_details.reason`; empty if absent.
        has_tool_call: Whether the response holds a call for the client to execute.
        has_refusal: Whether the response holds a refusal.
    """
    if status == "incomplete":
        return _INCOMPLETE.get(incomplete_reason, "other")
    if has_tool_call:
        return "tool_use"
    return "refusal" if has_refusal else "end_turn"


def stop_reason_to_wire(stop: MessageStop, *, has_tool_call: bool, has_refusal: bool) -> str | None:
    """Return `incomplete_details.reason`; None for a response that is `completed`."""
    if stop.reason == "max_tokens":
        return "max_output_tokens"
    # A refusal part alone decodes as a refusal; together with calls it would decode as `tool_use`.
    if stop.reason == "refusal" and (has_tool_call or not has_refusal):
        return "content_filter"
    return stop.raw_reason if stop.reason == "other" else None
