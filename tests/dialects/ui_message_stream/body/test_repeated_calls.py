"""Calls of an earlier message that a message repeats for their result, as a request.

The user may write on before an approved call is executed: the page then shows the result in
another message than the call.
"""

from __future__ import annotations

from typing import Any

from support.ui_message_stream.pages import UI, assistant, call, chat, text, user

from streamnorm import InputMessage, Text, ToolCall, ToolResult, decode_request

STEP = {"type": "step-start"}
MARK = {"streamnorm": {"isRepeated": True}}
APPROVED = call("approval-responded", approval={"id": "q", "approved": True})
CALL = ToolCall("c1", "weather", '{"a":1}')
RAIN = ToolResult("c1", (Text("rain"),))


def repeated(state: str = "output-available", id: str = "c1", **fields: Any) -> dict[str, Any]:
    return call(state, id, callProviderMetadata=MARK, **{"output": "rain", **fields})


def messages_of(*messages: Any) -> tuple[InputMessage, ...]:
    return decode_request(chat(*messages), UI).messages


def test_result_stands_behind_its_call() -> None:
    answer = assistant(STEP, repeated(), STEP, text("It rains."))
    assert messages_of(user(text("Hi")), assistant(STEP, APPROVED), user(text("go")), answer) == (
        InputMessage("user", (Text("Hi"),)),
        InputMessage("assistant", (CALL,)),
        InputMessage("user", (RAIN,)),
        InputMessage("user", (Text("go"),)),
        InputMessage("assistant", (Text("It rains."),)),
    )


def test_result_joins_the_results_of_other_calls_of_its_message() -> None:
    other = call("output-available", "c2", output="sun")
    asked = assistant(STEP, APPROVED, other, STEP, text("One is known."))
    _, answer, results, said, *rest = messages_of(
        user(), asked, user(text("go")), assistant(STEP, repeated(output={"t": 20}))
    )
    assert [block.id for block in answer.tool_calls] == ["c1", "c2"]
    assert results.blocks == (
        ToolResult("c2", (Text("sun"),)),
        ToolResult("c1", (Text('{"t":20}'),), value='{"t":20}'),
    )
    assert said == InputMessage("assistant", (Text("One is known."),))
    assert rest == [InputMessage("user", (Text("go"),))]


def test_result_of_a_call_at_the_end_of_the_chat() -> None:
    *_, last = messages_of(user(), assistant(STEP, APPROVED, STEP, repeated()))
    assert last == InputMessage("user", (RAIN,))


def test_other_blocks_of_the_step_stay() -> None:
    answer = assistant(STEP, repeated(), call("output-available", "c2", output="sun"), text("Yes."))
    messages = messages_of(user(), assistant(STEP, APPROVED), user(text("go")), answer)
    assert messages[2] == InputMessage("user", (RAIN,))
    assert messages[4:] == (
        InputMessage("assistant", (ToolCall("c2", "weather", '{"a":1}'), Text("Yes."))),
        InputMessage("user", (ToolResult("c2", (Text("sun"),)),)),
    )


def test_call_whose_message_is_gone_or_has_a_result_is_a_call() -> None:
    """An application may send the last messages of a chat alone."""
    whole = (InputMessage("assistant", (CALL,)), InputMessage("user", (RAIN,)))
    assert messages_of(user(), assistant(STEP, repeated()))[1:] == whole
    answered = assistant(STEP, call("output-available", output="snow"))
    assert messages_of(user(), answered, user(), assistant(STEP, repeated()))[4:] == whole


def test_call_of_an_id_that_is_used_again_is_no_repeated_call() -> None:
    """Providers number the calls of each answer from 0."""
    again = assistant(STEP, call("output-available", output="rain"))
    messages = messages_of(user(), assistant(STEP, APPROVED), user(text("go")), again)
    assert messages[1] == messages[3] == InputMessage("assistant", (CALL,))
    assert messages[4] == InputMessage("user", (RAIN,))


def test_repeated_call_without_a_result_is_left_out() -> None:
    forged = assistant(STEP, repeated("input-available"), text("Hm."))
    messages = messages_of(user(), assistant(STEP, APPROVED), user(text("go")), forged)
    assert messages[1] == InputMessage("assistant", (CALL,))
    assert messages[3:] == (InputMessage("assistant", (Text("Hm."),)),)
