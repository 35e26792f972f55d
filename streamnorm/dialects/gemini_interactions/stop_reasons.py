"""How an interaction ends, in its own words.

https://ai.google.dev/api/interactions-api and, for what each status means,
https://docs.cloud.google.com/gemini-enterprise-agent-platform/reference/rest/v1beta1/Status
(read 2026-11-22).
"""

from __future__ import annotations

from typing import Any

from streamnorm._core.events import StopReason, StreamError
from streamnorm._core.failures import upstream_error
from streamnorm._core.json import is_array, is_object
from streamnorm._core.provider_errors import find_error

__all__ = ["TERMINAL", "failed_status", "status_reason"]

_REASONS: dict[str, StopReason] = {
    "completed": "end_turn",
    "requires_action": "tool_use",
    "incomplete": "max_tokens",
    "budget_exceeded": "max_tokens",
    # One request's bound was reached; the client goes on with the token it was given.
    "requires_continuation": "pause",
}
_FAILED = frozenset({"failed", "cancelled"})

TERMINAL = frozenset({*_REASONS, *_FAILED})
"""The statuses after which nothing is done any more."""


def status_reason(status: str, *, called: bool, resumable: bool) -> StopReason:
    """Return what a status means.

    Args:
        status: As spelt on the wire.
        called: Whether a client tool call waits for its result.
        resumable: Whether there is a token to go on with.
    """
    reason = _REASONS.get(status, "other")
    if reason in ("end_turn", "tool_use"):
        return "tool_use" if called else "end_turn" if reason == "end_turn" else "other"
    return "pause" if reason == "max_tokens" and resumable else reason


def failed_status(status: str, interaction: dict[str, Any]) -> StreamError | None:
    """Return the error that a status stands for, or None.

    Args:
        status: As spelt on the wire.
        interaction: What the vendor says about it, if anything.
    """
    if status not in _FAILED:
        return None
    errors = interaction.get("errors")
    told = [interaction.get("error"), *(errors if is_array(errors) else ())]
    for error in told:
        if is_object(error) and (found := find_error({"error": error})) is not None:
            return found
    return upstream_error(f"the interaction ended as {status!r}", code=status)
