"""Requests that a program builds, with values of other types than the fields have."""

from __future__ import annotations

from typing import Any

import pytest

from streamnorm import (
    Conversation,
    EncodeError,
    Image,
    InputMessage,
    Message,
    Request,
    Text,
    Tool,
    ToolCall,
    ToolResult,
    decode_request,
    encode_request,
)
from streamnorm._core.bodies.request import OutputFormat

DIALECTS = ["anthropic", "openai_chat", "openai_responses", "gemini", "bedrock_converse"]
ASKED = InputMessage("user", (Text("Hi"),))
CALLED = InputMessage("assistant", (ToolCall("c", "f", "{}"),))
ARRAY = "expected `array`, got `str`"


def user(blocks: Any) -> InputMessage:
    return InputMessage("user", blocks)


def result(content: Any) -> InputMessage:
    return InputMessage("user", (ToolResult("c", content),))


def call(arguments: Any) -> InputMessage:
    return InputMessage("assistant", (ToolCall("c", "f", arguments),))


MESSAGES: list[tuple[tuple[Any, ...], str]] = [
    ((user("Hi"),), f"messages[0].blocks: {ARRAY}"),
    ((user(["Hi"]),), "messages[0].blocks[0]: expected `object`, got `str`"),
    (
        (user(({"type": "text", "text": "Hi"},)),),
        "messages[0].blocks[0]: a value of type dict, expected an object of streamnorm",
    ),
    ((user(Text("Hi")),), "messages[0].blocks: expected `array`, got `object`"),
    ((user((Text(5),)),), "messages[0].blocks[0].text: expected `str`, got `int`"),  # type: ignore[arg-type]  # wrong on purpose
    (
        (user((Image("image/png", b"\x89PNG"),)),),  # type: ignore[arg-type]  # wrong on purpose
        "messages[0].blocks[0].data: expected `str | null`, got `bytes`",
    ),
    (
        (InputMessage("robot", (Text("Hi"),)),),  # type: ignore[arg-type]  # wrong on purpose
        "messages[0].role: invalid enum value 'robot'",
    ),
    (
        (ASKED, call({"city": "Oslo"})),
        "messages[1].blocks[0].arguments: expected `str`, got `object`",
    ),
    ((ASKED, CALLED, result("snow")), f"messages[2].blocks[0].content: {ARRAY}"),
    (
        (ASKED, CALLED, result(({"type": "text", "text": "snow"},))),
        "messages[2].blocks[0].content[0]: a value of type dict, expected an object of streamnorm",
    ),
    (
        ({"role": "user", "content": "Hi"},),
        "messages[0]: a value of type dict, expected an InputMessage",
    ),
]


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(("messages", "problem"), MESSAGES, ids=[text for _, text in MESSAGES])
def test_value_of_another_type_in_a_message_is_named(
    messages: tuple[Any, ...], problem: str, dialect: str
) -> None:
    with pytest.raises(EncodeError) as caught:
        encode_request(Request(model="m", messages=messages), dialect)
    assert str(caught.value) == problem


OPTIONS: list[tuple[dict[str, Any], str]] = [
    ({"messages": "Hi"}, "messages: a value of type str, expected a tuple"),
    ({"tools": {"name": "f"}}, "tools: a value of type dict, expected a tuple"),
    ({"tools": ({"name": "f"},)}, "tools[0]: a value of type dict, expected a Tool"),
    (
        {"tools": (Tool("f", "", "{}"),)},  # type: ignore[arg-type]  # wrong on purpose
        "tools[0].input_schema: expected `object | null`, got `str`",
    ),
    (
        {"tools": (Tool("f", {"type": "object"}),)},  # type: ignore[arg-type]  # wrong on purpose
        "tools[0].description: expected `str | null`, got `object`",
    ),
    (
        {"tools": (Tool("f", "", Request),)},  # type: ignore[arg-type]  # wrong on purpose
        "tools[0]: a value that JSON does not have, expected one of JSON",
    ),
    ({"system": "Be brief."}, f"system: {ARRAY}"),
    ({"stop": "END"}, f"stop: {ARRAY}"),
    ({"temperature": "0.5"}, "temperature: expected `int | float | null`, got `str`"),
    ({"model": None}, "model: expected `str`, got `null`"),
    (
        {"output": {"kind": "text"}},
        "output: a value of type dict, expected an object of streamnorm",
    ),
]


@pytest.mark.parametrize(("options", "problem"), OPTIONS, ids=[text for _, text in OPTIONS])
def test_value_of_another_type_in_a_request_is_named(options: dict[str, Any], problem: str) -> None:
    asked: dict[str, Any] = {"model": "m", "messages": (ASKED,)}
    for fails in (lambda it: encode_request(it, "anthropic"), Conversation):
        with pytest.raises(EncodeError) as caught:
            fails(Request(**(asked | options)))
        assert str(caught.value) == problem


@pytest.mark.parametrize("dialect", DIALECTS)
def test_lists_stand_for_tuples(dialect: str) -> None:
    said = [ASKED, CALLED, InputMessage("user", (ToolResult("c", (Text("1"),)),))]
    parts: dict[str, Any] = {
        "messages": said,
        "tools": [Tool("f", "", {"type": "object"})],
        "system": [Text("Be brief.")],
        "stop": ["END"],
    }
    output = OutputFormat("text")
    lists = Request(model="m", output=output, **parts)
    fixed: dict[str, Any] = {name: tuple(values) for name, values in parts.items()}
    tuples = Request(model="m", output=output, **fixed)
    expected = encode_request(tuples, dialect).body
    assert encode_request(lists, dialect).body == expected
    assert Conversation(lists).dump(dialect).body == expected


@pytest.mark.parametrize("position", range(len(MESSAGES)))
def test_conversation_gets_no_message_that_it_could_not_send(position: int) -> None:
    """What `to_json` writes, `from_json` reads."""
    *before, wrong = MESSAGES[position][0]
    if not isinstance(wrong, InputMessage):
        return
    chat = Conversation(Request(model="m", messages=tuple(before)))
    with pytest.raises(EncodeError) as caught:
        chat.append(wrong)
    assert str(caught.value) == MESSAGES[position][1]
    assert chat.messages == tuple(before)
    assert Conversation.from_json(chat.to_json()) == chat


def test_conversation_gets_no_result_that_it_could_not_send() -> None:
    chat = Conversation(Request(model="m"))
    chat.append(ASKED)
    chat.append(Message(blocks=(ToolCall("c", "f", "{}"),), stop_reason="tool_use"))
    with pytest.raises(EncodeError) as caught:
        chat.append_tool_result("c", {"snow": True})  # type: ignore[arg-type]  # wrong on purpose
    problem = "expected `object`, got `str`"
    assert str(caught.value) == f"messages[2].blocks[0].content[0]: {problem}"
    assert len(chat.open_tool_calls()) == 1


def test_decoded_message_is_checked_where_a_program_changes_it() -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
    request = decode_request(body, "openai_chat")
    chat = Conversation(request)
    assert chat.request is request
    (message,) = request.messages
    chat.append(message)
    with pytest.raises(EncodeError, match="expected `array`, got `str`"):
        chat.append(InputMessage("user", "Hi", source=message.source))  # type: ignore[arg-type]  # wrong on purpose
