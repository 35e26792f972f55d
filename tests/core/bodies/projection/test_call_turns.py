"""Calls behind another message of the assistant, or before any message of the user."""

from __future__ import annotations

import pytest

from streamnorm import EncodeError, InputMessage, Text, ToolCall, ToolResult
from streamnorm._core.bodies.projection.results import join_call_turns
from streamnorm._core.losses import Losses

QUESTION = InputMessage("user", (Text("q"),))
TEXT = InputMessage("assistant", (Text("a"),))
CALLS = InputMessage("assistant", (ToolCall("c", "f", "{}"),))
RESULTS = InputMessage("user", (ToolResult("c"),))


def test_calls_are_joined_to_the_answer_before_them() -> None:
    losses = Losses()
    joined = join_call_turns((QUESTION, TEXT, TEXT, CALLS, RESULTS), losses)
    answer = InputMessage("assistant", (Text("a"), Text("a"), ToolCall("c", "f", "{}")))
    assert joined == (QUESTION, answer, RESULTS)
    assert [(loss.feature, loss.count) for loss in losses.list()] == [("messages_merged", 2)]


def test_calls_after_the_user_or_results_stay() -> None:
    losses = Losses()
    messages = (QUESTION, CALLS, RESULTS, CALLS, RESULTS, TEXT, TEXT)
    assert join_call_turns(messages, losses) is messages
    assert losses.list() == ()


@pytest.mark.parametrize("messages", [(CALLS, RESULTS), (TEXT, CALLS, RESULTS)], ids=len)
def test_calls_before_the_user_are_refused(messages: tuple[InputMessage, ...]) -> None:
    with pytest.raises(EncodeError, match="calls before any message of the user") as caught:
        join_call_turns(messages, Losses())
    assert caught.value.path == "messages[0]"
