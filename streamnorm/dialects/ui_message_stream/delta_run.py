"""Reader of delta runs: consecutive deltas of text, reasoning and input of calls."""

from __future__ import annotations

from streamnorm._core.codec import DeltaRun
from streamnorm._core.json import FAST_ERRORS
from streamnorm._core.limits import OBJECT_BYTES
from streamnorm.dialects.ui_message_stream import wire
from streamnorm.dialects.ui_message_stream.blocks import MessageBlocks, PartKind


class UIMessageRun(DeltaRun):
    """The reader of deltas that only extend an open block.

    Args:
        blocks: The open parts and calls of the message.
    """

    def __init__(self, blocks: MessageBlocks) -> None:
        super().__init__()
        self._blocks = blocks

    def decode(self, payload: bytes) -> str | None:
        try:
            chunk = wire.decode_delta(payload)
        except FAST_ERRORS:
            return None
        blocks = self._blocks
        if blocks.ended is not None:
            return None
        if isinstance(chunk, wire.InputDelta):
            call = blocks.calls.get(chunk.toolCallId)
            text = chunk.inputTextDelta
            # The first text of a block opens it for the target.
            if call is None or not call.is_open or not call.fragments or call.carry:
                return None
            # A character has at most four bytes in UTF-8.  The full reading reports the limit.
            if blocks.opener.stored.left < 4 * len(text) + OBJECT_BYTES:
                return None
            if text:
                blocks.store_input(call, text)
            self.delta = call.delta
            return text
        kind: PartKind = "text" if isinstance(chunk, wire.TextDelta) else "reasoning"
        part = blocks.open.get((kind, chunk.id))
        if part is None or part.delta is None or not part.has_text or part.carry:
            return None
        if chunk.providerMetadata is not None:
            return None
        self.delta = part.delta
        return chunk.delta
