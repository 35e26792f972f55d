"""Reader of delta runs: consecutive deltas of text, reasoning and tool input of open blocks."""

from __future__ import annotations

from streamnorm._core.codec import DeltaRun
from streamnorm._core.events import JSONDelta, ReasoningDelta, TextDelta
from streamnorm._core.json import FAST_ERRORS
from streamnorm.dialects.bedrock_converse import wire
from streamnorm.dialects.bedrock_converse.blocks import MessageBlocks, OpenBlock


class ConverseRun(DeltaRun):
    """The reader of `contentBlockDelta` events that only extend an open block.

    Args:
        blocks: The open blocks of the message.
    """

    prefix = b"event: contentBlockDelta\ndata: "

    def __init__(self, blocks: MessageBlocks) -> None:
        super().__init__()
        self._open = blocks.open

    def decode(self, payload: bytes) -> str | None:
        try:
            event = wire.decode_delta(payload)
        except FAST_ERRORS:
            return None
        block = self._open.get(event.content_block_index)
        # The first text of a block opens it for the target, and nothing extends what is sealed.
        if type(block) is not OpenBlock or not block.has_text or block.carry or block.signature:
            return None
        delta, kind = event.delta, type(block.delta)
        text, tool_use, reasoning = delta.text, delta.tool_use, delta.reasoning_content
        # A union has one member.
        if text is not None:
            if kind is not TextDelta or tool_use is not None or reasoning is not None:
                return None
        elif tool_use is not None:
            if kind is not JSONDelta or reasoning is not None:
                return None
            text = tool_use.input
        elif reasoning is None or kind is not ReasoningDelta:
            return None
        else:
            text = reasoning.text
        self.delta = block.delta
        return text
