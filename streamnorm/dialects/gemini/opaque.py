"""Where Gemini's own data stands that has no place in the events."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from streamnorm._core.events import Opaque
from streamnorm._core.json import FAST_ERRORS, is_object

__all__ = ["OF_CHUNK", "Place", "blocked_by", "opaque_fields"]

Place: TypeAlias = Literal["candidate", "part", "frame", "nowhere"]

OF_CHUNK = frozenset({"createTime", "modelStatus", "promptFeedback"})
"""The fields of a chunk that stand beside its candidates."""

_OF_CANDIDATE = frozenset({"citationMetadata", "groundingMetadata", "logprobsResult"})
_FRAME = "frame"


def opaque_fields(event: Opaque) -> tuple[Place, dict[str, Any]]:
    """Return where data goes, and its fields; nowhere, if no client could read it."""
    try:
        value: Any = msgspec.json.decode(event.data)
    except FAST_ERRORS:
        return "nowhere", {}
    if event.name in _OF_CANDIDATE:
        return "candidate", {event.name: value}
    if event.name == _FRAME:
        return ("frame", value) if is_object(value) else ("nowhere", {})
    # A part's own fields are of the text that is open; an event's data is text.
    return ("nowhere", {}) if isinstance(value, str) else ("part", {event.name: value})


def blocked_by(fields: dict[str, Any]) -> str:
    """Return why the prompt was blocked by fields of a chunk; an empty text if it was not."""
    feedback = fields.get("promptFeedback")
    reason = feedback.get("blockReason") if is_object(feedback) else None
    return reason if isinstance(reason, str) else ""
