"""Blocks that merge where a dialect does not mark the boundary between them."""

from __future__ import annotations

from msgspec import Struct

from streamnorm._core.blocks import Reasoning, Refusal, Text
from streamnorm._core.losses.capabilities import Capabilities
from streamnorm._core.losses.loss import Losses

__all__ = ["Boundaries"]

_TEXT_BLOCKS = (Text, Reasoning, Refusal)
"""Blocks that merge with a neighbour of their type unless a boundary separates them."""
_MERGED = "written as one block"


class _WrittenBlock(Struct):
    """A block that the target writes.

    Attributes:
        type: Its type.
        choice: Number of its choice.
        signature_only: Whether it holds nothing but a signature.
        previous: Index of the block written before it.
        signed: Whether it has a signature.
        stopped: Whether it has stopped.
    """

    type: type
    choice: int
    signature_only: bool
    previous: int | None = None
    signed: bool = False
    stopped: bool = False


class _WriteOrder(Struct):
    """The blocks of one choice, in the order in which a `Sequencer` writes them.

    Attributes:
        open: Index of the open block that holds others back; None if there is none.
        last: Index of the block written last.
        held: Indexes of the blocks held back.
    """

    open: int | None = None
    last: int | None = None
    held: set[int] = set()


class Boundaries:
    """Finds the blocks that the target cannot separate from the previous one.

    Args:
        capabilities: Those of the target.
        losses: Counts the lost boundaries.

    Attributes:
        merged: Indexes of those blocks, each with the index of the previous block.
    """

    def __init__(self, capabilities: Capabilities, losses: Losses) -> None:
        self.merged: dict[int, int] = {}
        self._can = capabilities
        self._losses = losses
        self._blocks: dict[int, _WrittenBlock] = {}
        self._orders: dict[int, _WriteOrder] = {}

    def start(self, index: int, choice: int, type: type, *, signature_only: bool) -> None:
        """Add a block that the target writes.

        Args:
            index: Its index.
            choice: Number of its choice.
            type: Its type.
            signature_only: Whether it holds nothing but a signature, which readers take
                for that of the previous block if that can have one.
        """
        self._blocks[index] = _WrittenBlock(type, choice, signature_only)
        order = self._orders.setdefault(choice, _WriteOrder())
        if order.open is None:
            self._write(index, order)
        else:
            order.held.add(index)

    def sign(self, index: int) -> None:
        """Mark a block as signed: whatever follows a signature is a new block."""
        self._blocks[index].signed = True

    def stop(self, index: int, *, written: bool) -> None:
        """Stop a block.

        Args:
            index: Its index.
            written: Whether the encoder writes it; if not, its neighbours become adjacent.
        """
        block = self._blocks[index]
        order = self._orders[block.choice]
        block.stopped = True
        if not written:
            order.held.discard(index)
            if index == order.last:
                order.last = block.previous
        if index == order.open:
            order.open = None
            while order.held and order.open is None:
                first = min(order.held)
                order.held.discard(first)
                self._write(first, order)

    def _write(self, index: int, order: _WriteOrder) -> None:
        """Append a block to the written ones, and count the boundary before it if it is lost."""
        block = self._blocks[index]
        if order.last is not None and self._merge(self._blocks[order.last], block):
            self._losses.add("boundaries", self._blocks[order.last].type.__name__, _MERGED)
            self.merged[index] = order.last
        block.previous, order.last = order.last, index
        if not block.stopped and not issubclass(block.type, self._can.overlapping):
            order.open = index

    def _merge(self, previous: _WrittenBlock, block: _WrittenBlock) -> bool:
        """Return whether a reader takes a block for the continuation of the previous one."""
        if previous.signed or previous.type not in _TEXT_BLOCKS:
            return False
        return block.type is previous.type or (
            block.signature_only and previous.type in self._can.signed
        )
