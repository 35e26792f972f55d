"""Cancellation of `run_tools`, and of a single tool."""

from __future__ import annotations

import asyncio
import threading

import anyio
import pytest

from streamnorm import Text, ToolCall, ToolResult, run_tools

pytestmark = pytest.mark.anyio


async def test_a_task_that_a_tool_cancelled_itself_is_a_result() -> None:
    """As with a library whose own task was cancelled; trio has no such thing."""

    async def cancelled() -> None:
        raise anyio.get_cancelled_exc_class()

    async def fine() -> str:
        return "fine"

    if anyio.get_cancelled_exc_class() is not asyncio.CancelledError:
        return
    for concurrent in (True, False):
        results = await run_tools(
            [ToolCall("a", "f"), ToolCall("b", "g")],
            {"f": cancelled, "g": fine},
            concurrent=concurrent,
        )
        assert results == (
            ToolResult("a", (Text("The tool was cancelled."),), is_error=True),
            ToolResult("b", (Text("fine"),)),
        )


@pytest.mark.parametrize("concurrent", [True, False])
async def test_cancellation_of_the_caller_cancels_all(concurrent: bool) -> None:
    ended: list[str] = []
    both = anyio.Event()
    started: list[str] = []

    async def waits(name: str) -> None:
        started.append(name)
        if len(started) == (2 if concurrent else 1):
            both.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.append(name)

    calls = [ToolCall("a", "f", '{"name":"a"}'), ToolCall("b", "f", '{"name":"b"}')]
    results: list[object] = []

    async def run() -> None:
        results.append(await run_tools(calls, {"f": waits}, concurrent=concurrent))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run)
        await both.wait()
        tasks.cancel_scope.cancel()
    assert sorted(ended) == (["a", "b"] if concurrent else ["a"])
    assert results == []


async def test_cancellation_of_an_asyncio_task_cancels_all() -> None:
    if anyio.get_cancelled_exc_class() is not asyncio.CancelledError:
        return
    for concurrent in (True, False):
        ended: list[str] = []
        started = asyncio.Event()

        async def waits(ended: list[str] = ended, started: asyncio.Event = started) -> None:
            started.set()
            try:
                await anyio.sleep_forever()
            finally:
                ended.append("a")

        task = asyncio.ensure_future(
            run_tools([ToolCall("a", "f")], {"f": waits}, concurrent=concurrent)
        )
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert ended == ["a"]


async def test_a_function_in_a_thread_is_waited_for_when_the_caller_is_cancelled() -> None:
    started = anyio.Event()
    released = threading.Event()
    ended: list[bool] = []

    def works() -> None:
        anyio.from_thread.run_sync(started.set)
        ended.append(released.wait(30))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run_tools, [ToolCall("a", "f")], {"f": works})
        await started.wait()
        tasks.cancel_scope.cancel()
        released.set()
    assert ended == [True]
