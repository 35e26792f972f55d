"""Which calls of a conversation wait for results."""

from __future__ import annotations

import pytest

from streamnorm import Conversation, EncodeError, InputMessage, Request, Text, ToolCall, ToolResult

SAID = InputMessage("user", (Text("Go on."),))


def call(id: str, name: str = "f") -> ToolCall:
    return ToolCall(id, name, "{}")


def assistant(*calls: ToolCall) -> InputMessage:
    return InputMessage("assistant", calls)


def results(*results: ToolResult) -> InputMessage:
    return InputMessage("user", results)


def waiting(*messages: InputMessage) -> list[str]:
    chat = Conversation(Request(messages=messages))
    return [call.id for call in chat.open_tool_calls()]


def test_calls_wait_until_their_results_come() -> None:
    asked = (SAID, assistant(call("a"), call("b"), call("c")))
    assert waiting(*asked) == ["a", "b", "c"]
    assert waiting(*asked, results(ToolResult("b"))) == ["a", "c"]
    assert waiting(*asked, results(ToolResult("b")), SAID, results(ToolResult("a"))) == ["c"]
    assert waiting(*asked, results(ToolResult("c"), ToolResult("a"), ToolResult("b"))) == []


def test_calls_of_one_tool_are_matched_by_id_and_never_by_name() -> None:
    asked = (SAID, assistant(call("a"), call("b")))
    assert waiting(*asked, results(ToolResult("b", name="f"))) == ["a"]
    with pytest.raises(EncodeError, match="result of tool call 'x', which no message before"):
        waiting(*asked, results(ToolResult("x", name="f")))


def test_calls_of_an_earlier_turn_wait_no_longer() -> None:
    turns = (SAID, assistant(call("a")), SAID, assistant(call("b")))
    assert waiting(*turns) == ["b"]
    with pytest.raises(EncodeError, match="'a' after the next assistant message"):
        waiting(*turns, results(ToolResult("a")))


def test_assistant_messages_that_follow_each_other_are_one_turn() -> None:
    turn = (SAID, assistant(call("a")), assistant(call("b")))
    assert waiting(*turn) == ["a", "b"]
    assert waiting(*turn, results(ToolResult("a"), ToolResult("b"))) == []
    with pytest.raises(EncodeError, match="second tool call with the id 'a'"):
        waiting(*turn, assistant(call("a")))


def test_an_id_may_come_again_in_a_later_turn() -> None:
    turn = (assistant(call("call_0")), results(ToolResult("call_0")))
    assert waiting(SAID, *turn, SAID, *turn) == []
    assert waiting(SAID, *turn, SAID, turn[0]) == ["call_0"]


def test_a_message_with_a_second_result_is_refused_as_a_whole() -> None:
    chat = Conversation(Request(messages=(SAID, assistant(call("a"), call("b")))))
    with pytest.raises(EncodeError) as caught:
        chat.append(results(ToolResult("a"), ToolResult("a")))
    assert str(caught.value) == (
        "messages[2].blocks[1]: second result of tool call 'a', expected one"
    )
    assert [call.id for call in chat.open_tool_calls()] == ["a", "b"]


def test_calls_without_ids_have_those_that_encoders_give_them() -> None:
    asked = (SAID, assistant(call("", "f"), call("x", "f"), call("", "g"), call("", "f")))
    chat = Conversation(Request(messages=asked))
    ids = [call.id for call in chat.open_tool_calls()]
    assert ids == ["call_1_0", "x", "call_1_2", "call_1_3"]
    for id in reversed(ids):
        chat.append_tool_result(id, f"for {id}")
    body = chat.dump("openai_chat").body
    assert [c["id"] for c in body["messages"][1]["tool_calls"]] == ids
    assert [(m["tool_call_id"], m["content"]) for m in body["messages"][2:]] == [
        (id, f"for {id}") for id in ids
    ]


def test_results_without_ids_answer_the_first_call_of_their_tool() -> None:
    asked = (SAID, assistant(call("", "f"), call("x", "g"), call("", "f")))
    assert waiting(*asked, results(ToolResult("", name="g"))) == ["call_1_0", "call_1_2"]
    by_name = results(ToolResult("", name="f"), ToolResult("other", name="f"))
    assert waiting(*asked, by_name) == ["x"]
    assert waiting(*asked, results(ToolResult(""))) == ["x", "call_1_2"]
    with pytest.raises(EncodeError, match="result of tool call ''"):
        waiting(*asked, results(ToolResult("", name="h")))


def test_a_long_id_is_cut_in_the_error() -> None:
    with pytest.raises(EncodeError) as caught:
        Conversation().append_tool_result("x" * 10_000, "")
    assert len(str(caught.value)) < 250
