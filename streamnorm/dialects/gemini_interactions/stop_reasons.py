"""Statuses of an interaction as stop reasons and errors.

https://ai.google.dev/api/interactions-api and, for the meaning of each status,
https://docs.cloud.google.com/gemini-enterprise-agent-platform/reference/rest/v1beta1/Status
(read 2026-11-22).
"""

from __future__ import annotations

from typing import Any

from streamnorm._core.events import StopReason, StreamError
from streamnorm._core.failures import find_error, upstream_error
from streamnorm._core.json import is_array, is_object, string_of

_REASONS: dict[str, StopReason] = {
    "completed": "end_turn",
    "requires_action": "tool_use",
    "incomplete": "max_tokens",
    "budget_exceeded": "max_tokens",
    # One request has reached its bound; the client continues with the `continuation_token`.
    "requires_continuation": "pause",
}
_FAILED = frozenset({"failed", "cancelled"})

TERMINAL = frozenset({*_REASONS, *_FAILED})
"""Statuses of an interaction that has ended."""

_RUNNING = frozenset({"queued", "in_progress"})

FINAL_EVENTS = ("completed", "complete")
"""Actions of the last event, `interaction.…`; the former revision has the second."""


def status_of(action: str, value: dict[str, Any]) -> str:
    """Return the status in an event of the whole interaction; "" if it has none.

    Args:
        action: Event type without `interaction.`; it implies a status if the event has none.
        value: The event.
    """
    interaction = value.get("interaction")
    status = string_of(interaction if is_object(interaction) else value, "status")
    if status:
        return status
    return "completed" if action in FINAL_EVENTS else action if action in TERMINAL else ""


def contradicts(action: str, status: str) -> bool:
    """Return whether an event of the whole interaction cannot have a status."""
    if action in FINAL_EVENTS:  # a final event ends an interaction of any outcome
        return status in _RUNNING
    return action in TERMINAL and status != action


def stop_reason(status: str, *, awaits_client: bool, resumable: bool) -> StopReason:
    """Return the stop reason of a status.

    Args:
        status: Status as spelt on the wire.
        awaits_client: Whether a client tool call has no result yet.
        resumable: Whether the vendor sent a continuation token.
    """
    reason = _REASONS.get(status, "other")
    if reason in ("end_turn", "tool_use"):
        # A call without a result waits for the client, whatever the status is.
        if awaits_client:
            return "tool_use"
        return "end_turn" if reason == "end_turn" else "other"
    return "pause" if reason == "max_tokens" and resumable else reason


def failed_status(status: str, interaction: dict[str, Any]) -> StreamError | None:
    """Return the error of a status that means failure, else None.

    Args:
        status: Status as spelt on the wire.
        interaction: The interaction, for its list of errors.
    """
    if status not in _FAILED:
        return None
    errors = interaction.get("errors")
    # `errors` in a stored interaction, `error` in that of a stream.
    for error in (interaction.get("error"), *(errors if is_array(errors) else ())):
        if is_object(error) and (found := find_error({"error": error})) is not None:
            return found
    return upstream_error(f"the interaction ended as {status!r}", code=status)
