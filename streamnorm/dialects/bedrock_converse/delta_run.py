"""Reader of delta runs: consecutive deltas of text, reasoning and tool input of open blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from streamnorm._core.codec import DeltaRun
from streamnorm._core.events import Event, JSONDelta, ReasoningDelta, TextDelta
from streamnorm._core.json import FAST_ERRORS
from streamnorm.dialects.bedrock_converse import wire
from streamnorm.dialects.bedrock_converse.blocks import MessageBlocks, OpenBlock

_Decode: TypeAlias = Callable[
    [bytes],
    wire.ContentBlockDelta[wire.TextDelta]
    | wire.ContentBlockDelta[wire.ToolInputDelta]
    | wire.ContentBlockDelta[wire.ReasoningDelta],
]

_DECODERS: dict[type[Event], _Decode] = {
    TextDelta: wire.decode_text,
    JSONDelta: wire.decode_input,
    ReasoningDelta: wire.decode_reasoning,
}


class ConverseRun(DeltaRun):
    """The reader of `contentBlockDelta` events that only extend an open block.

    The next delta nearly always has the kind of the last one, and extends the same block.

    Args:
        blocks: The open blocks of the message.
    """

    prefix = b"event: contentBlockDelta\ndata: "

    def __init__(self, blocks: MessageBlocks) -> None:
        super().__init__()
        self._open = blocks.open
        self._kind: type[Event] = TextDelta  # of the last delta
        self._decode: _Decode = wire.decode_text
        self._index: int | None = None  # of the last block in the stream; None if it may be sealed

    def expect(self, events: list[Event]) -> None:
        """Select the kind of the next delta, after an event was read in full."""
        self._index = None
        kind = type(events[-1]) if events else self._kind
        if kind in _DECODERS:
            self._kind, self._decode = kind, _DECODERS[kind]

    def decode(self, payload: bytes) -> str | None:
        try:
            event = self._decode(payload)
        except FAST_ERRORS:
            return None
        if event.content_block_index != self._index and not self._select(event.content_block_index):
            return None
        delta = event.delta
        return delta.text if isinstance(delta, wire.TextDelta) else delta.member.text

    def _select(self, index: int) -> bool:
        """Expect deltas of the block at an index; return whether that can be extended."""
        block = self._open.get(index)
        # The first text of a block opens it for the target, and nothing extends what is sealed.
        if type(block) is not OpenBlock or not block.has_text or block.carry or block.signature:
            return False
        if type(block.delta) is not self._kind:
            return False
        self._index, self.delta = index, block.delta
        return True
