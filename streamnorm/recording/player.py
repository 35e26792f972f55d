"""Playing an answer: its pieces at their time, then its end."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from typing import Self

import anyio

from streamnorm._core.errors import StreamnormError
from streamnorm.recording.exchange import Playback, PlaybackEnd, Step

__all__ = ["AsyncPlayer", "Pace", "PlaybackReset", "PlaybackTimeout", "Player"]


# `time.sleep` refuses what the clock of the system cannot count, such as forever.
_LONGEST_SLEEP_S = 86400.0


class PlaybackReset(StreamnormError):
    """The recorded connection breaks here."""


class PlaybackTimeout(StreamnormError):
    """The recorded server stays silent here, for longer than the reader waits."""


class Pace:
    """How fast to play.

    Args:
        speed: How many times faster than recorded; 0 for no waiting at all.
        max_gap_s: The longest wait between two pieces, before `speed` counts.

    Raises:
        ValueError: A number is negative or none.
    """

    def __init__(self, speed: float = 0, max_gap_s: float | None = None) -> None:
        for name, number in (("speed", speed), ("max_gap_s", max_gap_s or 0)):
            if not 0 <= number < math.inf:
                raise ValueError(f"{name} {number}, expected 0 or more")
        self.speed = speed
        self._max_gap_s = math.inf if max_gap_s is None else max_gap_s

    def wait_s(self, step: Step) -> float:
        """Return the seconds to wait for a step; infinite for one that never comes."""
        if not self.speed:
            return 0.0
        return (min(step.delay_s, self._max_gap_s) + step.stall_s) / self.speed

    def times_out(self, step: Step, read_timeout_s: float | None) -> bool:
        """Tell whether a reader with this timeout gives up before the step.

        Without waiting, only what a fault adds counts: a recorded pause is no failure.
        """
        silence_s = self.wait_s(step) if self.speed else step.stall_s
        if read_timeout_s is None:
            return not self.speed and silence_s == math.inf
        return silence_s > read_timeout_s


class _Schedule:
    """What comes when: times are counted from the start, so that no error adds up."""

    def __init__(self, playback: Playback, pace: Pace, read_timeout_s: float | None) -> None:
        self._steps: Iterator[Step] = iter(playback.steps)
        self._end: PlaybackEnd = playback.end
        self._pace = pace
        self._read_timeout_s = read_timeout_s
        self._due_s = 0.0

    def next(self) -> tuple[float, bytes | None]:
        """Return when the next piece is due, in seconds from the start, and its bytes.

        The bytes are None where the reader gives up by then.

        Raises:
            StopIteration: The body has ended.
            PlaybackReset: The connection has broken.
            PlaybackTimeout: Nothing more comes.
        """
        step = next(self._steps, None)
        if step is None:
            if self._end == "reset":
                raise PlaybackReset("the recorded connection broke here")
            if self._end == "timeout":
                raise PlaybackTimeout("the recorded server stayed silent here")
            raise StopIteration
        if self._pace.times_out(step, self._read_timeout_s):
            # Where there is no timeout, no time passes either.
            self._due_s += (self._read_timeout_s or 0.0) if self._pace.speed else 0.0
            self._steps, self._end = iter(()), "timeout"  # who has given up reads no more
            return self._due_s, None
        self._due_s += self._pace.wait_s(step)
        return self._due_s, step.data


class AsyncPlayer:
    """Iterate over the body of an answer, on asyncio or trio.

    Args:
        playback: The answer.
        pace: How fast.
        read_timeout_s: Seconds of silence after which the reader gives up; None for never.

    Raises:
        PlaybackReset: In place of the end: the connection broke.
        PlaybackTimeout: In place of the end: nothing came for too long.
    """

    def __init__(
        self, playback: Playback, pace: Pace, *, read_timeout_s: float | None = None
    ) -> None:
        self._schedule = _Schedule(playback, pace, read_timeout_s)
        self._started_at: float | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        if self._started_at is None:
            self._started_at = anyio.current_time()
        try:
            due_s, data = self._schedule.next()
        except StopIteration:
            raise StopAsyncIteration from None
        # Even where no time passes others have their turn, as with a real connection.
        await anyio.sleep(max(0.0, self._started_at + due_s - anyio.current_time()))
        if data is None:
            raise PlaybackTimeout("nothing came for longer than the reader waits")
        return data


class Player:
    """The synchronous twin of `AsyncPlayer`."""

    def __init__(
        self, playback: Playback, pace: Pace, *, read_timeout_s: float | None = None
    ) -> None:
        self._schedule = _Schedule(playback, pace, read_timeout_s)
        self._started_at: float | None = None

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> bytes:
        if self._started_at is None:
            self._started_at = time.monotonic()
        due_s, data = self._schedule.next()
        while (wait_s := self._started_at + due_s - time.monotonic()) > 0:
            time.sleep(min(wait_s, _LONGEST_SLEEP_S))
        if data is None:
            raise PlaybackTimeout("nothing came for longer than the reader waits")
        return data
