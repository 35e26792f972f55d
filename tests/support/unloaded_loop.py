"""An event loop whose time does not depend on the machine."""

from __future__ import annotations

import asyncio
import selectors

__all__ = ["UnloadedLoop"]


class _Selector(selectors.DefaultSelector):
    """Time passes only while the event loop waits, however busy the machine is."""

    now_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self.now_s += timeout or 0
        return super().select(0)


class UnloadedLoop(asyncio.SelectorEventLoop):
    """An event loop with the clock of its waits."""

    def __init__(self) -> None:
        self._clock = _Selector()
        super().__init__(self._clock)

    def time(self) -> float:
        return self._clock.now_s
