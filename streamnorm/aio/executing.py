"""`run_tools`: the tool calls of a message are executed, each with a result."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from inspect import isawaitable, iscoroutinefunction
from typing import TypeAlias

import anyio
import anyio.to_thread

from streamnorm._core.blocks import InputBlock, ToolCall, ToolResult
from streamnorm._core.messages import Message
from streamnorm._core.schemas.validation import ArgumentsChecker
from streamnorm._core.tools import AnyTool, Tool, qualified_name
from streamnorm.aio.tool_arguments import (
    BrokenArguments,
    RefusedCall,
    check_policy,
    read_arguments,
)
from streamnorm.aio.tool_results import error_result, exception_result, result_of

__all__ = ["Executor", "run_tools"]

Executor: TypeAlias = Callable[..., object]
"""A function that executes a tool, synchronous or asynchronous."""

# Stop reasons of messages that are whole, so that their calls are.
_WHOLE = frozenset({"end_turn", "tool_use", "stop_sequence", "pause", "other"})


async def run_tools(
    calls: Message | Iterable[InputBlock],
    executors: Mapping[str, Executor],
    *,
    concurrent: bool = True,
    tools: Iterable[AnyTool] = (),
    arguments: BrokenArguments = "error",
) -> tuple[ToolResult, ...]:
    """Return the results of tool calls, in the order of the calls.

    An executor of a function gets the members of the arguments as keywords, that of a custom
    tool its text.  A function that is not asynchronous runs in a thread.  It returns a text, a
    block or a list of blocks, a `ToolResult` (of which the id is replaced), a `CallToolResult`
    of the `mcp` package, or any value with a JSON form.

    Whatever goes wrong with a call is its result, with `is_error`, and changes no other: a tool
    without an executor, arguments that are no JSON object, an exception.  The model reads the
    type and the text of an exception, the first 2,000 characters.

    Calls that may be truncated are never executed: all of a message that ended by `max_tokens`,
    by a refusal or not at all, and each whose arguments end too early.  Calls that the provider
    executes, and other blocks, are left out.

    Cancellation of the caller cancels all; functions in threads are waited for.

    Args:
        calls: The message with the calls, or its blocks.  Of blocks alone, only their arguments
            show whether they are truncated.
        executors: Functions by the name of their tool; in front of a name with a namespace
            stand that and `__`.
        concurrent: Whether calls run at the same time, or one after the other.
        tools: Tools whose calls are checked against their schemas first (extra `schemas`).
        arguments: What becomes of arguments that are no JSON object: an error, or `repair`
            (extra `repair`).

    Raises:
        ImportError: The extra that `tools` or `arguments` needs is missing.
    """
    check_policy(arguments)
    checkers = {
        qualified_name(tool.name, tool.namespace): ArgumentsChecker(tool.input_schema)
        for tool in tools
        if isinstance(tool, Tool) and tool.input_schema is not None
    }
    blocks, reason = (
        (calls, None) if not isinstance(calls, Message) else (calls.blocks, _cut(calls))
    )
    asked = [block for block in blocks if isinstance(block, ToolCall)]
    if reason is not None:
        return tuple([error_result(call, reason) for call in asked])
    execution = _Execution(executors, checkers, arguments)
    results: dict[int, ToolResult] = {}

    async def run(number: int, call: ToolCall) -> None:
        results[number] = await execution.result(call)

    numbered = [*enumerate(asked)]
    for group in [numbered] if concurrent else [[each] for each in numbered]:
        async with anyio.create_task_group() as tasks:
            for number, call in group:
                tasks.start_soon(run, number, call)
    return tuple([results[number] for number, _ in numbered])


def _cut(message: Message) -> str | None:
    """Return why no call of a message is executed, for the model; None if they may be."""
    if message.stop_reason in _WHOLE:
        return None
    reason = message.stop_reason or "the end of the connection"
    return f"Not executed: the answer with this call was cut off by {reason}."


class _Execution:
    """The execution of calls, each on its own.

    Args:
        executors: Functions by the qualified name of their tool.
        checkers: Checkers of arguments, by the same name.
        policy: Policy for arguments that are no JSON object.
    """

    def __init__(
        self,
        executors: Mapping[str, Executor],
        checkers: Mapping[str, ArgumentsChecker],
        policy: BrokenArguments,
    ) -> None:
        self._executors = executors
        self._checkers = checkers
        self._policy: BrokenArguments = policy

    async def result(self, call: ToolCall) -> ToolResult:
        """Return the result of a call; only cancellation of the caller is raised."""
        try:
            return result_of(call, await self._executed(call))
        except RefusedCall as exc:
            return error_result(call, str(exc))
        except anyio.get_cancelled_exc_class():
            if anyio.current_effective_deadline() == -math.inf:
                raise
            return error_result(call, "The tool was cancelled.")  # by itself
        except Exception as exc:  # noqa: BLE001 - whatever it is, the model gets a result
            return exception_result(call, exc)

    async def _executed(self, call: ToolCall) -> object:
        name = qualified_name(call.name, call.namespace)
        executor = self._executors.get(name)
        if executor is None:
            raise RefusedCall("Not executed: there is no tool of this name.")
        if call.is_unfinished:
            raise RefusedCall("Not executed: the text of the call was cut off before its end.")
        if call.kind == "custom":
            return await _called(partial(executor, call.arguments))
        arguments = read_arguments(call, self._policy)
        self._check(name, arguments)
        return await _called(partial(executor, **arguments))

    def _check(self, name: str, arguments: dict[str, object]) -> None:
        checker = self._checkers.get(name)
        if checker is None:
            return
        try:
            problem = checker.problem(arguments)
        except Exception as exc:
            raise RefusedCall("Not executed: the schema of the tool cannot be read.") from exc
        if problem is not None:
            raise RefusedCall(
                f"Not executed: the arguments do not match the schema of the tool: {problem}"
            )


async def _called(executor: partial[object]) -> object:
    """Return what a function returns, its coroutine awaited.

    Raises:
        BaseException: The function did.
    """
    returned: object
    raised: Exception | None = None
    if iscoroutinefunction(executor):
        returned = executor()
    else:
        returned, raised = await anyio.to_thread.run_sync(_outcome, executor)
    if raised is not None:
        raise raised
    if isawaitable(returned):
        awaitable: Awaitable[object] = returned
        return await awaitable
    return returned


def _outcome(executor: partial[object]) -> tuple[object, Exception | None]:
    """Return what a function returns or raises: a future holds no `StopIteration`."""
    try:
        return executor(), None
    except Exception as exc:  # noqa: BLE001 - raised again where it is awaited
        return None, exc
