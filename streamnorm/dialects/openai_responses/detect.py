"""Detection of Responses frames and of the terminals."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from streamnorm._core.json import FAST_ERRORS, object_in
from streamnorm.sse import Frame

__all__ = ["TERMINALS", "is_terminal", "recognises"]

TERMINALS = {
    "response.completed": "completed",
    "response.incomplete": "incomplete",
    "response.failed": "failed",
    "response.cancelled": "cancelled",
}
"""Event types that end a response, each with the status of the response."""


class _NumberedHead(Struct):
    type: str | None = None
    sequence_number: int | None = None


_HEAD: msgspec.json.Decoder[_NumberedHead] = msgspec.json.Decoder(_NumberedHead)


def recognises(frame: Frame) -> bool:
    """Return whether the payload of a frame has the type of a Responses event."""
    try:
        head = _HEAD.decode(frame.data)
    except FAST_ERRORS:
        return False
    event_type = head.type or ""
    # Other dialects have `error` events, too, but do not number them.
    return event_type.startswith("response.") or (
        event_type == "error" and head.sequence_number is not None
    )


def is_terminal(frame: Frame) -> bool:
    """Return whether a frame ends the response, whatever its outcome."""
    return object_in(frame.data).get("type", frame.event) in TERMINALS
