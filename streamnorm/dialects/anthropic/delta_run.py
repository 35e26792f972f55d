"""The reader of delta runs: plain deltas of text, thinking and tool input of open blocks."""

from __future__ import annotations

from streamnorm._json import FAST_ERRORS
from streamnorm.codec import (
    Delta,
    DeltaRun,
    Template,
    decode_string,
    string_pattern,
    surroundings,
)
from streamnorm.dialects.anthropic import wire
from streamnorm.dialects.anthropic.content import Content

__all__ = ["AnthropicRun"]

_PREFIX = b"event: content_block_delta\ndata: "
_START = len(_PREFIX)
_LF = 10
_TEXT = string_pattern("text", "thinking", "partial_json")
_MAX_TAILS = 64


class AnthropicRun(DeltaRun):
    """Read the `content_block_delta` events that only extend an open block.

    Args:
        content: The blocks of the message.
    """

    def __init__(self, content: Content) -> None:
        super().__init__()
        self._before: Delta | None = None  # the delta of the frame before
        self._content = content

    def decode(self, raw: bytes) -> str | None:
        if raw[:_START] != _PREFIX or raw.find(_LF, _START) >= 0:
            return None
        try:
            event = wire.decode_delta(raw[_START:])
        except FAST_ERRORS:
            return None
        block = self._content.appendable_block(event.index, type(event.delta))
        if block is None or block.delta is None:
            return None
        text = event.delta.text
        if block.pieces is not None:
            block.pieces.append(text)
        self.delta = block.delta
        return text

    def learn(self, raw: bytes) -> Template | None:
        if self.delta is not self._before:  # blocks take turns
            self._before = self.delta
            return None
        event = wire.decode_delta(raw[_START:])
        block = self._content.appendable_block(event.index, type(event.delta))
        event.delta.text = "?"
        around = surroundings(raw, _TEXT, lambda frame: wire.decode_delta(frame[_START:]) == event)
        if around is None or block is None or not _is_end(around.tail):
            return None
        return _template(around.head, block.pieces)


def _template(head: bytes, pieces: list[str] | None) -> Template:
    """Return a template of frames with the same bytes before their text, and nothing behind it.

    Args:
        head: The bytes before the text.
        pieces: Where the texts are kept, if they are.
    """
    start = len(head)
    tails: set[bytes] = set()  # those that were seen: the API pads its events with spaces

    def read(raw: bytes) -> str | None:
        if raw[:start] != head:
            return None
        end = raw.rfind(b'"')
        tail = raw[end:]
        if tail not in tails:
            if not _is_end(tail):
                return None
            if len(tails) < _MAX_TAILS:
                tails.add(tail)
        try:
            text = decode_string(raw[start - 1 : end + 1])
        except FAST_ERRORS:
            return None
        if pieces is not None:
            pieces.append(text)
        return text

    return read


def _is_end(tail: bytes) -> bool:
    """Tell whether what stands behind a text only ends the payload."""
    return tail.translate(None, b" ") == b'"}}'
