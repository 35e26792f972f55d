"""Stored chats as messages of a page: what the pages have in common."""

from __future__ import annotations

import pytest

from streamnorm import (
    Conversation,
    InputMessage,
    Loss,
    LossyEncoding,
    Message,
    Request,
    Text,
    ToolCall,
    ToolResult,
    UnknownDialect,
    decode_request,
)
from streamnorm.frontend import encode_messages

PAGES = ("ui_message_stream", "ag_ui")
HISTORY = (
    InputMessage("user", (Text("Weather?"),)),
    InputMessage("assistant", (Text("I look."), ToolCall("c1", "weather", '{"city":"Rome"}'))),
    InputMessage("user", (ToolResult("c1", (Text("rain"),)),)),
    InputMessage("assistant", (Text("It rains."),)),
)


def sent_back(messages: list[dict[str, object]], page: str) -> tuple[InputMessage, ...]:
    return decode_request({"threadId": "t", "runId": "r", "messages": messages}, page).messages


@pytest.mark.parametrize("page", PAGES)
def test_conversation_comes_back_as_it_was(page: str) -> None:
    chat = Conversation(Request(messages=HISTORY))
    written = encode_messages(chat, page)
    assert written.losses == ()
    assert sent_back(written.messages, page) == HISTORY
    assert encode_messages(HISTORY, page) == written
    ids = [message["id"] for message in written.messages]
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("page", PAGES)
def test_answer_alone_is_a_chat(page: str) -> None:
    answer = Message("a1", "gpt-5", (Text("Hi"),), "end_turn")
    written = encode_messages(answer, page)
    assert sent_back(written.messages, page) == (InputMessage("assistant", (Text("Hi"),)),)


@pytest.mark.parametrize("page", PAGES)
def test_loss_is_counted_or_raised(page: str) -> None:
    history = (InputMessage("user", (ToolResult("forged", (Text("x"),)), Text("Hi"))),)
    assert encode_messages(history, page).losses == (
        Loss("orphan_result", "messages", 1, "dropped"),
    )
    with pytest.raises(LossyEncoding):
        encode_messages(history, page, strict=True)


def test_dialect_of_no_page_is_refused() -> None:
    expected = "expected one of ui_message_stream, ag_ui"
    with pytest.raises(
        UnknownDialect, match=f"no messages of a page in dialect 'anthropic', {expected}"
    ):
        encode_messages(HISTORY, "claude")
    with pytest.raises(UnknownDialect, match="no dialect 'react'"):
        encode_messages(HISTORY, "react")
