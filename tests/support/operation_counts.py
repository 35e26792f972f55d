"""Measures of work that do not depend on the machine: calls, lines and memory."""

from __future__ import annotations

import gc
import sys
import tracemalloc
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType
from typing import TypeAlias

__all__ = ["KIB", "lines", "operations", "peak"]

KIB = 1024

TraceFunction: TypeAlias = Callable[[FrameType, str, object], object]


@contextmanager
def _undisturbed(work: Callable[[], object]) -> Generator[None]:
    """Run some work once, so that all it needs is loaded, and let no garbage be collected.

    What other tests have left behind, or have not imported yet, would count.
    """
    work()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def operations(work: Callable[[], object]) -> int:
    """Return the number of function calls of some work, the second time that it is done."""
    count = 0

    def trace(_frame: FrameType, event: str, _arg: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    with _undisturbed(work):
        before = sys.getprofile()
        sys.setprofile(trace)
        try:
            work()
        finally:
            sys.setprofile(before)
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

    with _undisturbed(work):
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
