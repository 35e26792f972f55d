"""Traits of the Interactions API: how its frames and its terminal frame are recognised.

https://ai.google.dev/api/interactions-api (read 2026-11-22).
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from streamnorm._core.codec import DONE
from streamnorm._core.json import FAST_ERRORS, object_in, string_of
from streamnorm.dialects.gemini_interactions.outcome import FINAL_EVENTS
from streamnorm.sse import Frame

_TERMINALS = tuple(f"interaction.{name}" for name in FINAL_EVENTS)
_STEPS = frozenset({"step.start", "step.delta", "step.stop"})
_CONTENTS = frozenset({"content.start", "content.delta", "content.stop"})


class _IndexedHead(Struct):
    event_type: str
    index: Any = None


_HEAD: msgspec.json.Decoder[_IndexedHead] = msgspec.json.Decoder(_IndexedHead)


def is_interaction(frame: Frame) -> bool:
    """Return whether the name or `event_type` of a frame is one of the Interactions API."""
    # The API sends the type twice, as the name of the frame and in the payload; either suffices.
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


def is_terminal(frame: Frame) -> bool:
    """Return whether a frame completes the interaction, or is `[DONE]`."""
    return frame.data.startswith(DONE) or object_in(frame.data).get("event_type") in _TERMINALS


def event_type(value: dict[str, Any], frame: Frame) -> str:
    """Return the `event_type` of an event; the name of its frame if it is missing."""
    return string_of(value, "event_type") or frame.event
