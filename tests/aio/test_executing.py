"""`run_tools`: each call has a result, and no call changes another."""

from __future__ import annotations

import functools
import json
import sys
import threading
from collections.abc import Callable
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.bodies.json_texts import PLAIN, values

import streamnorm
from streamnorm import (
    Image,
    InputMessage,
    Message,
    Reasoning,
    ServerToolCall,
    Text,
    Tool,
    ToolCall,
    ToolResult,
    run_tools,
)
from streamnorm.tools import CustomTool, Namespace

pytestmark = pytest.mark.anyio

OSLO = ToolCall("call_1", "get_weather", '{"city":"Oslo"}')


def failed(id: str, text: str) -> ToolResult:
    return ToolResult(id, (Text(text),), is_error=True)


async def get_weather(city: str) -> str:
    return f"snow in {city}"


async def never(**arguments: object) -> str:
    raise AssertionError("a call was executed that must not be")


class Weather:
    async def __call__(self, city: str) -> str:
        return f"snow in {city}"


EXECUTORS: dict[str, Callable[..., object]] = {
    "asynchronous": get_weather,
    "synchronous": lambda city: f"snow in {city}",
    "returns a coroutine": lambda city: get_weather(city),
    "partial": functools.partial(get_weather),
    "object": Weather(),
}


@pytest.mark.parametrize("executor", EXECUTORS.values(), ids=EXECUTORS)
async def test_a_function_gets_the_arguments_as_keywords(executor: Callable[..., object]) -> None:
    message = Message(blocks=(Text("Let me see."), OSLO), stop_reason="tool_use")
    results = await run_tools(message, {"get_weather": executor})
    assert results == (ToolResult("call_1", (Text("snow in Oslo"),)),)


async def test_results_are_the_blocks_of_the_next_message() -> None:
    message = Message(blocks=(OSLO,), stop_reason="tool_use")
    answered = InputMessage("user", await run_tools(message, {"get_weather": get_weather}))
    encoded = streamnorm.encode_request(
        streamnorm.Request(
            messages=(
                InputMessage("user", (Text("Snow?"),)),
                InputMessage("assistant", message.blocks),
                answered,
            )
        ),
        "openai_chat",
    )
    assert encoded.body["messages"][-1] == {
        "role": "tool",
        "tool_call_id": "call_1",
        "content": "snow in Oslo",
    }


async def test_a_custom_tool_gets_its_text() -> None:
    call = ToolCall("call_1", "sh", "ls -l", kind="custom")
    assert await run_tools([call], {"sh": str.upper}) == (ToolResult("call_1", (Text("LS -L"),)),)


async def test_a_namespace_is_part_of_the_name() -> None:
    calls = [
        ToolCall("call_1", "get_weather", '{"city":"Oslo"}', namespace="met"),
        ToolCall("call_2", "get_weather", "{}"),
    ]
    first, second = await run_tools(calls, {"met__get_weather": get_weather})
    assert first == ToolResult("call_1", (Text("snow in Oslo"),))
    assert second == failed("call_2", "Not executed: there is no tool of this name.")


async def test_only_calls_of_the_client_are_executed() -> None:
    blocks = [
        Reasoning(("hm",)),
        ServerToolCall("s1", "get_weather", '{"city":"Bergen"}'),
        OSLO,
        ToolResult("call_0"),
    ]
    (result,) = await run_tools(blocks, {"get_weather": get_weather})
    assert result.tool_call_id == "call_1"
    assert await run_tools([], {}) == ()


@pytest.mark.parametrize("concurrent", [True, False])
async def test_results_keep_the_order_of_the_calls(concurrent: bool) -> None:
    """The first to be called is the last to return, where calls run at the same time."""
    order: list[str] = []
    started = anyio.Event()

    async def slow() -> str:
        order.append("slow")
        if concurrent:
            await started.wait()
        order.append("slow ends")
        return "slow"

    async def fast() -> str:
        order.append("fast")
        started.set()
        return "fast"

    calls = [ToolCall("a", "slow"), ToolCall("b", "fast")]
    results = await run_tools(calls, {"slow": slow, "fast": fast}, concurrent=concurrent)
    assert [result.tool_call_id for result in results] == ["a", "b"]
    assert [result.content for result in results] == [(Text("slow"),), (Text("fast"),)]
    if not concurrent:
        assert order == ["slow", "slow ends", "fast"]


async def test_functions_in_threads_run_at_the_same_time() -> None:
    meeting = threading.Barrier(2, timeout=30)
    calls = [ToolCall("a", "meet"), ToolCall("b", "meet")]
    results = await run_tools(calls, {"meet": lambda: meeting.wait() >= 0})
    assert [result.content for result in results] == [(Text("true"),), (Text("true"),)]


def raises(exc: BaseException) -> Callable[[], None]:
    def function() -> None:
        raise exc

    return function


def raises_later(exc: BaseException) -> Callable[[], Any]:
    async def function() -> None:
        await anyio.lowlevel.checkpoint()
        raise exc

    return function


@pytest.mark.parametrize("concurrent", [True, False])
@pytest.mark.parametrize("raising", [raises, raises_later])
async def test_a_failure_changes_no_other_call(
    raising: Callable[[BaseException], Callable[[], Any]], concurrent: bool
) -> None:
    async def patient() -> str:
        for _ in range(20):
            await anyio.lowlevel.checkpoint()
        return "fine"

    calls = [ToolCall("a", "patient"), ToolCall("b", "broken"), ToolCall("c", "patient")]
    executors = {"patient": patient, "broken": raising(ValueError("no station"))}
    assert await run_tools(calls, executors, concurrent=concurrent) == (
        ToolResult("a", (Text("fine"),)),
        failed("b", "ValueError: no station"),
        ToolResult("c", (Text("fine"),)),
    )


async def test_an_exception_that_no_future_holds_is_a_result() -> None:
    results = await run_tools([ToolCall("a", "f")], {"f": raises(StopIteration("over"))})
    assert results == (failed("a", "RuntimeError: coroutine raised StopIteration"),)


async def test_arguments_that_a_function_does_not_take_are_a_result() -> None:
    (result,) = await run_tools([ToolCall("a", "f", '{"town":"Oslo"}')], {"f": get_weather})
    assert result.is_error
    assert "unexpected keyword argument 'town'" in str(result.content)


async def test_a_value_without_json_form_is_a_result() -> None:
    (result,) = await run_tools([ToolCall("a", "f")], {"f": object})
    assert result.is_error


@pytest.mark.parametrize(
    ("block", "problem"),
    [
        (Image("image/png", b"hi"), "content[0].data: expected `str | null`, got `bytes`"),  # type: ignore[arg-type]  # wrong on purpose
        (
            ToolResult("a", ({"type": "text", "text": "hi"},)),  # type: ignore[arg-type]  # wrong on purpose
            "content[0]: a value of type dict, expected an object of streamnorm",
        ),
    ],
)
async def test_a_block_with_a_value_of_another_type_is_a_result(block: Any, problem: str) -> None:
    """No provider could be sent it, and the history could not be saved."""
    (result,) = await run_tools([ToolCall("a", "f", "{}")], {"f": lambda: block})
    assert result == ToolResult("a", (Text(f"EncodeError: {problem}"),), is_error=True)


@given(values(PLAIN), st.sampled_from(["error", "repair"]))
def test_any_arguments_have_a_result(value: object, policy: Any) -> None:
    """Whole, or cut off anywhere: what is executed is an object that the text holds."""
    executed: list[dict[str, object]] = []

    async def takes(**arguments: object) -> None:
        executed.append(arguments)

    text = json.dumps(value)
    calls = [ToolCall(str(end), "f", text[:end]) for end in range(len(text) + 1)]

    async def run() -> tuple[ToolResult, ...]:
        return await run_tools(calls, {"f": takes}, arguments=policy)

    results = anyio.run(run)
    assert [result.tool_call_id for result in results] == [call.id for call in calls]
    whole = [value] if isinstance(value, dict) else []
    empty: list[object] = [{}]  # of no text at all
    assert [one for one in executed if one] == [one for one in whole if one]
    assert len(executed) == len(empty) + len(whole)


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("max_tokens", "max_tokens"),
        ("refusal", "refusal"),
        (None, "the end of the connection"),
    ],
)
async def test_no_call_of_a_truncated_message_is_executed(reason: Any, words: str) -> None:
    message = Message(blocks=(OSLO, ToolCall("call_2", "unknown")), stop_reason=reason)
    text = f"Not executed: the answer with this call was cut off by {words}."
    results = await run_tools(message, {"get_weather": never}, arguments="repair")
    assert results == (failed("call_1", text), failed("call_2", text))


@pytest.mark.parametrize("reason", ["tool_use", "end_turn", "stop_sequence", "pause", "other"])
async def test_calls_of_a_whole_message_are_executed(reason: Any) -> None:
    message = Message(blocks=(OSLO,), stop_reason=reason)
    (result,) = await run_tools(message, {"get_weather": get_weather})
    assert not result.is_error


@pytest.mark.parametrize("policy", ["error", "repair"])
async def test_a_truncated_call_is_never_executed(policy: Any) -> None:
    calls = [
        ToolCall("a", "f", '{"path": "/tm'),
        ToolCall("b", "f", "rm -r /tm", kind="custom", is_unfinished=True),
        ToolCall("c", "f", "{}", is_unfinished=True),
    ]
    for result in await run_tools(calls, {"f": never}, arguments=policy):
        assert result.is_error
        assert "cut off before" in str(result.content)


@pytest.mark.parametrize(
    ("module", "options"),
    [("json_repair", {"arguments": "repair"}), ("jsonschema", {"tools": [Tool("f", None, {})]})],
)
async def test_a_missing_extra_is_an_error_before_any_call(
    module: str, options: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match="expected the extra"):
        await run_tools([OSLO], {"get_weather": never}, **options)


async def test_broken_arguments_are_repaired_on_request_alone() -> None:
    call = ToolCall("a", "get_weather", "{'city': 'Oslo'}")
    (result,) = await run_tools([call], {"get_weather": never})
    assert "no JSON object" in str(result.content)
    (result,) = await run_tools([call], {"get_weather": get_weather}, arguments="repair")
    assert result == ToolResult("a", (Text("snow in Oslo"),))


@pytest.mark.parametrize("policy", ["raw", "repiar"])
async def test_a_policy_that_tools_do_not_have_executes_nothing(policy: Any) -> None:
    """Those of a request are others: `raw` would call the tool with the whole text."""
    call = ToolCall("call_1", "get_weather", '{"city": "Oslo",}')
    with pytest.raises(ValueError, match=f"arguments is '{policy}', expected 'error' or 'repair'"):
        await run_tools([call], {"get_weather": never}, arguments=policy)


TOOLS = [
    Tool("get_weather", None, {"properties": {"city": {"type": "string"}}, "required": ["city"]}),
    Tool("get_weather", None, {"required": ["street"]}, namespace=Namespace("met")),
    Tool("broken", None, {"type": "text", "$ref": "http://127.0.0.1:9/"}),
    Tool("unnamed", None, {"$schema": ["x"]}),
    Tool("unchecked"),
    CustomTool("sh"),
]


async def test_arguments_are_checked_against_the_schema_of_their_tool() -> None:
    calls = [
        OSLO,
        ToolCall("b", "get_weather", '{"city":3}'),
        ToolCall("c", "get_weather", '{"city":"Oslo"}', namespace="met"),
        ToolCall("d", "broken"),
        ToolCall("u", "unnamed"),
        ToolCall("e", "unchecked"),
        ToolCall("f", "sh", "ls", kind="custom"),
    ]
    executors: dict[str, Callable[..., object]] = {
        "get_weather": get_weather,
        "met__get_weather": never,
        "broken": never,
        "unnamed": never,
        "unchecked": lambda: "ran",
        "sh": lambda text: "ran",
    }
    mismatch = "Not executed: the arguments do not match the schema of the tool: "
    assert await run_tools(calls, executors, tools=TOOLS) == (
        ToolResult("call_1", (Text("snow in Oslo"),)),
        failed("b", f"{mismatch}$.city: 3 is not of type 'string'"),
        failed("c", f"{mismatch}$: 'street' is a required property"),
        failed("d", "Not executed: the schema of the tool cannot be read."),
        failed("u", "Not executed: the schema of the tool cannot be read."),
        ToolResult("e", (Text("ran"),)),
        ToolResult("f", (Text("ran"),)),
    )
