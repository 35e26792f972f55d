"""Messages as values."""

from __future__ import annotations

import msgspec
import pytest

from streamnorm import Message, Reasoning, Refusal, ServerToolCall, Text, ToolCall, Usage

MESSAGE = Message(
    id="m1",
    model="gpt",
    blocks=(
        Reasoning(("thought",)),
        Text("one "),
        ToolCall("c1", "f", "{}"),
        Refusal("no"),
        ServerToolCall("s1", "web_search"),
        Text("two"),
        ToolCall("c2", "g"),
    ),
    stop_reason="tool_use",
    raw_stop_reason="tool_calls",
    stop_sequence="END",
    usage=Usage(input_tokens=3),
    extra={"created": 1},
    stop_extra={"tier": "default"},
)


def test_message_survives_json() -> None:
    assert msgspec.json.decode(msgspec.json.encode(MESSAGE), type=Message) == MESSAGE


def test_empty_message_is_an_empty_object() -> None:
    assert msgspec.json.encode(Message()) == b"{}"
    assert msgspec.json.decode(b"{}", type=Message) == Message()


def test_message_is_immutable() -> None:
    for field in MESSAGE.__struct_fields__:
        with pytest.raises(AttributeError):
            setattr(MESSAGE, field, None)


def test_text_joins_only_the_text_blocks() -> None:
    assert MESSAGE.text == "one two"


def test_tool_calls_exclude_server_tool_calls() -> None:
    assert MESSAGE.tool_calls == (ToolCall("c1", "f", "{}"), ToolCall("c2", "g"))
