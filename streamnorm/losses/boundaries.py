"""Where blocks of one kind meet, for a dialect that does not tell where one ends."""

from __future__ import annotations

from msgspec import Struct

from streamnorm.blocks import Reasoning, Refusal, Text
from streamnorm.losses.capabilities import Capabilities, Losses

__all__ = ["Boundaries"]

_PLAIN = (Text, Reasoning, Refusal)
"""The blocks that only a boundary keeps apart from the next of their kind."""


class _Spot(Struct):
    """One block among those of its choice that went out."""

    kind: type
    choice: int
    bare: bool
    before: int | None = None
    after: int | None = None
    stopped: bool = False
    signed: bool = False


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
        self._signed = capabilities.signed
        self._losses = losses
        self._spots: dict[int, _Spot] = {}
        self._latest: dict[int, int] = {}  # of each choice

    def start(self, index: int, choice: int, kind: type, *, bare: bool) -> None:
        """Take the start of a block that goes out.

        Args:
            index: Its index.
            choice: Number of its answer.
            kind: Its type.
            bare: Whether it is but a signature, which is taken for that of the block before
                if that can have one.
        """
        spot = self._spots[index] = _Spot(kind, choice, bare)
        latest = self._latest.get(choice)
        if latest is not None:
            if latest > index:  # which has overtaken it
                return
            spot.before = latest
            self._spots[latest].after = index
            self._merge(latest)
        self._latest[choice] = index

    def sign(self, index: int) -> None:
        """Take a block's signature, behind which another begins."""
        self._spots[index].signed = True

    def stop(self, index: int) -> None:
        """Take the stop of a block."""
        self._spots[index].stopped = True
        self._merge(index)

    def take_out(self, index: int) -> None:
        """Take it that nothing of a block is written, so that its neighbours meet."""
        spot = self._spots.pop(index)
        if spot.after is not None:
            self._spots[spot.after].before = spot.before
        if spot.before is not None:
            self._spots[spot.before].after = spot.after
            self._merge(spot.before)
        if self._latest.get(spot.choice) == index:
            del self._latest[spot.choice]
            if spot.before is not None:
                self._latest[spot.choice] = spot.before

    def _merge(self, index: int) -> None:
        spot = self._spots[index]
        if spot.after is None or not spot.stopped or spot.signed or spot.kind not in _PLAIN:
            return
        after = self._spots[spot.after]
        if after.kind is spot.kind or (after.bare and spot.kind in self._signed):
            self._losses.add("boundaries", spot.kind.__name__, "written as one block")
            self.merged[spot.after] = index
