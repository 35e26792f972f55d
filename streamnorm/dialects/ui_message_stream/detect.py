"""Detection of the chunks of the UI message stream, and of its terminal frame."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from streamnorm._core.codec import DONE
from streamnorm._core.json import FAST_ERRORS, is_array, is_object
from streamnorm.sse import Frame

CHUNK_TYPES = frozenset(
    {"start", "start-step", "finish-step", "reset-step", "finish", "abort", "error"}
    | {"text-start", "text-delta", "text-end"}
    | {"reasoning-start", "reasoning-delta", "reasoning-end"}
    | {"tool-input-start", "tool-input-delta", "tool-input-available", "tool-input-error"}
    | {"tool-output-available", "tool-output-error", "tool-output-denied"}
    | {"tool-approval-request", "tool-approval-response"}
    | {"source-url", "source-document", "file", "reasoning-file", "custom"}
    | {"message-metadata", "steering-message"}
)
# Words that are types of events in other dialects, too, or that say nothing alone.
_SHARED = frozenset({"start", "finish", "abort", "error", "file", "custom"})
_OWN = CHUNK_TYPES - _SHARED


class _Head(Struct):
    type: str
    errorText: str | None = None  # noqa: N815 - the protocol's
    messageId: str | None = None  # noqa: N815 - the protocol's
    messageMetadata: Any = None  # noqa: N815 - the protocol's
    finishReason: str | None = None  # noqa: N815 - the protocol's


_HEAD: msgspec.json.Decoder[_Head] = msgspec.json.Decoder(_Head)


def recognises(frame: Frame) -> bool:
    """Return whether the `type` of a frame's payload is one of this dialect's chunks."""
    try:
        head = _HEAD.decode(frame.data)
    except FAST_ERRORS:
        return False
    kind = head.type
    if kind in _OWN or kind.startswith("data-"):
        return True
    if kind == "error":
        return head.errorText is not None
    # The next chunk decides about those that say nothing else.
    said = (head.messageId, head.messageMetadata, head.finishReason)
    return kind in ("start", "finish") and any(each is not None for each in said)


def is_terminal(frame: Frame) -> bool:
    """Return whether a frame is `[DONE]` or `finish`."""
    if frame.data.startswith(DONE):
        return True
    try:
        return _HEAD.decode(frame.data).type == "finish"
    except FAST_ERRORS:
        return False


def is_request(body: dict[str, Any]) -> bool:
    """Return whether a JSON object can only be a request of a page: its messages have parts."""
    messages = body.get("messages")
    first = messages[0] if is_array(messages) and messages else None
    return is_object(first) and "parts" in first and "role" in first
