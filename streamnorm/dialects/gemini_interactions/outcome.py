"""How an interaction ends: statuses as stop reasons and errors, and token counts.

https://ai.google.dev/api/interactions-api and, for the meaning of each status,
https://docs.cloud.google.com/gemini-enterprise-agent-platform/reference/rest/v1beta1/Status
(read 2026-11-22).  `total_input_tokens` leaves out the tokens of the provider's tools,
`total_output_tokens` the thoughts.  Each count covers the whole interaction so far.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from streamnorm._core.events import StopReason, StreamError, Usage
from streamnorm._core.failures import find_error, upstream_error
from streamnorm._core.json import compact, count_of, is_array, is_object, string_of
from streamnorm.sse import Frame

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


_TOOLS, _TOTAL = "toolUsePromptTokenCount", "totalTokenCount"
# A count without a field of `Usage` gets its name in `generateContent`, under which the vendor's
# clients read it.
_COUNTS = {
    "total_input_tokens": "promptTokenCount",
    "total_tool_use_tokens": _TOOLS,
    "total_output_tokens": "candidatesTokenCount",
    "total_thought_tokens": "thoughtsTokenCount",
    "total_cached_tokens": "cachedContentTokenCount",
    "total_tokens": _TOTAL,
}
_NAMES = frozenset(_COUNTS.values())


class UsageReader:
    """Reader of the usage objects of one interaction, merged count by count.

    Attributes:
        usage: Snapshot of all objects so far.
    """

    def __init__(self) -> None:
        self.usage = Usage()
        self._counts: dict[str, int] = {}
        self._extra: dict[str, Any] = {}  # replaced, never changed: snapshots share it

    def merge(self, usage: dict[str, Any]) -> bool:
        """Merge a usage object and return whether the snapshot changes."""
        extra = dict(self._extra)
        for key, value in usage.items():
            name = _COUNTS.get(key, key)
            count = count_of(value) if name in _NAMES else None
            if count is not None:
                self._counts[name] = count
            elif value is not None:
                extra[name] = value
        self._extra = extra
        before, self.usage = self.usage, self._snapshot()
        return self.usage != before

    def _snapshot(self) -> Usage:
        counts, extra = self._counts, self._extra
        prompt, tools = counts.get("promptTokenCount"), counts.get(_TOOLS)
        output, thoughts = counts.get("candidatesTokenCount"), counts.get("thoughtsTokenCount")
        input_tokens = prompt if tools is None else tools + (prompt or 0)
        output_tokens = output if thoughts is None else thoughts + (output or 0)
        if tools is not None:  # part of `input_tokens`, and in no other field
            extra = {**extra, _TOOLS: tools}
        total = counts.get(_TOTAL)
        if total is not None and total != (input_tokens or 0) + (output_tokens or 0):
            extra = {**extra, _TOTAL: total}
        cached = counts.get("cachedContentTokenCount")
        return Usage(input_tokens, output_tokens, cached, None, thoughts, extra or None)


def overloaded_frames(message: str, stream: Sequence[Frame], before: int) -> bytes:
    """Return the `error` event of an overloaded server.

    Args:
        message: Message of the error.
        stream: The frames of the stream without the error.
        before: How many of them precede it.
    """
    fields = {"code": "service_unavailable", "message": message}
    data = compact({"error": fields, "event_type": "error"})
    return f"event: error\r\ndata: {data}\r\n\r\n".encode()
