"""Reader of delta runs: consecutive deltas of text, reasoning and tool input of open blocks."""

from __future__ import annotations

from streamnorm._core.codec import DeltaRun
from streamnorm._core.events import JSONDelta, ReasoningDelta, TextDelta
from streamnorm._core.json import FAST_ERRORS
from streamnorm.dialects.bedrock_converse import wire
from streamnorm.dialects.bedrock_converse.blocks import MessageBlocks


class ConverseRun(DeltaRun):
    """The reader of `contentBlockDelta` events that only extend an open block.

    Args:
        blocks: The open blocks of the message.
    """

    prefix = b"event: contentBlockDelta\ndata: "

    def __init__(self, blocks: MessageBlocks) -> None:
        super().__init__()
        self._blocks = blocks

    def decode(self, payload: bytes) -> str | None:
        try:
            event = wire.decode_delta(payload)
        except FAST_ERRORS:
            return None
        block = self._blocks.appendable_block(event.content_block_index)
        if block is None:
            return None
        match event.delta:
            case wire.Delta(str(text), None, None) if type(block.delta) is TextDelta:
                pass
            case wire.Delta(None, wire.ToolInput(text), None) if type(block.delta) is JSONDelta:
                pass
            case wire.Delta(None, None, wire.ReasoningText(text)) if (
                type(block.delta) is ReasoningDelta
            ):
                pass
            case _:
                return None
        self.delta = block.delta
        return text
