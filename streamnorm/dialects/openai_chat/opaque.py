"""Where the dialect's own data stands that has no place in the events."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from streamnorm._core.events import Opaque
from streamnorm._core.json import FAST_ERRORS, is_array, is_object
from streamnorm.dialects.openai_chat.wire import SIDE_FIELDS

__all__ = ["opaque_fields"]

Place: TypeAlias = Literal["chunk", "choice", "delta", "end"]

_DELTA_FIELDS = ("audio", "executed_tools", "images")


def opaque_fields(event: Opaque) -> tuple[Place, dict[str, Any]] | None:
    """Return where a field goes, and the field; None for what was a frame of its own."""
    name = event.name
    if name not in ("annotations", "logprobs", *SIDE_FIELDS, *_DELTA_FIELDS):
        return None
    try:
        value: Any = msgspec.json.decode(event.data)
    except FAST_ERRORS:
        return None
    if name == "annotations":
        return "end", {name: value}
    if name == "logprobs":
        return "choice", {name: value}
    if name in _DELTA_FIELDS and (name not in SIDE_FIELDS or event.index is not None):
        return "delta", {name: _indexed(value)}
    return "chunk", {name: value}


def _indexed(value: Any) -> Any:
    """Return a list with an index in each object, without which accumulators fail."""
    if not is_array(value):
        return value
    return [
        {"index": number, **item} if is_object(item) else item for number, item in enumerate(value)
    ]
