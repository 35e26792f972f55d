"""Gemini's fields without a unified event: reading them, and the object each is written to.

https://ai.google.dev/api/generate-content (read 2026-11-22).
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from streamnorm._core.events import Opaque
from streamnorm._core.json import FAST_ERRORS, compact, is_object
from streamnorm.dialects.gemini.stop_reasons import finish_reason_of
from streamnorm.dialects.gemini.wire import PIECES

Target: TypeAlias = Literal["candidate", "part", "frame", "dropped"]

CHUNK_LEVEL_FIELDS = frozenset({"createTime", "modelStatus", "promptFeedback"})
"""Fields of `MessageStop.extra` that belong to the chunk, not to its candidate."""

_CANDIDATE_FIELDS = frozenset({"citationMetadata", "groundingMetadata", "logprobsResult"})
_FRAME = "frame"


def replace_half_characters(key: str, value: Any) -> Any:
    """Return the value of an unknown field, with lone surrogates of fragments replaced."""
    return msgspec.json.decode(compact(value)) if key in PIECES else value


def opaque_to_wire(event: Opaque) -> tuple[Target, dict[str, Any]]:
    """Return the object that an opaque event is written to, and its fields there."""
    try:
        value: Any = msgspec.json.decode(event.data)
    except FAST_ERRORS:
        return "dropped", {}
    if event.name in _CANDIDATE_FIELDS:
        return "candidate", {event.name: value}
    if event.name == _FRAME:
        return ("frame", value) if is_object(value) else ("dropped", {})
    # A string is the data of a frame with an event name: no field of a part is a string.
    return ("dropped", {}) if isinstance(value, str) else ("part", {event.name: value})


def block_reason(fields: dict[str, Any]) -> str:
    """Return the `blockReason` in fields of a chunk; "" if the prompt was not blocked."""
    feedback = fields.get("promptFeedback")
    reason = feedback.get("blockReason") if is_object(feedback) else None
    return finish_reason_of(reason) if isinstance(reason, str) else ""
