"""Reader of delta runs: consecutive deltas of text, thinking and tool input of open blocks."""

from __future__ import annotations

from streamnorm._core.codec import DeltaRun
from streamnorm._core.json import FAST_ERRORS
from streamnorm._core.text import LONG_CHARS
from streamnorm.dialects.anthropic import wire
from streamnorm.dialects.anthropic.blocks import MAX_FRESH, MessageBlocks


class AnthropicRun(DeltaRun):
    """The reader of `content_block_delta` events that only extend an open block.

    Args:
        blocks: The open blocks of the message.
    """

    prefix = b"event: content_block_delta\ndata: "

    def __init__(self, blocks: MessageBlocks) -> None:
        super().__init__()
        self._blocks = blocks
        self._stored = blocks.opener.stored

    def decode(self, payload: bytes) -> str | None:
        try:
            event = wire.decode_delta(payload)
        except FAST_ERRORS:
            return None
        delta = event.delta
        block = self._blocks.appendable_block(event.index, type(delta))
        if block is None or block.delta is None:
            return None
        text = delta.text
        if type(delta) is wire.InputJSONDelta:
            fresh = block.fragments.fresh
            if len(fresh) < MAX_FRESH and len(text) <= LONG_CHARS:
                fresh.append(text)
            elif not block.append_fragment(text, self._stored):
                return None
        self.delta = block.delta
        return text
