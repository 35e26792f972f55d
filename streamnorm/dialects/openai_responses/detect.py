"""Detection: frames of the Responses API, and payloads that end a response."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from streamnorm._core.json import FAST_ERRORS, is_object
from streamnorm._core.provider_errors import find_error
from streamnorm.sse import Frame

__all__ = ["TERMINALS", "ends_stream", "recognises"]

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


def ends_stream(payload: object) -> bool:
    """Return whether a decoded payload ends the stream: a terminal event or an error."""
    if not is_object(payload):
        return False
    return payload.get("type") in (*TERMINALS, "error") or find_error(payload) is not None
