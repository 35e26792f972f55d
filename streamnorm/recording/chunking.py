"""Chunking: where a body is cut into reads."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from typing import Literal, TypeAlias

__all__ = ["Rechunk", "cut_points", "event_ends", "pieces_of"]

Rechunk: TypeAlias = Literal["recorded", "event", "byte", "hostile"] | int | str
"""How to cut a body: as recorded, after each event, after each byte, at hostile points (inside
characters, between CR and LF, inside `data:`), every `n` bytes, or at `random:<seed>` points."""

# Atomic groups: CR LF must not match as two line ends.
_BLANK_LINES = re.compile(rb"(?>\r\n|\r|\n)(?:(?>\r\n|\r|\n))+")
_HOSTILE = re.compile(rb"[\xc2-\xf4](?=[\x80-\xbf])|\r(?=\n)|\n(?=\r?\n)|(?<![^\r\n])dat(?=a:)|: ")
_MEAN_RANDOM_BYTES = 40


def event_ends(body: bytes) -> list[int]:
    """Return the offset at which each event of a stream ends, after its blank line.

    Bytes after the last blank line count as an event.
    """
    ends = [match.end() for match in _BLANK_LINES.finditer(body)]
    if body and (not ends or ends[-1] < len(body)):
        ends.append(len(body))
    return ends


def cut_points(body: bytes, how: Rechunk, recorded: Sequence[int] | None) -> list[int]:
    """Return the offset at which each chunk of a body ends, ascending; the last is its length.

    Args:
        body: The bytes.
        how: How to cut them.
        recorded: Sizes of the recorded reads; None if unknown.

    Raises:
        ValueError: `how` is none of these.
    """
    if how == "recorded" and recorded is not None:
        ends = list(_sums(recorded))
    elif how in ("recorded", "event"):
        return event_ends(body)
    elif how == "hostile":
        ends = [match.end() for match in _HOSTILE.finditer(body)]
    elif isinstance(how, str) and how.startswith("random:"):
        ends = list(_random_ends(len(body), how.removeprefix("random:")))
    else:
        ends = list(range(_size(how), len(body), _size(how)))
    if not body:
        return []
    if not ends or ends[-1] < len(body):
        ends.append(len(body))
    return ends


def pieces_of(body: bytes, ends: Sequence[int]) -> list[bytes]:
    """Return the chunks of a body that end at these offsets."""
    return [body[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def _size(how: Rechunk) -> int:
    size = 1 if how == "byte" else how
    if not isinstance(size, int) or size < 1:
        raise ValueError(
            f"rechunk {how!r}, expected recorded, event, byte, hostile, random:<seed> or a size"
        )
    return size


def _sums(sizes: Sequence[int]) -> Iterator[int]:
    end = 0
    for size in sizes:
        end += size
        yield end


def _random_ends(length: int, seed: str) -> Iterator[int]:
    """Yield offsets that are the same for the same seed on every version of Python."""
    generator = random.Random(seed)  # noqa: S311 - no secret
    end = 0
    while (end := end + 1 + int(generator.random() * 2 * _MEAN_RANDOM_BYTES)) < length:
        yield end
