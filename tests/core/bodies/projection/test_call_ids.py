"""Ids of tool calls that occur twice in a conversation."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs
from support.bodies.projection_targets import (
    Projection,
    assistant,
    call,
    own,
    request,
    result,
    user,
)

from streamnorm import Conversation, InputMessage, Request, Text
from streamnorm._core.blocks import InputBlock
from streamnorm._core.bodies.request import Source
from streamnorm.tools import Tool
from streamnorm.validation import validate_request


def test_a_call_with_the_id_of_an_earlier_one_gets_another_where_ids_must_differ() -> None:
    asked = request(
        *(assistant(call("a")), user(result("a", "1"))),
        *(assistant(call("a_2")), user(result("a_2", "2"))),
        *(assistant(call("a")), user(result("a", "3"))),
        *(assistant(call("a")), user(result("a", "4"))),
    )
    assert Projection(asked).request is asked
    done = Projection(asked, unique_ids=True)
    assert done.request == request(
        *(assistant(call("a")), user(result("a", "1"))),
        *(assistant(call("a_2")), user(result("a_2", "2"))),
        *(assistant(call("a_3")), user(result("a_3", "3"))),
        *(assistant(call("a_4")), user(result("a_4", "4"))),
    )
    assert done.lost == {"tool_id_changed": 2}
    mine = request(*map(own, asked.messages))
    assert Projection(mine, unique_ids=True).request is mine


def test_a_call_with_the_id_that_an_earlier_one_was_given_gets_another() -> None:
    asked = request(
        *(assistant(call("a")), user(result("a", "1"))),
        *(assistant(call("a")), user(result("a", "2"))),
        *(assistant(call("a_2")), user(result("a_2", "3"))),
    )
    done = Projection(asked, unique_ids=True)
    assert done.messages[2:] == [
        *(("assistant", (call("a_2"),)), ("user", (result("a_2", "2"),))),
        *(("assistant", (call("a_2_2"),)), ("user", (result("a_2_2", "3"),))),
    ]


def answer(*blocks: InputBlock) -> InputMessage:
    """Return an answer in the target's dialect that was appended to a conversation."""
    made = assistant(*blocks)
    return structs.replace(made, source=Source("target", None, made))


def test_an_appended_answer_with_the_id_of_an_earlier_call_gets_another_id() -> None:
    first = (assistant(call("a")), user(result("a", "1")))
    for begun in (first, tuple(map(own, first)), (answer(call("a")), first[1])):
        asked = request(*begun, answer(call("a")), user(result("a", "2")))
        for same_target in (False, True):
            done = Projection(asked, unique_ids=True, same_target=same_target)
            assert done.request.messages[:2] == asked.messages[:2]
            assert done.messages[2:] == [
                ("assistant", (call("a_2"),)),
                ("user", (result("a_2", "2"),)),
            ]
            assert done.lost == {"tool_id_changed": 1}
        assert Projection(asked).request is asked
        # A known server that is not judged by the vendor's rules may reuse ids.
        assert Projection(asked, unique_ids=True, named=True).request is asked


def test_results_in_json_follow_the_renamed_call() -> None:
    later = own(user(result("a", "2")))
    asked = request(
        *(own(assistant(call("a"))), own(user(result("a", "1")))),
        *(answer(call("a")), later, own(assistant(call("a"))), own(user(result("a", "3")))),
    )
    done = Projection(asked, unique_ids=True, same_target=True)
    assert done.messages[3] == ("user", (result("a_2", "2"),))
    assert done.request.messages[4:] == asked.messages[4:]


ANTHROPIC = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "stop_reason": "tool_use",
    "stop_sequence": None,
    "usage": {"input_tokens": 1, "output_tokens": 1},
    "content": [{"type": "tool_use", "id": "call_0", "name": "f", "input": {}}],
}
RESPONSES = {
    "id": "resp_1",
    "object": "response",
    "created_at": 1,
    "model": "m",
    "status": "completed",
    "output": [
        {
            "type": "function_call",
            "id": "fc_1",
            "call_id": "call_0",
            "name": "f",
            "arguments": "{}",
            "status": "completed",
        }
    ],
}


def ids_of(body: dict[str, Any]) -> list[str]:
    """Return the ids of calls and results in the order of a body."""
    if "input" in body:
        return [item["call_id"] for item in body["input"] if "call_id" in item]
    blocks = [block for message in body["messages"][1:] for block in message["content"]]
    return [block.get("id") or block["tool_use_id"] for block in blocks]


@pytest.mark.parametrize(
    ("answered", "dialect"), [(ANTHROPIC, "anthropic"), (RESPONSES, "openai_responses")]
)
def test_turns_of_a_server_that_reuses_ids_are_legal_at_the_vendor(
    answered: dict[str, Any], dialect: str
) -> None:
    tool = Tool("f", "F.", {"type": "object", "properties": {}})
    asked = Request(model="m", tools=(tool,), messages=(InputMessage("user", (Text("Hi"),)),))
    chat = Conversation(asked)
    for number in range(3):
        chat.append(answered, dialect=dialect)
        chat.append_tool_result("call_0", f"{number}")
        body = chat.dump(dialect).body
        expected = ["call_0", "call_0_2", "call_0_3"][: number + 1]
        assert ids_of(body) == [id for name in expected for id in (name, name)]
        assert validate_request(body, dialect) == []
    assert Conversation.from_json(chat.to_json()).dump(dialect).body == body
