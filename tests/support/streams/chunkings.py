"""Chunkings: divisions of a stream into reads."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from itertools import pairwise

from support.streams.mutations import chunked

__all__ = ["CHUNKINGS", "cut_at_random", "events_of"]

# A line end is CRLF, CR or LF; a blank line follows the last line of an event.
_END = re.compile(rb"(?>\r\n|\r|\n)(?>\r\n|\r|\n)")


def events_of(body: bytes) -> list[bytes]:
    """Return a stream's events, each with its blank line, and the remaining bytes."""
    ends = [match.end() for match in _END.finditer(body)]
    return _cut(body, ends)


def cut_at_random(body: bytes, seed: str) -> list[bytes]:
    """Return a stream in chunks of random sizes."""
    rng = random.Random(seed)  # noqa: S311 - a seed is the point
    ends, at = [], 0
    while at < len(body):
        at += rng.choice((1, 2, 7, 40, 150, 400, 1500))
        ends.append(at)
    return _cut(body, ends)


def _cut(body: bytes, ends: list[int]) -> list[bytes]:
    """Return bytes divided at some offsets."""
    inner = [end for end in ends if 0 < end < len(body)]
    return [body[a:b] for a, b in pairwise([0, *inner, len(body)]) if a < b]


def _twos(events: list[bytes]) -> list[bytes]:
    return [b"".join(events[at : at + 2]) for at in range(0, len(events), 2)]


def _halves(events: list[bytes]) -> list[bytes]:
    """Divide each event in its middle."""
    halves = ((event[: len(event) // 2], event[len(event) // 2 :]) for event in events)
    return [half for pair in halves for half in pair if half]


def _middle_to_middle(events: list[bytes]) -> list[bytes]:
    """Return chunks from the middle of one event to the middle of the next."""
    first, *halves = _halves(events) or [b""]
    pairs = (halves[at : at + 2] for at in range(0, len(halves), 2))
    return [first, *(b"".join(pair) for pair in pairs)]


def _within_blank_lines(events: list[bytes]) -> list[bytes]:
    """Return chunks that end before the last byte of an event."""
    ends, at = [], 0
    for event in events:
        at += len(event)
        ends.append(at - 1)
    return _cut(b"".join(events), ends)


CHUNKINGS: dict[str, Callable[[list[bytes]], list[bytes]]] = {
    "one event": list,
    "two events": _twos,
    "halves of events": _halves,
    "middle to middle": _middle_to_middle,
    "within blank lines": _within_blank_lines,
    "bytes": lambda events: chunked(b"".join(events), 1),
    "64 bytes": lambda events: chunked(b"".join(events), 64),
    "1400 bytes": lambda events: chunked(b"".join(events), 1400),
    "random": lambda events: cut_at_random(b"".join(events), f"{len(events)}"),
    "whole": lambda events: [b"".join(events)],
}
"""Events to the chunks that a network makes of them."""
