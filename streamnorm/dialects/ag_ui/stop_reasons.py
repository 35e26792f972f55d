"""Stop reasons, in both directions.

AG-UI has none: a run that stops for tools of the client is a success like any other.  The encoder
states the unified reason in `metadata` of `RUN_FINISHED`.
"""

from __future__ import annotations

from typing import Any, get_args

from streamnorm._core.events import MessageStop, StopReason
from streamnorm._core.json import is_object, string_of
from streamnorm.dialects.ag_ui.wire import STOP_REASON

_SEQUENCE = "stopSequence"
_ALL: tuple[StopReason, ...] = get_args(StopReason)
_REASONS: dict[str, StopReason] = dict(zip(_ALL, _ALL, strict=True))


def stop_to_wire(stop: MessageStop) -> dict[str, Any]:
    """Return the `metadata` of the end of a run."""
    metadata: dict[str, Any] = {STOP_REASON: stop.reason}
    if stop.stop_sequence is not None:
        metadata[_SEQUENCE] = stop.stop_sequence
    return metadata


def stop_from_wire(metadata: Any, *, has_client_call: bool) -> MessageStop:
    """Return the stop of a run; without a reason, an unanswered call decides.

    Args:
        metadata: `metadata` of `RUN_FINISHED`.
        has_client_call: Whether a call of the client has no result.
    """
    fields = metadata if is_object(metadata) else {}
    raw = string_of(fields, STOP_REASON)
    reason = _REASONS.get(raw, "end_turn")
    # Whether a call awaits the client is never decided by a word.
    if reason in ("end_turn", "tool_use"):
        reason = "tool_use" if has_client_call else "end_turn"
    return MessageStop(reason, raw or None, string_of(fields, _SEQUENCE) or None)
