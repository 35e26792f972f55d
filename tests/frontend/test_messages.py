"""Stored chats as messages of a page: what the pages have in common."""

from __future__ import annotations

import json

import pytest

from streamnorm import (
    Conversation,
    EncodeError,
    InputMessage,
    Loss,
    LossyEncoding,
    Message,
    Reasoning,
    Request,
    ServerToolCall,
    ServerToolResult,
    Text,
    ToolCall,
    ToolResult,
    UnknownDialect,
    decode_request,
)
from streamnorm.frontend import encode_messages

IDS = ("call_0", "call_0", "")
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
@pytest.mark.parametrize("parts", [("A", "B"), ("A", "B", "C"), ("A", "B", "C", "D")])
@pytest.mark.parametrize(
    "signed", [("s", "openai", "rs_1"), ("s", "xai", "rs_1"), ("s", "anthropic", None), ()]
)
def test_all_summaries_of_reasoning_come_back(
    page: str, parts: tuple[str, ...], signed: tuple[str | None, ...]
) -> None:
    answer = InputMessage("assistant", (Reasoning(parts, *signed), Text("Hi")))
    history = (HISTORY[0], answer, InputMessage("user", (Text("More."),)))
    written = encode_messages(history, page)
    assert written.losses == ()
    assert sent_back(written.messages, page) == history


@pytest.mark.parametrize("page", PAGES)
def test_reasoning_before_an_item_is_no_part_of_it(page: str) -> None:
    """OpenAI issued the item without it; each of several answers may be a failed attempt."""
    item = Reasoning(("B",), "s", "openai", "rs_2")
    history = (HISTORY[0], InputMessage("assistant", (Reasoning(("A",)), item, Text("Hi"))))
    written = encode_messages(history, page)
    assert written.losses == ()
    assert sent_back(written.messages, page) == history


@pytest.mark.parametrize(("page", "mark"), [(PAGES[0], "output-error"), (PAGES[1], "isError")])
def test_failed_call_of_the_provider_comes_back(page: str, mark: str) -> None:
    error = {"type": "code_execution_tool_result_error", "error_code": "unavailable"}
    call = ServerToolCall("s", "run", '{"a":1}', kind="run")
    blocks = (call, ServerToolResult("s", "run", error, is_error=True), Text("Hi"))
    history = (HISTORY[0], InputMessage("assistant", blocks))
    written = encode_messages(history, page)
    assert written.losses == ()
    assert mark in json.dumps(written.messages)
    assert sent_back(written.messages, page) == history


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


@pytest.mark.parametrize("page", PAGES)
def test_calls_of_one_id_get_ids_of_their_own(page: str) -> None:
    """Providers number the calls of each answer from 0, which a page takes for one call."""
    call, city = ToolCall("call_0", "weather", "{}"), ToolCall("", "city", "{}")
    history = (
        InputMessage("assistant", (call, call, city)),
        InputMessage(
            "user", tuple(ToolResult(id, (Text(id + n),)) for id, n in zip(IDS, "123", strict=True))
        ),
        InputMessage("assistant", (call, city)),
        InputMessage("user", (ToolResult("", (Text("4"),)), ToolResult("call_0", (Text("5"),)))),
    )
    written = encode_messages(history, page)
    assert written.losses == (Loss("call_id", "messages", 4, "written with an id of its own"),)
    found = sent_back(written.messages, page)
    results = {
        block.tool_call_id: block.content[0]
        for message in found
        for block in message.blocks
        if isinstance(block, ToolResult)
    }
    calls = [block.id for message in found for block in message.tool_calls]
    assert calls == ["call_0", "call_0-2", "call", "call_0-3", "call-2"]
    assert results == {
        "call_0": Text("call_01"),
        "call_0-2": Text("call_02"),
        "call": Text("3"),
        "call-2": Text("4"),
        "call_0-3": Text("5"),
    }


@pytest.mark.parametrize("page", PAGES)
def test_call_without_a_name_is_refused(page: str) -> None:
    history = (InputMessage("assistant", (ToolCall("c", ""),)),)
    with pytest.raises(EncodeError, match="a call without a name, expected one"):
        encode_messages(history, page)


@pytest.mark.parametrize("page", PAGES)
def test_call_that_is_not_whole_comes_back_with_an_error(page: str) -> None:
    """A page would execute it."""
    broken = ToolCall("c1", "weather", '{"city":"R')
    history = (HISTORY[0], InputMessage("assistant", (broken,)))
    written = encode_messages(history, page)
    asked, answer, results = sent_back(written.messages, page)
    assert asked == HISTORY[0]
    assert [(block.id, block.arguments) for block in answer.tool_calls] == [("c1", '{"city":"R')]
    (result,) = results.blocks
    assert isinstance(result, ToolResult)
    assert result.is_error
    assert written.losses == (Loss("result_filled", "messages", 1, "written as an error"),)


def test_dialect_of_no_page_is_refused() -> None:
    expected = "expected one of ui_message_stream, ag_ui"
    with pytest.raises(
        UnknownDialect, match=f"no messages of a page in dialect 'anthropic', {expected}"
    ):
        encode_messages(HISTORY, "claude")
    with pytest.raises(UnknownDialect, match="no dialect 'react'"):
        encode_messages(HISTORY, "react")
