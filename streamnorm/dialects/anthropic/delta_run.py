"""The reader of delta runs: plain deltas of text, thinking and tool input of open blocks."""

from __future__ import annotations

from streamnorm._core.codec import DeltaRun
from streamnorm._core.json import FAST_ERRORS
from streamnorm.dialects.anthropic import wire
from streamnorm.dialects.anthropic.blocks import Content

__all__ = ["AnthropicRun"]


class AnthropicRun(DeltaRun):
    """Read the `content_block_delta` events that only extend an open block.

    Args:
        content: The blocks of the message.
    """

    prefix = b"event: content_block_delta\ndata: "

    def __init__(self, content: Content) -> None:
        super().__init__()
        self._content = content

    def decode(self, payload: bytes) -> str | None:
        try:
            event = wire.decode_delta(payload)
        except FAST_ERRORS:
            return None
        delta = event.delta
        block = self._content.appendable_block(event.index, type(delta))
        if block is None or block.delta is None:
            return None
        text = delta.text
        if block.pieces is not None:
            block.pieces.append(text)
        self.delta = block.delta
        return text
