"""What counts work counts the same whatever ran before."""

from __future__ import annotations

import asyncio
import gc

from support.operation_counts import operations


class Holder:
    """Refers to itself: only garbage collection frees it, and what it holds."""

    def __init__(self, task: asyncio.Task[None]) -> None:
        self.task = task
        self.holder = self


async def leave_tasks(count: int) -> None:
    tasks = [asyncio.create_task(asyncio.sleep(0)) for _ in range(count)]
    for task in tasks:
        Holder(task)
    await asyncio.wait(tasks)


def end_a_loop() -> None:
    asyncio.run(asyncio.sleep(0))


def test_tasks_of_other_event_loops_cost_no_calls() -> None:
    """When an event loop ends, it looks at all tasks that are not freed yet."""
    expected = operations(end_a_loop)
    gc.disable()
    try:
        asyncio.run(leave_tasks(100))
        assert operations(end_a_loop) == expected
    finally:
        gc.enable()
