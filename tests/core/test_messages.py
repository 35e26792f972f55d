"""Messages as values."""

from __future__ import annotations

import msgspec
import pytest
from msgspec import structs

from streamnorm import Message, Opaque, Reasoning, Refusal, ServerToolCall, Text, ToolCall, Usage
from streamnorm._core.messages import MessageSource, came_from, unchanged_body

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


def test_equal_messages_say_the_same() -> None:
    read = structs.replace(MESSAGE, opaque=(Opaque("d", "logprobs", "[]", 0),), source="any")
    assert read == MESSAGE
    assert hash(structs.replace(read, extra=None, stop_extra=None)) == hash(
        structs.replace(MESSAGE, extra=None, stop_extra=None)
    )
    for name in MESSAGE.__struct_fields__[:-2]:
        assert structs.replace(MESSAGE, **{name: None}) != MESSAGE
    assert not MESSAGE == "m1"  # noqa: SIM201 - `!=` asks no `__eq__` of a struct


def sourced(message: Message) -> Message:
    source = MessageSource("telegraph", {"model": "gpt"}, message, (1,))
    return structs.replace(message, source=source)


def test_source_stands_for_a_message_until_it_is_changed() -> None:
    read = sourced(MESSAGE)
    assert unchanged_body(read, "telegraph") is read.source.body
    assert unchanged_body(structs.replace(read, model="mine"), "telegraph") is read.source.body
    shorter = structs.replace(read, blocks=MESSAGE.blocks[:1])
    assert unchanged_body(shorter, "telegraph") is None
    assert unchanged_body(read, "semaphore") is None
    assert unchanged_body(MESSAGE, "telegraph") is None
    assert [came_from(each, "telegraph") for each in (read, shorter, MESSAGE)] == [
        True,
        True,
        False,
    ]
    assert not came_from(read, "semaphore")


def test_message_equals_no_other_value() -> None:
    assert not MESSAGE == "m1"  # noqa: SIM201 - `!=` asks no `__eq__` of a struct
