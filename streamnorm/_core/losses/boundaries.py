"""Where blocks of one kind meet, for a dialect that does not tell where one ends."""

from __future__ import annotations

from msgspec import Struct

from streamnorm._core.blocks import Reasoning, Refusal, Text
from streamnorm._core.losses.capabilities import Capabilities, Losses

__all__ = ["Boundaries"]

_PLAIN = (Text, Reasoning, Refusal)
"""The blocks that only a boundary keeps apart from the next of their kind."""
_JOINED = "written as one block"


class _Spot(Struct):
    """One block that goes out.

    Attributes:
        kind: Its type.
        choice: Number of its answer.
        bare: Whether it is but a signature.
        before: The block that was written before it.
        signed: Whether it has a signature.
        stopped: Whether it has stopped.
    """

    kind: type
    choice: int
    bare: bool
    before: int | None = None
    signed: bool = False
    stopped: bool = False


class _Lane(Struct):
    """The blocks of one answer, in the order in which a `Sequencer` writes them.

    Attributes:
        head: The open block that later ones wait for; None if there is none.
        last: The block that was written last.
        waiting: The blocks that wait.
    """

    head: int | None = None
    last: int | None = None
    waiting: set[int] = set()


class Boundaries:
    """Find the blocks that the target cannot tell from the one before them.

    Args:
        capabilities: The dialect.
        losses: Where they are counted.

    Attributes:
        merged: Those blocks, each with the index of the one before.
    """

    def __init__(self, capabilities: Capabilities, losses: Losses) -> None:
        self.merged: dict[int, int] = {}
        self._can = capabilities
        self._losses = losses
        self._spots: dict[int, _Spot] = {}
        self._lanes: dict[int, _Lane] = {}

    def start(self, index: int, choice: int, kind: type, *, bare: bool) -> None:
        """Take the start of a block that goes out.

        Args:
            index: Its index.
            choice: Number of its answer.
            kind: Its type.
            bare: Whether it is but a signature, which is taken for that of the block before
                if that can have one.
        """
        self._spots[index] = _Spot(kind, choice, bare)
        lane = self._lanes.setdefault(choice, _Lane())
        if lane.head is None:
            self._write(index, lane)
        else:
            lane.waiting.add(index)

    def sign(self, index: int) -> None:
        """Take a block's signature, behind which another begins."""
        self._spots[index].signed = True

    def stop(self, index: int, *, written: bool) -> None:
        """Take the stop of a block.

        Args:
            index: Its index.
            written: Whether anything of it is; else its neighbours meet.
        """
        spot = self._spots[index]
        lane = self._lanes[spot.choice]
        spot.stopped = True
        if not written:
            lane.waiting.discard(index)
            if index == lane.last:
                lane.last = spot.before
        if index == lane.head:
            lane.head = None
            while lane.waiting and lane.head is None:
                first = min(lane.waiting)
                lane.waiting.discard(first)
                self._write(first, lane)

    def _write(self, index: int, lane: _Lane) -> None:
        """Take it that a block is written now."""
        spot = self._spots[index]
        if lane.last is not None and self._meet(self._spots[lane.last], spot):
            self._losses.add("boundaries", self._spots[lane.last].kind.__name__, _JOINED)
            self.merged[index] = lane.last
        spot.before, lane.last = lane.last, index
        if not spot.stopped and not issubclass(spot.kind, self._can.overlapping):
            lane.head = index

    def _meet(self, before: _Spot, spot: _Spot) -> bool:
        """Tell whether a block looks like more of the one before it."""
        if before.signed or before.kind not in _PLAIN:
            return False
        return spot.kind is before.kind or (spot.bare and before.kind in self._can.signed)
