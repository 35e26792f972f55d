"""Detection of Anthropic frames, and of those that end a stream."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from streamnorm._core.json import FAST_ERRORS, is_object
from streamnorm._core.provider_errors import find_error
from streamnorm.sse import Frame

__all__ = ["EVENT_TYPES", "may_end_stream", "recognises"]

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

_LAST_TYPES = ("message_stop", "message_delta", "error")


class _TypeOnly(Struct):
    type: str | None = None


_TYPE: msgspec.json.Decoder[_TypeOnly] = msgspec.json.Decoder(_TypeOnly)


def recognises(frame: Frame) -> bool:
    """Return whether the `type` of a frame's payload is an event of Anthropic."""
    try:
        return _TYPE.decode(frame.data).type in EVENT_TYPES
    except FAST_ERRORS:
        return False


def may_end_stream(payload: object) -> bool:
    """Return whether a decoded payload may end the stream.

    `message_delta` may, since some servers send no `message_stop`; so may an error in the
    form of another vendor.
    """
    if not is_object(payload):
        return False
    return payload.get("type") in _LAST_TYPES or find_error(payload) is not None
