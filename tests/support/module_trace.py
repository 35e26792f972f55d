"""Trace of the package's modules that a call enters, and of crossings between them."""

from __future__ import annotations

import inspect
import sys
from collections import Counter
from types import FrameType, TracebackType
from typing import Self

__all__ = ["ModuleTrace"]

_PACKAGE = "streamnorm"
_GENERATORS = inspect.CO_COROUTINE | inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR


class ModuleTrace:
    """Counts the package's modules and crossings in this thread's calls.

    A coroutine that goes on is not called again, however many reads it waits for.

    Attributes:
        modules: Calls by the module of the function.
        crossings: Calls from one module into another, by caller and callee.  A call by way of
            another package counts for the module of ours that made it.
    """

    def __init__(self) -> None:
        self.modules: Counter[str] = Counter()
        self.crossings: Counter[tuple[str, str]] = Counter()
        self._begun: set[FrameType] = set()  # coroutines and generators

    @property
    def crossing_count(self) -> int:
        """Number of all crossings."""
        return self.crossings.total()

    def __enter__(self) -> Self:
        sys.setprofile(self._count)
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        sys.setprofile(None)

    def _count(self, frame: FrameType, event: str, _arg: object) -> None:
        if event != "call" or (callee := _module_of(frame)) is None:
            return
        if frame.f_code.co_flags & _GENERATORS:
            if frame in self._begun:
                return
            self._begun.add(frame)
        self.modules[callee] += 1
        outer = frame.f_back
        while outer is not None and _module_of(outer) is None:
            outer = outer.f_back
        caller = None if outer is None else _module_of(outer)
        if caller is not None and caller != callee:
            self.crossings[caller, callee] += 1


def _module_of(frame: FrameType) -> str | None:
    """Return the module of a frame; None for other packages."""
    name: str = frame.f_globals.get("__name__", "")
    return name if name.partition(".")[0] == _PACKAGE else None
