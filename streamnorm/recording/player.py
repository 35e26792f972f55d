"""Replay engine: plays a playback's chunks at their recorded times."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from typing import Self

import anyio

from streamnorm._core.errors import StreamnormError
from streamnorm.recording.format import Playback, PlaybackEnd, Step

# `time.sleep` raises OverflowError for an infinite or very long time.
_LONGEST_SLEEP_S = 86400.0


class PlaybackReset(StreamnormError):
    """The recorded connection broke."""


class PlaybackTimeout(StreamnormError):
    """The recorded server was silent for longer than the reader's timeout."""


class Pace:
    """The speed of a playback, with a bound on gaps.

    Args:
        speed: Factor over the recorded speed; 0 plays without waiting.
        max_gap_s: Longest gap between two chunks, in recorded seconds; None for no bound.

    Raises:
        ValueError: A number is negative, infinite or NaN.
    """

    def __init__(self, speed: float = 0, max_gap_s: float | None = None) -> None:
        for name, number in (("speed", speed), ("max_gap_s", max_gap_s or 0)):
            if not 0 <= number < math.inf:
                raise ValueError(f"{name} {number}, expected 0 or more")
        self.speed = speed
        self._max_gap_s = math.inf if max_gap_s is None else max_gap_s

    def wait_s(self, step: Step) -> float:
        """Return the seconds to wait for the chunk of a step; infinite if it never arrives."""
        if not self.speed:
            return 0.0
        return (min(step.delay_s, self._max_gap_s) + step.stall_s) / self.speed

    def times_out(self, step: Step, read_timeout_s: float | None) -> bool:
        """Return whether a reader's timeout passes before the chunk of a step arrives.

        At speed 0 only the stall that a fault adds counts: a recorded gap is no failure.
        """
        silence_s = self.wait_s(step) if self.speed else step.stall_s
        if read_timeout_s is None:
            return not self.speed and silence_s == math.inf
        return silence_s > read_timeout_s


class Player:
    """Iterator over the chunks of a playback, which returns each chunk at its recorded time.

    Iterated once: by `for`, or by `async for` on asyncio or trio.

    Args:
        playback: The playback.
        pace: The speed.
        read_timeout_s: Seconds of silence after which the reader gives up; None for never.

    Raises:
        PlaybackReset: The recorded connection broke; raised instead of the end.
        PlaybackTimeout: No chunk arrived in time; raised instead of the end.
    """

    def __init__(
        self, playback: Playback, pace: Pace, *, read_timeout_s: float | None = None
    ) -> None:
        self._steps: Iterator[Step] = iter(playback.steps)
        self._end: PlaybackEnd = playback.end
        self._pace = pace
        self._read_timeout_s = read_timeout_s
        self._started_at: float | None = None
        self._due_s = 0.0  # counted from the start, so that errors do not add up

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> bytes:
        if self._started_at is None:
            self._started_at = time.monotonic()
        data = self._advance()
        while (wait_s := self._started_at + self._due_s - time.monotonic()) > 0:
            time.sleep(min(wait_s, _LONGEST_SLEEP_S))
        return _check_arrival(data)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        if self._started_at is None:
            self._started_at = anyio.current_time()
        try:
            data = self._advance()
        except StopIteration:
            raise StopAsyncIteration from None
        # Sleeps even for 0 s: other tasks run between two chunks, as with a real connection.
        await anyio.sleep(max(0.0, self._started_at + self._due_s - anyio.current_time()))
        return _check_arrival(data)

    def _advance(self) -> bytes | None:
        """Return the next chunk, and advance the time at which it is due.

        They are None if the reader gives up at that time.

        Raises:
            StopIteration: The body has ended.
            PlaybackReset: The connection broke.
            PlaybackTimeout: No chunk follows.
        """
        step = next(self._steps, None)
        if step is None:
            if self._end == "reset":
                raise PlaybackReset("the recorded connection broke here")
            if self._end == "timeout":
                raise PlaybackTimeout("the recorded server stayed silent here")
            raise StopIteration
        if self._pace.times_out(step, self._read_timeout_s):
            # Without a timeout only speed 0 can time out, and then no time passes.
            self._due_s += (self._read_timeout_s or 0.0) if self._pace.speed else 0.0
            self._steps, self._end = iter(()), "timeout"
            return None
        self._due_s += self._pace.wait_s(step)
        return step.data


def _check_arrival(data: bytes | None) -> bytes:
    if data is None:
        raise PlaybackTimeout("nothing came for longer than the reader waits")
    return data
