"""The end of a run in both directions: stop reason, token usage, error.

AG-UI has no stop reasons: a run that stops for tools of the client is a success like any other.
The encoder states the unified reason in `metadata` of `RUN_FINISHED`.

`TokenUsage` of `@ag-ui/core` 1.0.0 (read 2026-11-27) is an array with one entry per provider and
model; input and output are totals, the other counts parts of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, get_args

from streamnorm._core.events import MessageStop, StopReason, StreamError, Usage, sum_usage
from streamnorm._core.failures import upstream_error
from streamnorm._core.json import count_of, is_object, objects_of, string_of
from streamnorm.dialects.ag_ui.wire import STOP_REASON, unknown_fields

_SEQUENCE = "stopSequence"
_ALL: tuple[StopReason, ...] = get_args(StopReason)
_REASONS: dict[str, StopReason] = dict(zip(_ALL, _ALL, strict=True))


def stop_to_wire(stop: MessageStop) -> dict[str, Any]:
    """Return the `metadata` of `RUN_FINISHED` with the stop reason."""
    metadata: dict[str, Any] = {STOP_REASON: stop.reason}
    if stop.stop_sequence is not None:
        metadata[_SEQUENCE] = stop.stop_sequence
    return metadata


def outcome_to_wire(pending: Iterable[str]) -> dict[str, Any]:
    """Return the `outcome` of a run: success, with the ids of pending client calls.

    Args:
        pending: Ids of these calls.
    """
    ids = list(pending)
    return {"type": "success", **({"pendingToolCallIds": ids} if ids else {})}


def stop_from_wire(value: dict[str, Any], *, has_client_call: bool) -> MessageStop:
    """Return the stop of a run; an open client call decides between `tool_use` and `end_turn`.

    Args:
        value: The `RUN_FINISHED`.
        has_client_call: Whether a call of the client has no result.
    """
    metadata, outcome = value.get("metadata"), value.get("outcome")
    fields = metadata if is_object(metadata) else {}
    raw = string_of(fields, STOP_REASON)
    reason = _REASONS.get(raw, "end_turn")
    # Whether a call awaits the client is never decided by a word.
    if reason in ("end_turn", "tool_use"):
        reason = "tool_use" if has_client_call else "end_turn"
    # The run waits for a person.
    if is_object(outcome) and outcome.get("type") == "interrupt" and not raw:
        reason, raw = "pause", "interrupt"
    extra = unknown_fields(value, "type", "threadId", "runId", "usage", "metadata", "timestamp")
    sequence = string_of(fields, _SEQUENCE) or None
    return MessageStop(reason, raw or None, sequence, extra=extra or None)


# The client refuses the event, and so the run, for a count that JavaScript cannot hold.
_MAX_COUNT = 2**53 - 1

_FIELDS = {
    "input_tokens": "inputTokens",
    "output_tokens": "outputTokens",
    "reasoning_tokens": "reasoningTokens",
    "cache_read_tokens": "cachedInputTokens",
    "cache_write_tokens": "cacheWriteInputTokens",
}


def usage_to_wire(usage_by_model: dict[str, Usage]) -> list[dict[str, Any]]:
    """Return the `usage` array, one entry per model with known counts."""
    entries = [(model, _counts_to_wire(usage)) for model, usage in usage_by_model.items()]
    return [
        {**({"model": model} if model else {}), **counts} for model, counts in entries if counts
    ]


def _counts_to_wire(usage: Usage) -> dict[str, Any]:
    # The clients reject null, so an unknown count is left out.
    counts = {wire: getattr(usage, name) for name, wire in _FIELDS.items()}
    if usage.input_tokens is not None and usage.output_tokens is not None:
        counts["totalTokens"] = usage.input_tokens + usage.output_tokens
    return {
        wire: count for wire, count in counts.items() if count is not None and count <= _MAX_COUNT
    }


def usage_from_wire(value: Any) -> Usage:
    """Return the sum of a `usage` array; a count that no entry reports is unknown."""
    return sum_usage(map(_counts_from_wire, objects_of(value)))


def _counts_from_wire(entry: dict[str, Any]) -> Usage:
    counts: dict[str, Any] = {name: count_of(entry.get(wire)) for name, wire in _FIELDS.items()}
    return Usage(**counts)


def error_to_wire(error: StreamError) -> dict[str, Any]:
    """Return the `message` and `code` of a `RUN_ERROR` or of an error response."""
    return {"message": error.message, "code": error.code or error.kind}


def error_from_wire(value: dict[str, Any]) -> StreamError:
    """Return the error of a `RUN_ERROR`."""
    extra = unknown_fields(value, "type", "message", "code", "usage", "timestamp")
    return upstream_error(
        string_of(value, "message"), code=string_of(value, "code") or None, extra=extra
    )
