"""Stop reasons, in both directions.

AG-UI has none: a run that stops for tools of the client is a success like any other.  The encoder
states the unified reason in `metadata` of `RUN_FINISHED`.
"""

from __future__ import annotations

from typing import Any, get_args

from streamnorm._core.events import MessageStop, StopReason
from streamnorm._core.json import is_object, string_of
from streamnorm.dialects.ag_ui.wire import STOP_REASON, unknown_fields

_SEQUENCE = "stopSequence"
_ALL: tuple[StopReason, ...] = get_args(StopReason)
_REASONS: dict[str, StopReason] = dict(zip(_ALL, _ALL, strict=True))


def stop_to_wire(stop: MessageStop) -> dict[str, Any]:
    """Return the `metadata` of the end of a run."""
    metadata: dict[str, Any] = {STOP_REASON: stop.reason}
    if stop.stop_sequence is not None:
        metadata[_SEQUENCE] = stop.stop_sequence
    return metadata


def stop_from_wire(value: dict[str, Any], *, has_client_call: bool) -> MessageStop:
    """Return the stop of a run; without a reason, an unanswered call decides.

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
