"""Events and blocks of unknown types, and `compaction` blocks, in both directions.

https://docs.anthropic.com/en/docs/build-with-claude/streaming (read 2026-11-21).
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from streamnorm._core.blocks import OpaqueBlock
from streamnorm._core.events import Opaque
from streamnorm._core.json import FAST_ERRORS, clean, compact, encode_line, is_object
from streamnorm.dialects.anthropic.wire import DIALECT
from streamnorm.sse import encode_frame

_LINE_ENDS = re.compile("[\r\n\0]")


def event_from_wire(name: str, value: Any, index: int | None) -> Opaque:
    """Return an event of an unknown type; `index` is the unified index of its block."""
    return Opaque(DIALECT, name, compact(value), index)


def event_to_wire(event: Opaque, index: int | None) -> bytes:
    """Return the frame of an event; `index` is the wire index of its block."""
    data = event.data if event.index is None else _with_index(event.data, index)
    # A name with a line end would forge further lines of the frame.
    return encode_frame(data, event=None if _LINE_ENDS.search(event.name) else event.name)


def opaque_from_wire(kind: str, block: dict[str, Any]) -> OpaqueBlock:
    """Return a block of an unknown type."""
    return OpaqueBlock(DIALECT, clean(kind), compact(block))


def complete_compaction(block: OpaqueBlock, fields: dict[str, Any]) -> OpaqueBlock:
    """Return a `compaction` block with the fields of its `compaction_delta` added."""
    return OpaqueBlock(
        block.dialect, block.kind, compact({**msgspec.json.decode(block.data), **fields})
    )


def opaque_to_wire(block: OpaqueBlock) -> tuple[object, dict[str, Any] | None]:
    """Return the block of a `content_block_start`, and the delta that follows it, if any."""
    line = encode_line(block.data)
    if block.kind != "compaction":
        return msgspec.Raw(line), None
    # The API starts a compaction without its summary and sends the summary, if there is one, in
    # one delta.  The SDKs assign these two fields of the delta and no other.
    fields: dict[str, Any] = msgspec.json.decode(line)
    names: tuple[str, ...] = ("content", "encrypted_content")
    summary = {name: fields.pop(name) for name in names if name in fields}
    start = {"type": block.kind, "content": None, **fields}
    if all(value is None for value in summary.values()):
        return start, None
    return start, {"type": "compaction_delta", **summary}


def _with_index(data: str, index: int | None) -> str:
    """Return the payload of an event with its `index`, if any, replaced."""
    try:
        value = msgspec.json.decode(data)
    except FAST_ERRORS:
        return data
    return compact({**value, "index": index}) if is_object(value) and "index" in value else data
