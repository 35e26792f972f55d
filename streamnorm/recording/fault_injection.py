"""The faults to inject into the next playback."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from streamnorm.recording.exchange import Playback


class ReplayFault(Protocol):
    """A fault that changes playbacks."""

    @property
    def times(self) -> int | None:
        """Number of requests that it affects; None for all."""
        ...

    @property
    def replaces(self) -> bool:
        """Whether it answers instead of a recording, which remains unplayed."""
        ...

    def __call__(self, playback: Playback, /) -> Playback:
        """Return the playback with the fault."""
        ...


class FaultQueue:
    """The faults that remain, counted request by request; not thread-safe.

    Args:
        faults: All faults, in the order in which they are applied.
    """

    def __init__(self, faults: Iterable[ReplayFault]) -> None:
        self._faults = tuple(faults)
        self._times_left = [fault.times for fault in self._faults]

    def take(self) -> Sequence[ReplayFault]:
        """Return the faults of the next request, and count them.

        A fault that replaces the recording comes first, and is the only one of its request.
        """
        ready = [n for n, left in enumerate(self._times_left) if left != 0]
        ready = [n for n in ready if self._faults[n].replaces][:1] or ready
        for n in ready:
            if (left := self._times_left[n]) is not None:
                self._times_left[n] = left - 1
        return [self._faults[n] for n in ready]
