"""Chunks that only continue a block, read by what is the same in all of them.

Nearly every chunk of a stream is the frame before it with another text.  Once one has been
read with care, a chunk with the same bytes up to the text, one JSON string, and the same
end can mean only one thing: that costs a third of framing and decoding it again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import astuple

from streamnorm._json import FAST_ERRORS
from streamnorm.dialects.anthropic import wire
from streamnorm.events import Event, JSONDelta, ReasoningDelta, TextDelta

__all__ = ["MAX_TAIL", "More", "decode_string", "more_of"]

_PREFIX = b"event: content_block_delta\ndata: "
Delta: TypeAlias = TextDelta | ReasoningDelta | JSONDelta

_FIELDS: dict[type[Delta], bytes] = {
    TextDelta: b'"text":"',
    ReasoningDelta: b'"thinking":"',
    JSONDelta: b'"partial_json":"',
}
_MAX_TAILS = 64

MAX_TAIL = 256
"""Bytes behind the text: the API pads its events with spaces, a few tens of them."""

_STRING: msgspec.json.Decoder[str] = msgspec.json.Decoder(str)
decode_string = _STRING.decode


class More(Struct):
    """How a chunk looks that only continues a block.

    Attributes:
        event: The event that was read with care.
        make: Makes another.
        index: Number of its block.
        parts: The bytes up to the text, how many they are, the bytes that were seen behind
            the text, and where arguments are kept, if they are.
    """

    event: Delta
    make: Callable[[int, str], Delta]
    index: int
    parts: tuple[bytes, int, set[bytes], list[str] | None]

    def takes(self, tail: bytes) -> bool:
        """Tell whether an end that was not seen before says the same as the others."""
        if len(tail) > MAX_TAIL or tail.translate(None, b" ") != b"}}\n\n":
            return False
        tails = self.parts[2]
        if len(tails) < _MAX_TAILS:
            tails.add(tail)
        return True


def more_of(data: bytes, event: Event, pieces: list[str] | None) -> More | None:
    """Return how more of a block will look, if a chunk is one plain event.

    Args:
        data: The chunk.
        event: What was read from it.
        pieces: Where the block's arguments are kept, if they are.
    """
    if not isinstance(event, TextDelta | ReasoningDelta | JSONDelta):
        return None
    field = _FIELDS[type(event)]
    if not data.startswith(_PREFIX):
        return None
    head = data[: data.find(field) + len(field) - 1]
    tail = data[data.rfind(b'"') + 1 :]
    try:  # with another text it must be the same event
        piece = wire.decode_delta(head[len(_PREFIX) :] + b'"?"' + tail)
    except FAST_ERRORS:
        return None
    if astuple(piece.delta) != ("?",):
        return None
    more = More(event, type(event), event.index, (head, len(head), set(), pieces))
    return more if more.takes(tail) else None
