"""Copies of conversations: branches of one history."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable

import pytest

from streamnorm import Conversation, InputMessage, Message, Request, Text, ToolCall, decode_request

QUESTION = InputMessage("user", (Text("How warm is it in Oslo, and in Rome?"),))
CALLS = Message("", "", (ToolCall("c1", "f", "{}"), ToolCall("c2", "f", "{}")), "tool_use")
ANSWER = Message(blocks=(Text("Warm."),), stop_reason="end_turn")


def pickled(chat: Conversation) -> Conversation:
    copied = pickle.loads(pickle.dumps(chat))  # noqa: S301 - our own bytes
    assert isinstance(copied, Conversation)
    return copied


each_copy = pytest.mark.parametrize("branch", [copy.copy, copy.deepcopy, pickled])


def asked() -> Conversation:
    chat = Conversation(Request(model="m", messages=(QUESTION,)))
    chat.append(CALLS)
    return chat


@each_copy
def test_branches_grow_by_themselves(branch: Callable[[Conversation], Conversation]) -> None:
    chat = asked()
    other = branch(chat)
    assert other == chat
    other.append_tool_result("c1", "21 degrees")
    assert [call.id for call in chat.open_tool_calls()] == ["c1", "c2"]
    assert [call.id for call in other.open_tool_calls()] == ["c2"]
    chat.append_tool_result("c2", "30 degrees")
    chat.append_tool_result("c1", "20 degrees")
    chat.append(ANSWER)
    assert (len(chat.messages), len(other.messages)) == (4, 3)
    assert [call.id for call in other.open_tool_calls()] == ["c2"]


@each_copy
def test_a_branch_asks_what_its_origin_asks(
    branch: Callable[[Conversation], Conversation],
) -> None:
    """Fields that only one vendor has are among it."""
    question = {"role": "user", "content": [{"type": "text", "text": "Hello", "odd": 1.0}]}
    body = {"model": "m", "max_tokens": 4096, "messages": [question], "odd": [1]}
    chat = Conversation(decode_request(body, "anthropic"))
    assert branch(chat).dump("anthropic").body == chat.dump("anthropic").body == body


@each_copy
def test_a_branch_remembers_what_a_dump_has_filled_in(
    branch: Callable[[Conversation], Conversation],
) -> None:
    """What the provider has read stays so in both, and a late result comes behind it."""
    chat = asked()
    chat.dump("openai_chat", repair="fill")
    other = branch(chat)
    for each in (chat, other):
        each.append(ANSWER)
        each.append_tool_result("c1", "21 degrees")
    bodies = [each.dump("openai_chat", repair="fill").body for each in (chat, other)]
    assert bodies[0] == bodies[1]
    assert [message["role"] for message in bodies[0]["messages"]] == [
        *("user", "assistant", "tool", "tool"),
        *("assistant", "user"),
    ]
