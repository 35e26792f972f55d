"""Chunks that only continue a block, read by what is the same in all of them.

Nearly every chunk of a stream is the frame before it with another text.  Once one has been
read with care, a chunk with the same bytes up to the text, one JSON string, and the same
end can mean only one thing: that costs a third of framing and decoding it again.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from msgspec.structs import astuple

from streamnorm._json import FAST_ERRORS
from streamnorm.codec import Delta
from streamnorm.dialects.anthropic import wire
from streamnorm.events import JSONDelta, ReasoningDelta, TextDelta
from streamnorm.sse import SSEDecoder

__all__ = ["more_of"]

_PREFIX = b"event: content_block_delta\ndata: "

_FIELDS: dict[type[Delta], bytes] = {
    TextDelta: b'"text":"',
    ReasoningDelta: b'"thinking":"',
    JSONDelta: b'"partial_json":"',
}
# The API pads its events with spaces, a few tens of them.
_MAX_TAIL = 256
_MAX_TAILS = 64

_STRING: msgspec.json.Decoder[str] = msgspec.json.Decoder(str)
_decode_string = _STRING.decode


def more_of(
    data: bytes, event: Delta, pieces: list[str] | None, sse: SSEDecoder, max_event_bytes: int
) -> Callable[[bytes], str | None] | None:
    """Return what reads the text of more of a block, if a chunk is one plain event.

    Args:
        data: The chunk.
        event: What was read from it.
        pieces: Where the block's arguments are kept, if they are.
        sse: Counts the frames.
        max_event_bytes: Bytes of one event.
    """
    field = _FIELDS[type(event)]
    if not data.startswith(_PREFIX):
        return None
    head = data[: data.find(field) + len(field) - 1]
    tail = data[data.rfind(b'"') + 1 :]
    try:  # with another text it must be the same event
        piece = wire.decode_delta(head[len(_PREFIX) :] + b'"?"' + tail)
    except FAST_ERRORS:
        return None
    tails: set[bytes] = set()  # those that were seen
    if astuple(piece.delta) != ("?",) or not _ends(tail, tails):
        return None
    size, max_end = len(head), max_event_bytes - _MAX_TAIL

    def more(data: bytes) -> str | None:
        if not data.startswith(head):
            return None
        end = data.rfind(b'"') + 1
        tail = data[end:]
        if end > max_end or not (tail in tails or _ends(tail, tails)):
            return None
        try:
            text = _decode_string(data[size:end])
        except FAST_ERRORS:
            return None
        sse.frames += 1
        if pieces is not None:
            pieces.append(text)
        return text

    return more


def _ends(tail: bytes, tails: set[bytes]) -> bool:
    """Tell whether what stands behind a text only ends the event, and remember it."""
    if len(tail) > _MAX_TAIL or tail.translate(None, b" ") != b"}}\n\n":
        return False
    if len(tails) < _MAX_TAILS:
        tails.add(tail)
    return True
