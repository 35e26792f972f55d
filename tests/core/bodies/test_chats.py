"""Chats of pages: the ids of their calls."""

from __future__ import annotations

import pytest

from streamnorm import (
    EncodeError,
    InputMessage,
    Message,
    ServerToolCall,
    ServerToolResult,
    Text,
    ToolCall,
    ToolResult,
)
from streamnorm._core.bodies.chats import CallIds, read_history
from streamnorm._core.bodies.request import calls_of
from streamnorm._core.losses import Losses

USER = InputMessage("user", (Text("Hi"),))


def call(id: str) -> ToolCall:
    return ToolCall(id, "f")


def given(ids: CallIds, *names: str) -> list[str]:
    return [ids.rename(call(name)).id for name in names]


def answered(ids: CallIds, *names: str) -> list[str]:
    return [ids.rename(ToolResult(name)).tool_call_id for name in names]


def test_calls_of_a_chat_and_of_the_answer_at_its_end() -> None:
    earlier = InputMessage("assistant", (call("a"), call("b")))
    results = InputMessage("user", (ToolResult("b"),))
    last = InputMessage("assistant", (Text("x"), ServerToolCall("c", "g"), call("b")))
    chat = (USER, earlier, USER, last, results)
    assert calls_of(chat) == {"a": False, "b": True, "c": True}
    assert calls_of((*chat, USER)) == {"a": False, "b": False, "c": False}
    assert calls_of((earlier, InputMessage("user"))) == {"a": False, "b": False}
    assert calls_of(()) == {}


def test_each_call_gets_an_id_that_no_other_call_has() -> None:
    ids = CallIds({"a": False, "b-2": True})
    assert given(ids, "a", "b", "b", "c", "a") == ["a-2", "b", "b-3", "c", "a-3"]
    # Which a call has got in place of its own.
    assert given(ids, "a-2") == ["a-2-2"]


def test_call_and_result_without_an_id_get_one() -> None:
    ids = CallIds({"call"})
    assert given(ids, "", "") == ["call-2", "call-3"]
    assert answered(ids, "", "") == ["call-2", "call-3"]
    assert answered(CallIds(), "") == ["call"]


def test_block_that_keeps_its_id_is_the_same() -> None:
    ids = CallIds()
    for block in (Text("x"), call("a"), ToolResult("a"), ServerToolResult("b", "k")):
        assert ids.rename(block) is block


def test_results_of_calls_of_one_id_belong_to_them_in_order() -> None:
    ids = CallIds()
    given(ids, "a", "a", "b")
    # A further one is the last call's.
    assert answered(ids, "a", "b", "a", "a") == ["a", "b", "a-2", "a-2"]
    server = ServerToolResult("a", "k", [1])
    assert ids.rename(server) == ServerToolResult("a-2", "k", [1])


def test_results_are_of_the_calls_of_the_last_answer_that_has_such() -> None:
    """An agent may leave calls without a result."""
    ids = CallIds()
    given(ids, "a", "a")
    ids.begin_answer()
    assert answered(ids, "a") == ["a"]
    assert given(ids, "a") == ["a-3"]
    assert answered(ids, "a") == ["a-3"]


def test_id_of_a_result_without_a_call_is_no_other_call_s() -> None:
    ids = CallIds()
    assert answered(ids, "a") == ["a"]
    assert given(ids, "a") == ["a-2"]


def test_calls_of_one_id_take_linear_time() -> None:
    """Each of them is named at once, however many came before it."""
    ids = CallIds(["b", *(f"b-{number}" for number in range(2, 20_000))])
    names = given(ids, *["a"] * 20_000, *["b"] * 20_000)
    assert (names[19_999], names[20_000], names[-1]) == ("a-20000", "b-20000", "b-39999")


@pytest.mark.parametrize("block", [ToolCall("a", ""), ServerToolCall("a", "")])
def test_call_without_a_name_is_refused(block: ToolCall | ServerToolCall) -> None:
    history = (USER, Message("", "", (Text("Hi"), block)))
    with pytest.raises(EncodeError) as raised:
        list(read_history(history, "ag_ui", Losses()))
    assert str(raised.value) == "messages[1].blocks[1]: a call without a name, expected one"
