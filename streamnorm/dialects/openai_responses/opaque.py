"""Opaque events, items and content parts, which are stored as JSON text."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from streamnorm._core.blocks import OpaqueBlock
from streamnorm._core.events import Opaque
from streamnorm._core.json import (
    FAST_ERRORS,
    clean,
    compact,
    encode_line,
    is_array,
    is_object,
    string_of,
)
from streamnorm.dialects.openai_responses.wire import DIALECT

_LINE_BREAKS = re.compile("[\r\n\0]")


def event_from_wire(event_type: str, payload: Any, index: int | None = None) -> Opaque:
    """Return an event of an unknown type."""
    return Opaque(DIALECT, event_type, compact(payload), index)


def event_to_wire(event: Opaque, position: dict[str, Any]) -> tuple[str, dict[str, Any]] | None:
    """Return the type and the fields of an event to write; None if it is no JSON object.

    Args:
        event: The event.
        position: Item id and indexes of the written item; {} without an item.
    """
    value = _decode(event.data)
    if not is_object(value):
        return None
    fields = {key: item for key, item in value.items() if key not in ("type", "sequence_number")}
    fields |= {key: item for key, item in position.items() if key in fields}
    # A line break in the event type would begin another frame.
    return _LINE_BREAKS.sub(" ", clean(event.name)), fields


def block_from_wire(item: dict[str, Any]) -> OpaqueBlock:
    """Return an item or a content part of an unknown type."""
    return OpaqueBlock(DIALECT, string_of(item, "type"), compact(item))


def block_to_wire(data: str) -> bytes:
    """Return the JSON of an item or a content part on one line."""
    return encode_line(data)


def logprobs_from_wire(tokens: Any, index: int) -> Opaque:
    """Return the log probabilities of the text of block `index`."""
    return event_from_wire("logprobs", tokens, index)


def logprobs_to_wire(event: Opaque) -> list[Any] | None:
    """Return log probabilities as an array; None for any other value."""
    tokens = _decode(event.data)
    return tokens if is_array(tokens) else None


def _decode(data: str) -> Any:
    try:
        return msgspec.json.decode(data)
    except FAST_ERRORS:
        return None
