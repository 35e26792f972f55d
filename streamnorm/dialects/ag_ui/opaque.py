"""Events that change no block, in both directions: state, activities, steps, raw events."""

from __future__ import annotations

from typing import Any

from streamnorm._core.events import Opaque
from streamnorm._core.json import compact, encode_line
from streamnorm.dialects.ag_ui.wire import DIALECT


def event_from_wire(name: str, value: Any) -> Opaque:
    """Return an event as data that only this dialect knows."""
    return Opaque(DIALECT, name, compact(value))


def event_to_wire(event: Opaque) -> bytes:
    """Return the frame of an event."""
    return b"data: %b\n\n" % encode_line(event.data)
