"""Events and blocks of unknown types, in both directions.

A block that no unified one stands for comes whole: its start, if it had one, and its deltas.
"""

from __future__ import annotations

import re
from typing import Any

from streamnorm._core.blocks import OpaqueBlock
from streamnorm._core.events import Opaque
from streamnorm._core.json import clean, compact, encode_line, is_array, is_object, object_in
from streamnorm.dialects.bedrock_converse.wire import DIALECT, INDEX, PADDING

_LINE_ENDS = re.compile("[\r\n]")


def event_from_wire(name: str, value: Any, index: int | None) -> Opaque:
    """Return an event of an unknown type; `index` is the unified index of its block."""
    if is_object(value):
        value = {key: item for key, item in value.items() if key != PADDING}
    return Opaque(DIALECT, clean(name), compact(value), index)


def event_to_wire(event: Opaque, index: int | None) -> tuple[str, bytes]:
    """Return the name and the payload of an event; `index` is the wire index of its block."""
    data = event.data
    if index is not None:
        value = object_in(data)
        data = compact({**value, INDEX: index}) if INDEX in value else data
    return _LINE_ENDS.sub(" ", event.name), encode_line(data)


def block_from_wire(start: Any, deltas: list[Any]) -> OpaqueBlock:
    """Return a block from its start (None if it had none) and its deltas."""
    names = [name for part in (start, *deltas) if is_object(part) for name in part]
    kind = clean(names[0] if names else "")
    return OpaqueBlock(DIALECT, kind, compact({"start": start, "deltas": deltas}))


def block_to_wire(block: OpaqueBlock) -> tuple[object, list[object]]:
    """Return the start of a block (None if it has none) and its deltas."""
    fields = object_in(_LINE_ENDS.sub(" ", block.data))
    deltas = fields.get("deltas")
    return fields.get("start"), deltas if is_array(deltas) else []
