"""The order in which the blocks of a choice are written where one may hold others back."""

from __future__ import annotations

from heapq import heappop, heappush

__all__ = ["BlockOrder"]


class BlockOrder:
    """The held blocks of one choice: that of the lowest index first.

    Blocks that a projection has added have indexes below zero, in any order; they go behind
    the blocks that started before them.

    Attributes:
        open: Index of the open block that holds back all later ones; None if there is none.
    """

    __slots__ = ("_added", "_heap", "_latest", "open")

    def __init__(self) -> None:
        self.open: int | None = None
        self._latest = -1  # highest index that started
        self._added = 0  # number of added blocks that were held
        self._heap: list[tuple[int, int, int]] = []

    def start(self, index: int) -> bool:
        """Add a block, and return whether it is held."""
        self._latest = max(self._latest, index)
        if self.open is None:
            return False
        if index < 0:
            self._added += 1
            heappush(self._heap, (self._latest, self._added, index))
        else:
            heappush(self._heap, (index, 0, index))
        return True

    def next(self) -> int | None:
        """Remove and return the first held block; None if there is none, or one is open."""
        if self.open is not None or not self._heap:
            return None
        return heappop(self._heap)[2]
