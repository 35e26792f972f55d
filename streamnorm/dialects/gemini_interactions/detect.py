"""Detection of Interactions frames and of the frame that ends an interaction."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from streamnorm._core.json import FAST_ERRORS, InvalidJSON, decode_any, is_object, string_of
from streamnorm._core.provider_errors import find_error
from streamnorm.dialects.gemini_interactions.stop_reasons import TERMINAL, status_of
from streamnorm.sse import Frame

__all__ = ["DONE", "event_type", "is_interaction", "is_terminal"]

DONE = "[DONE]"

_STEPS = frozenset({"step.start", "step.delta", "step.stop"})
_CONTENTS = frozenset({"content.start", "content.delta", "content.stop"})


class _IndexedHead(Struct):
    event_type: str
    index: Any = None


_HEAD: msgspec.json.Decoder[_IndexedHead] = msgspec.json.Decoder(_IndexedHead)


def is_interaction(frame: Frame) -> bool:
    """Return whether the name or `event_type` of a frame is one of the Interactions API."""
    if frame.event.startswith("interaction.") or frame.event in _STEPS:
        return True
    try:
        head = _HEAD.decode(frame.data)
    except FAST_ERRORS:
        return False
    kind = head.event_type
    if kind.startswith("interaction.") or kind in _STEPS:
        return True
    # Other vendors' content events have no index.
    return kind in _CONTENTS and type(head.index) is int


def is_terminal(frame: Frame, *, max_json_depth: int) -> bool:
    """Return whether a frame without its blank line is whole and ends the interaction."""
    if frame.data.startswith(DONE):
        return True
    try:
        value = decode_any(frame.data, max_depth=max_json_depth)
    except InvalidJSON:
        return False
    if not is_object(value):
        return False
    family, _, action = event_type(value, frame).partition(".")
    if family != "interaction":
        return family == "error" or find_error(value) is not None
    return action != "status_update" and status_of(action, value) in TERMINAL


def event_type(value: dict[str, Any], frame: Frame) -> str:
    """Return the `event_type` of an event; where it is missing, the name of its frame."""
    return string_of(value, "event_type") or frame.event
