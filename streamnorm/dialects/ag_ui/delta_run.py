"""Reader of delta runs: consecutive content events of open messages and calls."""

from __future__ import annotations

from streamnorm._core.codec import DeltaRun
from streamnorm._core.json import FAST_ERRORS
from streamnorm.dialects.ag_ui import wire
from streamnorm.dialects.ag_ui.blocks import MessageBlocks, OpenBlock


class AGUIRun(DeltaRun):
    """The reader of content events that only extend an open block.

    Args:
        blocks: The open blocks of the run.
    """

    def __init__(self, blocks: MessageBlocks) -> None:
        super().__init__()
        self._blocks = blocks

    def decode(self, payload: bytes) -> str | None:
        try:
            event = wire.decode_content(payload)
        except FAST_ERRORS:
            return None
        block = self._block_of(event)
        if block is None or block.carry or block.signature:
            return None
        self.delta = block.delta
        return event.delta

    def _block_of(self, event: wire.Content) -> OpenBlock | None:
        blocks = self._blocks
        if blocks.lane is not None:  # which any other event closes
            return None
        if event.type == wire.TEXT_CONTENT:
            return blocks.texts.get(event.message_id)
        if event.type == wire.CALL_ARGS:
            return blocks.calls.get(event.call_id)
        span = blocks.span
        if span is None or span.message != event.message_id:
            return None
        return span.block if span.is_open and span.has_text else None
