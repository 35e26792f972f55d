"""Linear time of whole requests, whatever grows in them.

Time is measured in executed lines, which do not depend on the machine.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from support.bodies.checks import BODIES
from support.operation_counts import lines

from streamnorm import (
    CacheMark,
    Conversation,
    Image,
    InputMessage,
    Reasoning,
    Request,
    Text,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
    decode_request,
    encode_request,
)
from streamnorm._core.tools import Namespace

ASKED = InputMessage("user", (Text("q"),))


def _calls(count: int) -> tuple[ToolCall, ...]:
    return tuple(ToolCall(f"c{number}", "f", '{"a":1}') for number in range(count))


def _results(count: int) -> tuple[ToolResult, ...]:
    return tuple(ToolResult(f"c{number}", (Text("r"),)) for number in range(count))


def _turns(count: int) -> Request:
    pairs = zip(_calls(count), _results(count), strict=True)
    messages = (
        InputMessage(role, (block,))
        for call, result in pairs
        for role, block in (("assistant", call), ("user", result))
    )
    return Request(messages=(ASKED, *messages))  # type: ignore[arg-type]


def _parallel_calls(count: int) -> Request:
    answer = InputMessage("assistant", _calls(count))
    return Request(messages=(ASKED, answer, InputMessage("user", _results(count)[::-1])))


def _split_results(count: int) -> Request:
    results = (InputMessage("user", (result,)) for result in _results(count))
    return Request(messages=(ASKED, InputMessage("assistant", _calls(count)), *results))


def _calls_without_ids(count: int) -> Request:
    calls = InputMessage("assistant", (ToolCall("", "f", "{}"),) * count)
    return Request(messages=(ASKED, calls, InputMessage("user", (ToolResult(""),) * count)))


def _split_answers(count: int) -> Request:
    answers = (InputMessage("assistant", (call,)) for call in _calls(count))
    return Request(messages=(ASKED, *answers, InputMessage("user", _results(count))))


def _missing_results(count: int) -> Request:
    return Request(messages=(ASKED, InputMessage("assistant", _calls(count)), ASKED))


def _results_of_no_call(count: int) -> Request:
    return Request(messages=(ASKED, InputMessage("user", _results(count))))


def _marked_texts(count: int) -> Request:
    return Request(messages=(InputMessage("user", (Text("q", cache=CacheMark()),) * count),))


def _said(count: int) -> Request:
    parts = (Text("a"), Reasoning(("r",), "c2ln", "anthropic"), Reasoning(("r",), "c2ln", "openai"))
    return Request(messages=(ASKED, InputMessage("assistant", parts * count), ASKED))


def _images_in_a_result(count: int) -> Request:
    result = ToolResult("c0", (Image("image/png", "AAAA"), Text("a")) * count)
    answer = InputMessage("assistant", _calls(1))
    return Request(messages=(ASKED, answer, InputMessage("user", (result,))))


def _instructions(count: int) -> Request:
    told = (InputMessage("system", (Text("s"),)), InputMessage("developer", (Text("d"),)))
    return Request(messages=(*told * count, ASKED, *told * count, ASKED))


def _messages_of_the_user(count: int) -> Request:
    return Request(messages=(ASKED,) * count)


def _chosen_tools(count: int) -> Request:
    names = tuple(f"t{number}" for number in range(count))
    tools = tuple(
        Tool(name, "d", {"type": "object"}, namespace=Namespace("ns") if name == "t0" else None)
        for name in names
    )
    return Request(messages=(ASKED,), tools=tools, tool_choice=ToolChoice("required", names))


GROWING: dict[str, Callable[[int], Request]] = {
    make.__name__.strip("_"): make
    for make in (
        *(_turns, _parallel_calls, _split_results, _calls_without_ids, _split_answers),
        *(_missing_results, _results_of_no_call, _marked_texts, _said, _images_in_a_result),
        *(_instructions, _messages_of_the_user, _chosen_tools),
    )
}


def there_and_back(request: Request, dialect: str) -> None:
    made = encode_request(request, dialect, repair="fill")
    decode_request(made.body, dialect, path=made.path, headers=made.headers)


@pytest.mark.parametrize("dialect", BODIES)
@pytest.mark.parametrize("name", GROWING)
def test_request_takes_as_many_steps_for_each_part(name: str, dialect: str) -> None:
    there_and_back(GROWING[name](1), dialect)  # so that all is imported
    few, many = (
        lines(partial(there_and_back, GROWING[name](count), dialect)) for count in (30, 120)
    )
    assert many < 4.2 * few


def test_conversation_takes_as_many_steps_for_each_answer() -> None:
    def talk(count: int) -> None:
        chat = Conversation(Request(model="m"))
        # Behind results that a dump has filled in, the second half is the model's next turn.
        for part in ("first", "second"):
            for number in range(count):
                call = ToolCall(f"{part}_{number}", "f")
                chat.append(InputMessage("assistant", (call,)))
            chat.dump("anthropic", repair="fill")

    talk(1)  # so that all is imported
    few, many = (lines(partial(talk, count)) for count in (30, 120))
    assert many < 4.2 * few


def _page_of(parts: list[dict[str, object]]) -> dict[str, object]:
    asked = {"role": "user", "parts": [{"type": "text", "text": "q"}]}
    return {"messages": [asked, {"role": "assistant", "parts": parts}]}


def test_answer_of_a_page_takes_as_many_steps_for_each_part() -> None:
    said = {"type": "text", "text": "a"}
    call = {"type": "tool-f", "toolCallId": "c", "state": "output-available", "output": 1}
    source = {"type": "source-url", "sourceId": "1", "url": "https://a.example/"}
    item = {"openai": {"itemId": "rs_1"}}
    summary = {"type": "reasoning", "text": "r", "providerMetadata": item}

    def read(count: int) -> None:
        calls = [{**call, "toolCallId": f"c{number}"} for number in range(count)]
        for parts in (
            [source] * count,
            [said, *calls, *[source] * count],
            [summary] * count,
        ):
            decode_request(_page_of(parts), "ui_message_stream")

    few, many = (lines(partial(read, count)) for count in (50, 200))
    assert many < 4.2 * few
