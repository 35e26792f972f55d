"""Results that are errors and have no content, which the API refuses."""

from __future__ import annotations

import pytest

from streamnorm import Audio, InputMessage, Request, Text, ToolCall, ToolResult, encode_request
from streamnorm.tools import Tool
from streamnorm.validation import validate_request

FAILED = {"text": "The tool failed and returned no content."}


@pytest.mark.parametrize(
    ("result", "content", "lost"),
    [
        (ToolResult("t1", (), is_error=True), [FAILED], ["error_text_added"]),
        (ToolResult("t1", (Text(""),), is_error=True), [FAILED], ["error_text_added"]),
        (
            ToolResult("t1", (Audio("audio/wav", "aGk="),), is_error=True),
            [FAILED],
            ["audio_dropped", "error_text_added"],
        ),
        (ToolResult("t1", (Text("timeout"),), is_error=True), [{"text": "timeout"}], []),
        (ToolResult("t1", (), is_error=True, value='{"a":1}'), [{"json": {"a": 1}}], []),
        (ToolResult("t1", (Text(""),)), [{"text": ""}], []),
    ],
)
def test_an_error_has_content(result: ToolResult, content: list[object], lost: list[str]) -> None:
    asked = Request(
        model="anthropic.claude-sonnet-4-5-20250929-v1:0",
        tools=(Tool("f", "F.", {"type": "object", "properties": {}}),),
        messages=(
            InputMessage("user", (Text("Hi"),)),
            InputMessage("assistant", (ToolCall("t1", "f", "{}"),)),
            InputMessage("user", (result,)),
        ),
    )
    encoded = encode_request(asked, "bedrock_converse")
    assert encoded.body["messages"][2]["content"][0]["toolResult"]["content"] == content
    assert [loss.feature for loss in encoded.losses] == lost
    assert validate_request(encoded.body, "bedrock_converse", model=asked.model) == []
