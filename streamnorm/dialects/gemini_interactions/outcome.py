"""End of an interaction, in both directions: status, token counts and error.

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
from streamnorm._core.rpc_errors import status_and_message
from streamnorm.sse import Frame

_REASONS: dict[str, StopReason] = {
    "completed": "end_turn",
    "requires_action": "tool_use",
    "incomplete": "max_tokens",
    "budget_exceeded": "max_tokens",
    # One request has reached its bound; the client continues with the `continuation_token`.
    "requires_continuation": "pause",
}
_STATUSES: dict[StopReason, str] = {
    "end_turn": "completed",
    "tool_use": "requires_action",
    "max_tokens": "incomplete",
    "pause": "requires_continuation",
}
_FAILED = frozenset({"failed", "cancelled"})

TERMINAL = frozenset({*_REASONS, *_FAILED})
"""Statuses of an interaction that has ended."""

_RUNNING = frozenset({"queued", "in_progress"})

FINAL_EVENTS = ("completed", "complete")
"""Actions of the last event, `interaction.…`; the former revision has the second."""


def status_of(action: str, value: dict[str, Any]) -> str:
    """Return the status in an `interaction.…` event; "" if the event has no status.

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
    """Return whether an `interaction.…` event has a status that contradicts its event type."""
    if action in FINAL_EVENTS:  # a final event ends an interaction of any outcome
        return status in _RUNNING
    return action in TERMINAL and status != action


def stop_reason(status: str, *, awaits_client: bool, resumable: bool) -> StopReason:
    """Return the stop reason that a status means.

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


def stop_reason_to_wire(reason: StopReason, raw: str | None) -> str:
    """Return the status for a stop reason; `raw` takes precedence if it means this stop reason."""
    if raw is not None and _REASONS.get(raw) == reason:
        return raw
    # A reason without a status is projected before; what is refused has been answered.
    return _STATUSES.get(reason, "completed")


def failed_status(status: str, interaction: dict[str, Any]) -> StreamError | None:
    """Return the error of an interaction whose status means failure; else None.

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
    """Reader of one interaction's usage objects, which merges each count into `usage`.

    Attributes:
        usage: Snapshot of all objects so far.
    """

    def __init__(self) -> None:
        self.usage = Usage()
        self._counts: dict[str, int] = {}
        self._extra: dict[str, Any] = {}  # replaced, never changed: snapshots share it

    def merge(self, usage: dict[str, Any]) -> bool:
        """Merge a usage object; return whether the usage has changed."""
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


def usage_to_wire(usage: Usage, *, extras: bool) -> dict[str, Any]:
    """Return usage as a usage object; unknown counts are 0.

    Args:
        usage: The snapshot.
        extras: Whether to write Google's unknown fields back, such as its tools' tokens.
    """
    extra = usage.extra or {} if extras else {}
    wire = {key: value for key, value in extra.items() if key not in _NAMES}
    thoughts = usage.reasoning_tokens or 0
    # Other servers report more reasoning than output; `total_output_tokens` is no negative count.
    prompt, output = usage.input_tokens or 0, max(usage.output_tokens or 0, thoughts)
    tools = min(count_of(extra.get(_TOOLS)) or 0, prompt)
    wire["total_tokens"] = extra.get(_TOTAL, prompt + output)
    wire["total_input_tokens"] = prompt - tools
    if usage.cache_read_tokens is not None:
        wire["total_cached_tokens"] = usage.cache_read_tokens
    wire["total_output_tokens"] = output - thoughts
    if _TOOLS in extra:
        wire["total_tool_use_tokens"] = tools
    if usage.reasoning_tokens is not None:
        wire["total_thought_tokens"] = thoughts
    return wire


_CODES = {
    401: "unauthenticated",
    # Google has no code for a bill that is due; this one covers quotas.
    402: "resource_exhausted",
    403: "permission_denied",
    404: "not_found",
    408: "gateway_timeout",
    409: "conflict",
    429: "resource_exhausted",
    499: "cancelled",
    501: "unimplemented",
    503: "service_unavailable",
    504: "gateway_timeout",
}


def error_to_wire(error: StreamError, *, extras: bool) -> dict[str, Any]:
    """Return an error as the `error` event that ends a stream.

    Args:
        error: The error.
        extras: Whether to write the code and the fields of Google's own error back.
    """
    status, message = status_and_message(error)
    code = _CODES.get(status, "invalid_request" if status < 500 else "internal_error")
    fields: dict[str, Any] = {"code": code, "message": message}
    if extras and error.kind == "upstream":
        fields = {**fields, **(error.extra or {}), "code": error.code or code}
    return {"error": fields, "event_type": "error"}


def overloaded_frames(message: str, stream: Sequence[Frame], before: int) -> bytes:
    """Return the `error` event that an overloaded server sends.

    Args:
        message: Message of the error.
        stream: The frames of the stream without the error.
        before: How many of them precede it.
    """
    fields = {"code": "service_unavailable", "message": message}
    data = compact({"error": fields, "event_type": "error"})
    return f"event: error\r\ndata: {data}\r\n\r\n".encode()
