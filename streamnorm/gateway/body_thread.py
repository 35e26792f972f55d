"""The thread in which large bodies are decoded, translated and encoded."""

from __future__ import annotations

import gc
from collections.abc import Callable
from functools import cached_property
from typing import TypeVar

import anyio
from anyio import to_thread

T = TypeVar("T")

LARGE_BYTES = 256 * 1024
"""Size of a body beyond which the work on it takes some milliseconds, and is done in the thread."""


class BodyThread:
    """A thread for the work on large bodies, for which the event loop must not stand still.

    One body is worked on at a time: a second thread would only wait for the interpreter's lock,
    and two bodies take twice the memory.
    """

    async def run(self, size: int, work: Callable[[], T]) -> T:
        """Run work and return its result, or raise its exception.

        A cancelled caller waits for the end of the work: nothing can stop a thread, and the
        next body would be worked on beside it.

        Args:
            size: Bytes of the body; the work on a small one takes less than a thread does.
            work: A function that raises no `StopIteration`.
        """
        if size <= LARGE_BYTES:
            return work()
        return await to_thread.run_sync(_without_collections, work, limiter=self._limiter)

    @cached_property
    def _limiter(self) -> anyio.CapacityLimiter:  # which older versions make in a loop alone
        return anyio.CapacityLimiter(1)


def _without_collections(work: Callable[[], T]) -> T:
    """Run work with the garbage collector off, and return its result.

    A collection traverses all that was made of the body so far, holding the interpreter's lock.
    """
    if not gc.isenabled():
        return work()
    gc.disable()
    try:
        return work()
    finally:
        gc.enable()
