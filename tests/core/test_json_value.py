"""JSON text of blocks: its value, or an error of ours."""

from __future__ import annotations

import pytest

from streamnorm import (
    EncodeError,
    InputMessage,
    OpaqueBlock,
    Request,
    ServerToolCall,
    Text,
    ToolCall,
    ToolResult,
    encode_request,
)
from streamnorm._core.blocks import InputBlock
from streamnorm._core.bodies.request import Role, Source
from streamnorm._core.json import json_value


def test_text_is_its_value() -> None:
    assert json_value('{"n":12345678901234567890123}', "value") == {"n": 12345678901234567890123}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("x" * 8, "value of 8 characters: no JSON in 8 characters, expected JSON"),
        ("[" * 200 + "]" * 200, "value of 400 characters: nested deeper than 128, expected JSON"),
    ],
)
def test_text_that_is_no_json_is_an_error_that_does_not_quote_it(text: str, problem: str) -> None:
    with pytest.raises(EncodeError) as caught:
        json_value(text, "value", "blocks[1]")
    assert caught.value.args[0] == problem
    assert caught.value.path == "blocks[1]"


@pytest.mark.parametrize(
    ("dialect", "block", "path"),
    [
        ("gemini", ServerToolCall("s", "search", "{", "toolCall"), "messages[1].blocks[1]"),
        ("gemini", OpaqueBlock("gemini", "newData", "{"), "messages[1].blocks[1]"),
        ("anthropic", OpaqueBlock("anthropic", "new", "{"), "messages[1].blocks[1]"),
        ("openai_chat", OpaqueBlock("openai_chat", "new", "{"), "messages[1]"),
    ],
)
def test_a_block_without_json_has_no_legal_form(dialect: str, block: InputBlock, path: str) -> None:
    role: Role = "user" if dialect == "openai_chat" else "assistant"
    source = Source(dialect, None, InputMessage(role))
    message = InputMessage(role, (Text("b"), block), source=source)
    request = Request(messages=(InputMessage("user", (Text("a"),)), message))
    with pytest.raises(EncodeError, match="of 1 characters: no JSON in 1 characters") as caught:
        encode_request(request, dialect)
    assert caught.value.path == path


@pytest.mark.parametrize(
    "result",
    [
        ToolResult("c", (Text("18"),), value="18 °C"),
        ToolResult("c", (OpaqueBlock("gemini", "newData", "{"),)),
    ],
)
def test_a_result_without_json_has_no_legal_form_in_gemini(result: ToolResult) -> None:
    call = InputMessage("assistant", (ToolCall("c", "f"),))
    messages = (InputMessage("user", (Text("a"),)), call, InputMessage("user", (result,)))
    with pytest.raises(EncodeError, match="no JSON") as caught:
        encode_request(Request(messages=messages), "gemini")
    assert caught.value.path == "messages[2].blocks[0]"


@pytest.mark.parametrize(
    "result",
    [
        ToolResult("c", (Text("18"),), value="18 °C"),
        ToolResult("c", (OpaqueBlock("mcp", "new", "{"),)),
    ],
)
def test_a_result_without_json_has_no_form_in_mcp(result: ToolResult) -> None:
    with pytest.raises(EncodeError, match="no JSON"):
        result.to_mcp()
