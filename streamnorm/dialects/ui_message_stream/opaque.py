"""Chunks of types that no unified event stands for, in both directions."""

from __future__ import annotations

from streamnorm._core.events import Opaque
from streamnorm._core.json import clean, compact, encode_line, string_of
from streamnorm.dialects.ui_message_stream.wire import DIALECT, Chunk


def chunk_from_wire(value: Chunk) -> Opaque:
    """Return a chunk of a type that no unified event stands for."""
    return Opaque(DIALECT, clean(string_of(value, "type")), compact(value))


def chunk_to_wire(event: Opaque) -> bytes:
    """Return the frame of a chunk that was read from the same dialect."""
    return b"data: %b\n\n" % encode_line(event.data)
