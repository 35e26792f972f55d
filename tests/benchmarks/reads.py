"""Read sizes: several events in one read, or one event in two reads."""

from __future__ import annotations

import random
from collections.abc import Callable

__all__ = ["HALVES", "ONE_EVENT", "READS", "SEGMENTS", "SEVERAL", "sized"]

ONE_EVENT = "one event"
SEGMENTS = "1,400 bytes"
HALVES = "halves of events"


def _together(number: int) -> Callable[[list[bytes]], list[bytes]]:
    return lambda frames: [
        b"".join(frames[start : start + number]) for start in range(0, len(frames), number)
    ]


def sized(size: int) -> Callable[[list[bytes]], list[bytes]]:
    """Return a function that divides frames into reads of one size."""

    def cut(frames: list[bytes]) -> list[bytes]:
        body = b"".join(frames)
        return [body[start : start + size] for start in range(0, len(body), size)]

    return cut


def _halves(frames: list[bytes]) -> list[bytes]:
    """Divide each frame in two at an arbitrary byte."""
    rng = random.Random("halves")  # noqa: S311 - a seed is the point
    reads: list[bytes] = []
    for frame in frames:
        middle = rng.randrange(1, len(frame))
        reads += (frame[:middle], frame[middle:])
    return reads


READS: dict[str, Callable[[list[bytes]], list[bytes]]] = {
    ONE_EVENT: list,
    "two events": _together(2),
    "four events": _together(4),
    SEGMENTS: sized(1400),
    "64 KiB": sized(65536),
    HALVES: _halves,
}

SEVERAL = ("two events", "four events", SEGMENTS, "64 KiB")
"""The read sizes at which one read holds several events."""
