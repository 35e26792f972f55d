"""Opaque data of Chat Completions: fields of a chunk that no unified event carries."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from streamnorm._core.events import Opaque
from streamnorm._core.json import FAST_ERRORS, is_array, is_object
from streamnorm.dialects.openai_chat.wire import SIDE_FIELDS

OPAQUE_DELTA_FIELDS = ("audio", "executed_tools", "images")
"""Fields of a delta that become an `Opaque` of their name."""

_Position: TypeAlias = Literal["chunk", "choice", "delta", "end"]


def opaque_to_wire(event: Opaque) -> tuple[_Position, dict[str, Any]] | None:
    """Return the field of an `Opaque` and the object it belongs to; None for a frame.

    Annotations belong to the end of the choice, where all of them are written.
    """
    name = event.name
    if name not in ("annotations", "logprobs", *SIDE_FIELDS, *OPAQUE_DELTA_FIELDS):
        return None
    try:
        value: Any = msgspec.json.decode(event.data)
    except FAST_ERRORS:
        return None
    # One list at the end of the choice, as for citations.
    if name == "annotations":
        return "end", {name: value}
    if name == "logprobs":
        return "choice", {name: value}
    # Images of a search are a field of the chunk, generated images a field of the delta.
    if name in OPAQUE_DELTA_FIELDS and (name not in SIDE_FIELDS or event.index is not None):
        return "delta", {name: _add_indexes(value)}
    return "chunk", {name: value}


def _add_indexes(value: Any) -> Any:
    """Return a list with an index in each object, without which accumulators fail."""
    if not is_array(value):
        return value
    return [
        {"index": number, **item} if is_object(item) else item for number, item in enumerate(value)
    ]
