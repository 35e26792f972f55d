"""A content block between its start and its stop, and the reading of its start."""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field

from streamnorm._core.blocks import Block, Citation, Reasoning, Text
from streamnorm._core.codec import Delta
from streamnorm._core.events import StreamError
from streamnorm._core.failures import Fatal
from streamnorm._core.json import clean, objects_of, string_of
from streamnorm._core.limits import StoredBytes
from streamnorm._core.text import LONG_CHARS, TextBuffer
from streamnorm.dialects.anthropic import wire
from streamnorm.dialects.anthropic.citations import citation_from_wire
from streamnorm.dialects.anthropic.opaque import opaque_from_wire
from streamnorm.dialects.anthropic.reasoning import redacted_from_wire
from streamnorm.dialects.anthropic.tool_calls import (
    CALL_TYPES,
    call_from_wire,
    input_from_wire,
    result_from_wire,
)

__all__ = ["MAX_FRESH", "OpenBlock", "malformed", "open_block"]

MAX_FRESH = 64
"""Fragments of a call's input that are packed and counted at once."""


class OpenBlock(Struct):
    """A content block between its start and its stop.

    Attributes:
        unified: The unified block, empty if it grows by deltas.
        extra: Fields of the start that are not mapped to `unified`.
        start_text: Text or thinking in the start.
        start_signature: Signature in the start; a signature delta replaces it.
        start_input: Input in the start; deltas replace it.
        start_citations: Citations in the start.
        index: Unified index; -1 while the `BlockStart` is held.
        delta: An empty delta of the block; None before `BlockStart` and if it does not grow.
        has_deltas: Whether a delta with text, thinking or input has arrived.
        fragments: Input of a call so far; empty for other blocks.
        carry: High surrogate at the end of the last delta.
        signature: Signature of the last signature delta, as spelt on the wire.
        stored_bytes: Bytes that are counted as stored until the block stops, but for
            `fragments`.
    """

    unified: Block
    extra: dict[str, Any] = {}
    start_text: str = ""
    start_signature: str = ""
    start_input: str = ""
    start_citations: tuple[Citation, ...] = ()
    index: int = -1
    delta: Delta | None = None
    has_deltas: bool = False
    fragments: TextBuffer = field(default_factory=TextBuffer)
    carry: str = ""
    signature: str = ""
    stored_bytes: int = 0

    def append_fragment(self, text: str, stored: StoredBytes) -> bool:
        """Store a fragment of a call's input; False, and nothing changes, if it is too much.

        Fragments are counted in batches, so that the one that ends the next batch is refused.
        """
        fresh = self.fragments.fresh
        if len(fresh) < MAX_FRESH and len(text) <= LONG_CHARS:
            fresh.append(text)
            return True
        if stored.left < 0:
            return False
        fresh.append(text)
        stored.left -= self.fragments.pack()
        return True


def open_block(block: dict[str, Any], raw_input: str | None, server: str | None) -> OpenBlock:
    """Return the block of a `content_block_start`, not yet numbered."""
    match block:
        case {"type": "text"}:
            return OpenBlock(
                Text(),
                wire.unmapped(block, "type", "text", "citations"),
                start_text=clean(wire.text_of(block, "text")),
                start_citations=tuple(map(citation_from_wire, objects_of(block.get("citations")))),
            )
        case {"type": "thinking"}:
            return OpenBlock(
                Reasoning(),
                wire.unmapped(block, "type", "thinking", "signature"),
                start_text=clean(wire.text_of(block, "thinking")),
                start_signature=string_of(block, "signature"),
            )
        case {"type": "redacted_thinking", "data": str(data)}:
            return OpenBlock(redacted_from_wire(data, server), wire.unmapped(block, "type", "data"))
        case {"type": str(kind), "name": str(name)} if kind in CALL_TYPES and name:
            return OpenBlock(
                call_from_wire(kind, name, block),
                wire.unmapped(block, "type", "id", "name", "input"),
                start_input=input_from_wire(block, raw_input),
            )
        case {"type": str(kind), "tool_use_id": str(id)} if kind.endswith("_tool_result"):
            extra = wire.unmapped(block, "type", "tool_use_id", "content")
            return OpenBlock(result_from_wire(kind, id, block), extra)
        case {"type": str(kind)} if kind in CALL_TYPES or kind == "redacted_thinking":
            raise malformed(f"{kind} lacks a field, expected all that are required")
        case {"type": str(kind)}:
            return OpenBlock(opaque_from_wire(kind, block))
        case _:
            raise malformed("content block without a type, expected one")


def malformed(message: str) -> Fatal:
    """Return the error of a stream whose blocks violate the protocol."""
    return Fatal(StreamError("malformed", message))
