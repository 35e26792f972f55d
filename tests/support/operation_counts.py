"""Machine-independent measures of work: calls, lines and memory."""

from __future__ import annotations

import cProfile
import gc
import os
import sys
import tracemalloc
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType
from typing import TypeAlias

__all__ = ["KIB", "lines", "operations", "operations_of_thread", "peak"]

KIB = 1024

_YOUNG, _ALL = 1, 2  # generations of objects
_collected_in = ""  # the test that has collected all

TraceFunction: TypeAlias = Callable[[FrameType, str, object], object]


@contextmanager
def _without_collections() -> Generator[None]:
    """Run without garbage, and without its collection, whose finalizers would be counted.

    Tasks that earlier tests have left cost calls in each event loop that ends: they are looked for
    once in each test, and what lives when a file begins is not looked at again, since among all
    that tests hold that takes a twentieth of a second.
    """
    global _collected_in
    test = os.environ.get("PYTEST_CURRENT_TEST", "")
    before, _collected_in = _collected_in, test
    gc.collect(_YOUNG if test and test == before else _ALL)
    if test.partition("::")[0] != before.partition("::")[0]:
        gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def operations(work: Callable[[], object]) -> int:
    """Return the number of function calls of some work in its second run.

    By then all that it needs is loaded.  From Python 3.12 on, the calls of all threads count.
    """
    work()
    profile = cProfile.Profile()
    with _without_collections(), profile:
        work()
    return sum(entry.callcount for entry in profile.getstats())


def operations_of_thread(work: Callable[[], object]) -> int:
    """Return the number of function calls of some work in the calling thread."""
    count = 0

    def trace(_frame: FrameType, event: str, _arg: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    work()
    before = sys.getprofile()
    with _without_collections():
        sys.setprofile(trace)
        try:
            work()
        finally:
            sys.setprofile(before)
    return count


def lines(work: Callable[[], object]) -> int:
    """Return the number of lines that some work executes in its second run.

    Each iteration of a loop counts.
    """
    count = 0

    def trace(_frame: FrameType, event: str, _arg: object) -> TraceFunction:
        nonlocal count
        count += event == "line"
        return trace

    work()
    before = sys.gettrace()
    with _without_collections():
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
