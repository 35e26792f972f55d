"""Measures of work that do not depend on the machine: calls, lines and memory."""

from __future__ import annotations

import gc
import sys
import tracemalloc
from collections.abc import Callable
from types import FrameType
from typing import Any, TypeAlias

__all__ = ["KIB", "lines", "operations", "peak"]

KIB = 1024

TraceFunction: TypeAlias = Callable[[FrameType, str, object], object]


def _run_traced(
    work: Callable[[], object],
    trace: TraceFunction,
    get: Callable[[], Any],
    set_: Callable[[Any], None],
) -> None:
    """Do some work twice, the second time with a trace or profile function.

    By then all that it needs is loaded, and no garbage is collected meanwhile: what other tests
    have left behind, or have not imported yet, would count.
    """
    work()
    gc.collect()
    gc.disable()
    before = get()
    try:
        set_(trace)
        try:
            work()
        finally:
            set_(before)
    finally:
        gc.enable()


def operations(work: Callable[[], object]) -> int:
    """Return the number of function calls of some work, the second time that it is done."""
    count = 0

    def trace(_frame: FrameType, event: str, _arg: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    _run_traced(work, trace, sys.getprofile, sys.setprofile)
    return count


def lines(work: Callable[[], object]) -> int:
    """Return the number of lines that some work executes, the second time that it is done.

    Each iteration of a loop counts.
    """
    count = 0

    def trace(_frame: FrameType, event: str, _arg: object) -> TraceFunction:
        nonlocal count
        count += event == "line"
        return trace

    _run_traced(work, trace, sys.gettrace, sys.settrace)
    return count


def peak(work: Callable[[], object]) -> int:
    """Return the peak of allocated memory, in bytes."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
