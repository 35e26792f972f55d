"""Detection of Anthropic frames and of the terminal."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from streamnorm._core.json import FAST_ERRORS, object_in
from streamnorm.sse import Frame

__all__ = ["EVENT_TYPES", "is_terminal", "recognises"]

EVENT_TYPES = frozenset(
    {
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
        "ping",
        "error",
    }
)


class _TypeOnly(Struct):
    type: str | None = None


_TYPE: msgspec.json.Decoder[_TypeOnly] = msgspec.json.Decoder(_TypeOnly)


def recognises(frame: Frame) -> bool:
    """Return whether the `type` of a frame's payload is an event of Anthropic."""
    try:
        return _TYPE.decode(frame.data).type in EVENT_TYPES
    except FAST_ERRORS:
        return False


def is_terminal(frame: Frame) -> bool:
    """Return whether a frame is `message_stop`."""
    return bool(object_in(frame.data).get("type", frame.event) == "message_stop")
