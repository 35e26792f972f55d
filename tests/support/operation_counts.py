"""Measures of work that do not depend on the machine: calls, lines and memory."""

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
    """Return the number of function calls."""
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
    """Return the number of executed lines; each iteration of a loop counts."""
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
    """Return the peak of allocated memory, in bytes."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
