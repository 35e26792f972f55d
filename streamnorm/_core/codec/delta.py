"""The deltas that do nothing but make a block longer, as nearly all events do."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from streamnorm._core.events import JSONDelta, ReasoningDelta, TextDelta

__all__ = ["Delta", "delta_factory", "part_of"]

Delta: TypeAlias = TextDelta | ReasoningDelta | JSONDelta


def part_of(delta: Delta) -> int:
    """Return the number of the summary that a delta belongs to; 0 where there are none."""
    return delta.part if isinstance(delta, ReasoningDelta) else 0


def delta_factory(delta: Delta) -> Callable[[str], Delta]:
    """Return a function that makes deltas of the same type, block and part from texts."""
    if isinstance(delta, ReasoningDelta) and delta.part:
        return partial(ReasoningDelta, delta.index, part=delta.part)
    return partial(type(delta), delta.index)
