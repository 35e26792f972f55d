"""Which faults spoil the next answer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from streamnorm.recording.exchange import Playback

__all__ = ["FaultQueue", "ReplayFault"]


class ReplayFault(Protocol):
    """What spoils an answer."""

    @property
    def times(self) -> int | None:
        """How many requests it spoils; None for all."""
        ...

    @property
    def replaces(self) -> bool:
        """Whether it answers in place of a recording, which stays to be played."""
        ...

    def __call__(self, playback: Playback, /) -> Playback:
        """Return the answer, spoilt."""
        ...


class FaultQueue:
    """The faults that are left, request by request.  Its owner sees to threads.

    Args:
        faults: All of them, in the order in which they are applied.
    """

    def __init__(self, faults: Iterable[ReplayFault]) -> None:
        self._faults = tuple(faults)
        self._times_left = [fault.times for fault in self._faults]

    def take(self) -> Sequence[ReplayFault]:
        """Return the faults of the next request, and count them.

        One that replaces comes before those that do not, and is alone with its request.
        """
        ready = [n for n, left in enumerate(self._times_left) if left != 0]
        ready = [n for n in ready if self._faults[n].replaces][:1] or ready
        for n in ready:
            if (left := self._times_left[n]) is not None:
                self._times_left[n] = left - 1
        return [self._faults[n] for n in ready]
