"""`run_tools`: execution of a message's tool calls."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from importlib import import_module
from inspect import isawaitable, iscoroutinefunction
from pathlib import PurePath
from typing import Any, Literal, TypeAlias, TypeGuard

import anyio
import anyio.to_thread
import msgspec
from msgspec import structs

from streamnorm._core.blocks import (
    Audio,
    Document,
    Image,
    InputBlock,
    OpaqueBlock,
    ResultBlock,
    Text,
    ToolCall,
    ToolResult,
    Video,
)
from streamnorm._core.bodies.tool_calls import arguments_object
from streamnorm._core.bodies.types import check_result_types
from streamnorm._core.errors import ArgumentsError, EncodeError, StreamnormError
from streamnorm._core.json import clean, compact, is_object, name_numbers, too_deep
from streamnorm._core.limits import Limits
from streamnorm._core.losses import Losses
from streamnorm._core.messages import Message
from streamnorm._core.open_calls import open_calls
from streamnorm._core.schemas.strict import ArgumentsChecker
from streamnorm._core.tools import AnyTool, Tool, qualified_name
from streamnorm.partial_json import PartialJSON

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
    """Execute tool calls, and return their results in the order of the calls.

    An executor of a function gets the members of the arguments as keywords, that of a custom
    tool its text.  A function that is not asynchronous runs in a thread.  It returns a text, a
    block or a list of blocks, a `ToolResult` (of which the id is replaced), a `CallToolResult`
    of the `mcp` package, or any value with a JSON form.

    Whatever goes wrong with a call is its result, with `is_error`, and changes no other: a tool
    without an executor, arguments that are no JSON object, an exception.  The model reads the
    type and the text of an exception, the first 2,000 characters.

    Calls that may be truncated are never executed: all of a message that ended by `max_tokens`,
    by a refusal or not at all, and each whose arguments end too early.  Calls that the provider
    executes, those that have a result among the blocks, and other blocks are left out.

    Cancellation of the caller cancels all; functions in threads are waited for.

    Args:
        calls: The message with the calls, or its blocks.  Of blocks alone, only their arguments
            show whether they are truncated.
        executors: Functions by the name of their tool; in front of a name with a namespace
            stand that and `__`.
        concurrent: Whether calls run at the same time, or one after the other.
        tools: Tools whose calls are checked against their schemas first (extra `schemas`).
        arguments: Policy for arguments that are no JSON object: `error`, or `repair`
            (extra `repair`).

    Raises:
        ImportError: The extra that `tools` or `arguments` needs is missing.
        ValueError: There is no such policy for arguments.
    """
    check_policy(arguments)
    checkers = {
        qualified_name(tool.name, tool.namespace): ArgumentsChecker(tool.input_schema)
        for tool in tools
        if isinstance(tool, Tool) and tool.input_schema is not None
    }
    blocks, reason = (
        (calls, None) if not isinstance(calls, Message) else (calls.blocks, _refusal_reason(calls))
    )
    asked = open_calls(blocks)
    # A call at the token limit may be valid JSON and still lack its last arguments.
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


def _refusal_reason(message: Message) -> str | None:
    """Return why the calls of a cut-off message are not executed; None if the message is whole."""
    if message.stop_reason in _WHOLE:
        return None
    reason = message.stop_reason or "the end of the connection"
    return f"Not executed: the answer with this call was cut off by {reason}."


class _Execution:
    """An execution of tool calls, in which a failing call does not affect other calls.

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
        """Execute a call and return its result; raise only if the caller is cancelled."""
        try:
            result = result_of(call, await self._execute(call))
            check_result_types(result)  # a request with a field of another type is refused
            return result
        except RefusedCall as exc:
            return error_result(call, str(exc))
        except anyio.get_cancelled_exc_class():
            if anyio.current_effective_deadline() == -math.inf:
                raise
            return error_result(call, "The tool was cancelled.")  # by itself
        except Exception as exc:  # noqa: BLE001 - whatever it is, the model gets a result
            return exception_result(call, exc)

    async def _execute(self, call: ToolCall) -> object:
        name = qualified_name(call.name, call.namespace)
        executor = self._executors.get(name)
        if executor is None:
            raise RefusedCall("Not executed: there is no tool of this name.")
        # OpenAI marks calls that were cut as `incomplete`, whatever their JSON is.
        if call.is_unfinished:
            raise RefusedCall("Not executed: the text of the call was cut off before its end.")
        if call.kind == "custom":
            return await _call(partial(executor, call.arguments))
        arguments = read_arguments(call, self._policy)
        self._check(name, arguments)
        return await _call(partial(executor, **arguments))

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


async def _call(executor: partial[object]) -> object:
    """Call a function, in a thread if it is synchronous; await the result if it is awaitable.

    Raises:
        BaseException: The exception of the function.
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
    """Return a function's result, or its exception: futures cannot hold `StopIteration`."""
    try:
        return executor(), None
    except Exception as exc:  # noqa: BLE001 - raised again where it is awaited
        return None, exc


BrokenArguments: TypeAlias = Literal["error", "repair"]
"""What becomes of arguments that are no JSON object: a result that says so, or the object that
json-repair finds in them (extra `repair`)."""


class RefusedCall(StreamnormError):
    """A call is not executed; the text of the exception is the result for the model."""


def check_policy(policy: BrokenArguments) -> None:
    """Raise an error if there is no such policy, or the library that it needs is missing.

    Raises:
        ImportError: The library is missing.
        ValueError: There is no such policy.
    """
    if policy == "error":
        return
    # `raw` is a policy of requests: no tool has a parameter for the whole text.
    if policy != "repair":
        raise ValueError(f"arguments is {policy!r}, expected 'error' or 'repair'")
    try:
        import_module("json_repair")
    except ImportError as exc:
        raise ImportError(
            "no json-repair, expected the extra `repair`: pip install '.[repair]' in a clone"
        ) from exc


def read_arguments(call: ToolCall, policy: BrokenArguments) -> dict[str, object]:
    """Return the arguments of a function call.

    Raises:
        RefusedCall: They are cut off, which nothing repairs, or no JSON object.
    """
    try:
        return call.input()
    except ArgumentsError as exc:
        # json-repair would close what is open, and the tool would run with half of its input.
        if _is_cut_off(call.arguments):
            raise RefusedCall(
                "Not executed: the arguments of the call were cut off before their end."
            ) from exc
        if policy == "error":
            raise RefusedCall(f"Not executed: the arguments are no JSON object: {exc}") from exc
    try:
        repaired: dict[str, object] = arguments_object(call, policy, Losses(), call.name)
    except EncodeError as exc:
        raise RefusedCall("Not executed: the arguments are no JSON object.") from exc
    return repaired


def _is_cut_off(text: str) -> bool:
    """Return whether a text is a JSON object that was cut off."""
    parser = PartialJSON()
    parser.feed(text)
    if parser.error is None:
        return not parser.complete
    return text.count("{") > text.count("}")


_MAX_ERROR_CHARS = 2_000
_BLOCKS = (Text, Image, Document, Audio, Video, OpaqueBlock)
_ATTRIBUTES = (("content", "is_error"), ("content", "isError"))


def result_of(call: ToolCall, value: object) -> ToolResult:
    """Return an executor's return value as the call's result.

    Raises:
        DecodeError: It is a result of MCP that is none.
        Exception: It has no JSON form.
    """
    if isinstance(value, ToolResult):
        return structs.replace(clean_result(value), tool_call_id=call.id)
    if value is None:
        return ToolResult(call.id)
    if isinstance(value, str):
        return ToolResult(call.id, (Text(clean(value)),))
    if isinstance(value, _BLOCKS):
        return clean_result(ToolResult(call.id, (value,)))
    if _is_content(value):
        content = [Text(item) if isinstance(item, str) else item for item in value]
        return clean_result(ToolResult(call.id, tuple(content)))
    if any(all(hasattr(value, name) for name in names) for names in _ATTRIBUTES):
        return ToolResult.from_mcp(value, call.id)
    return _json_result(call, value)


def clean_result(result: ToolResult) -> ToolResult:
    """Return a result with U+FFFD for half characters, such as those in names of files."""
    content = tuple(
        structs.replace(block, text=clean(block.text)) if isinstance(block, Text) else block
        for block in result.content
    )
    value = None if result.value is None else clean(result.value)
    return structs.replace(result, content=content, value=value)


def _is_content(value: object) -> TypeGuard[Sequence[ResultBlock | str]]:
    """Return whether a value is result content: blocks and strings."""
    if not _is_sequence(value) or not any(isinstance(item, _BLOCKS) for item in value):
        return False
    return all(isinstance(item, (str, *_BLOCKS)) for item in value)


def _is_sequence(value: object) -> TypeGuard[Sequence[object]]:
    return isinstance(value, (list, tuple))


def _json_result(call: ToolCall, value: object) -> ToolResult:
    plain: Any = msgspec.to_builtins(value, str_keys=True, enc_hook=_json_form)
    text = compact(plain)
    if "null" in text:  # it may be a number that JSON lacks
        plain = name_numbers(plain)
        text = compact(plain)
    # An object that nests too deep for a body is text alone.
    is_value = is_object(plain) and not too_deep(plain, Limits().max_json_depth)
    return ToolResult(call.id, (Text(text),), value=text if is_value else None)


def _json_form(value: object) -> object:
    """Return the JSON form of a value, anywhere in a result, that msgspec does not know.

    Raises:
        TypeError: It has none.
    """
    if isinstance(value, PurePath):
        return str(value)
    dump = getattr(value, "model_dump", None)  # of pydantic, whose models msgspec does not know
    form: object = dump(mode="json", by_alias=True) if callable(dump) else value
    try:
        # Without the hook: objects that answer every attribute, such as mocks, dump such objects.
        return msgspec.to_builtins(form, str_keys=True)
    except TypeError as exc:
        found = type(value).__name__
        raise TypeError(f"result holds a value of type {found}, expected JSON") from exc


def exception_result(call: ToolCall, exc: BaseException) -> ToolResult:
    """Return an exception as an error result.

    The model reads the type and the text of the exception, or of those in a group, and nothing
    else of it: no traceback, no cause, no notes.
    """
    try:
        text = _describe(exc)
    except Exception:  # noqa: BLE001 - it is the executor's, and the call needs a result
        text = type(exc).__name__
    return error_result(call, text)


def _describe(exc: BaseException) -> str:
    members: Any = getattr(exc, "exceptions", ())
    if isinstance(exc, BaseExceptionGroup):  # a task group's, which names no reason itself
        return "; ".join(map(_describe, members))
    name, words = type(exc).__name__, str(exc)
    return f"{name}: {words}" if words else name


def error_result(call: ToolCall, text: str) -> ToolResult:
    """Return an error result with bounded text."""
    if len(text) > _MAX_ERROR_CHARS:
        text = f"{text[:_MAX_ERROR_CHARS]} … ({len(text)} characters)"
    return ToolResult(call.id, (Text(clean(text)),), is_error=True)
