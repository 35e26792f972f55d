"""How much work something is, in units that do not depend on the machine."""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Callable
from types import FrameType
from typing import TypeAlias

__all__ = ["KIB", "lines", "operations", "peak"]

KIB = 1024

TraceFunction: TypeAlias = Callable[[FrameType, str, object], object]


def operations(work: Callable[[], object]) -> int:
    """Return how many functions are called."""
    count = 0

    def trace(_frame: FrameType, event: str, _arg: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(trace)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


def lines(work: Callable[[], object]) -> int:
    """Return how many lines of Python are run; each turn of a loop counts as one or more."""
    count = 0

    def trace(_frame: FrameType, event: str, _arg: object) -> TraceFunction:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def peak(work: Callable[[], object]) -> int:
    """Return the most memory that was held at once, in bytes."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
