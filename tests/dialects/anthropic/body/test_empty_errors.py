"""Results that are errors and have no content, which the API refuses."""

from __future__ import annotations

from typing import Any

import pytest

from streamnorm import (
    Audio,
    Conversation,
    Document,
    Encoded,
    InputMessage,
    Request,
    Text,
    ToolCall,
    ToolResult,
    decode_request,
    encode_request,
)
from streamnorm.tools import Tool
from streamnorm.validation import validate_request

FAILED = "The tool failed and returned no content."
ADDED = [("error_text_added", "a text says so")]
TOOL = Tool("f", "F.", {"type": "object", "properties": {}})
DOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"


def asked() -> Request:
    """Return a request whose last message calls a tool."""
    messages = (
        InputMessage("user", (Text("Hi"),)),
        InputMessage("assistant", (ToolCall("t1", "f", "{}"),)),
    )
    return Request(model="m", max_tokens=9, messages=messages, tools=(TOOL,))


def written(result: ToolResult) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """Return the block of a result, and what was lost."""
    chat = Conversation(asked())
    chat.append(InputMessage("user", (result,)))
    encoded = chat.dump("anthropic")
    assert validate_request(encoded.body, "anthropic") == []
    lost = [(loss.feature, loss.detail) for loss in encoded.losses]
    return encoded.body["messages"][2]["content"][0], lost


@pytest.mark.parametrize(
    ("result", "also_lost"),
    [
        (ToolResult("t1", (), is_error=True), []),
        (ToolResult("t1", (Text(""),), is_error=True), []),
        (ToolResult("t1", (Text(" \n"),), is_error=True), []),
        (ToolResult("t1", (Text(""), Text("")), is_error=True), []),
        (ToolResult.from_mcp({"content": [], "isError": True}, "t1"), []),
        (
            ToolResult("t1", (Audio("audio/wav", "aGk="),), is_error=True),
            [("audio_dropped", "dropped")],
        ),
        (
            ToolResult("t1", (Document(DOCX, "aGk="),), is_error=True),
            [("document_dropped", "a type it does not read")],
        ),
    ],
)
def test_an_error_without_content_gets_a_text(
    result: ToolResult, also_lost: list[tuple[str, str]]
) -> None:
    block, lost = written(result)
    assert block == {
        "type": "tool_result",
        "tool_use_id": "t1",
        "content": FAILED,
        "is_error": True,
    }
    assert lost == also_lost + ADDED


def test_an_error_with_a_text_and_a_success_without_one_stay() -> None:
    block, lost = written(ToolResult("t1", (Text("timeout"),), is_error=True))
    assert (block["content"], lost) == ("timeout", [])
    block, lost = written(ToolResult("t1", ()))
    assert ("content" in block, lost) == (False, [])


@pytest.mark.parametrize("content", ["", [], None])
def test_errors_of_own_clients_get_a_text_where_the_server_refuses_them(content: object) -> None:
    result = {"type": "tool_result", "tool_use_id": "t1", "is_error": True, "content": content}
    body = {
        "model": "claude-sonnet-4-5",
        "max_tokens": 9,
        "tools": [{"name": "f", "input_schema": {"type": "object"}}],
        "messages": [
            {"role": "user", "content": "Hi"},
            {
                "role": "assistant",
                "content": [{"type": "tool_use", "id": "t1", "name": "f", "input": {}}],
            },
            {"role": "user", "content": [result]},
        ],
    }

    def sent(server: str | None) -> Encoded:
        return encode_request(decode_request(body, "anthropic"), "anthropic", server=server)

    assert sent(None).body == body
    refused = sent("copilot")
    assert refused.body["messages"][2]["content"] == [{**result, "content": FAILED}]
    assert [(loss.feature, loss.detail) for loss in refused.losses] == ADDED
