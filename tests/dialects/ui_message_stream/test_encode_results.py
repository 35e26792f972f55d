"""Results of calls as the encoder writes them, each behind a call that the client knows."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs
from support.ui_message_stream.chunks import START, middle

from streamnorm import (
    BlockStart,
    BlockStop,
    JSONDelta,
    ServerToolCall,
    ServerToolResult,
    Text,
    ToolCall,
    ToolResult,
)
from streamnorm._core.codec import RunEncoder
from streamnorm.codec import encoder
from streamnorm.dialects.ui_message_stream.content import server_error_from_wire


def test_result_of_the_provider_that_clients_refuse_is_a_success_with_its_text() -> None:
    """The AI SDK refuses the whole chunk for such a key (`secure-json-parse.ts`)."""
    block = ServerToolResult("s", "web_search", {"a": [{"__proto__": 1}]})
    last = middle(BlockStart(0, block), BlockStop(0))[-1]
    assert (last["type"], last["providerExecuted"]) == ("tool-output-available", True)
    assert last["output"] == '{"a":[{"__proto__":1}]}'


SEARCH_ERROR = {"type": "web_search_tool_result_error", "error_code": "max_uses_exceeded"}


def test_failed_result_of_the_provider_is_an_output_error() -> None:
    """The AI SDK writes an error of the provider that is no text as JSON, too."""
    call = [BlockStart(0, ServerToolCall("s", "web_search")), BlockStop(0)]
    block = ServerToolResult("s", "web_search", SEARCH_ERROR, is_error=True)
    chunk = middle(*call, BlockStart(1, block), BlockStop(1))[-1]
    assert chunk == {
        "type": "tool-output-error",
        "toolCallId": "s",
        "providerExecuted": True,
        "errorText": '{"type":"web_search_tool_result_error","error_code":"max_uses_exceeded"}',
    }


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("no", "no"),
        ([{"type": "text", "text": "no"}], '[{"type":"text","text":"no"}]'),
        ({"__proto__": "no"}, '{"__proto__":"no"}'),  # a text has no keys
    ],
)
def test_failed_result_of_an_mcp_server_is_an_output_error(content: object, text: str) -> None:
    block = ServerToolResult("s", "mcp_tool_result", content, is_error=True)
    chunk = middle(BlockStart(0, block), BlockStop(0))[-1]
    assert (chunk["type"], chunk["errorText"]) == ("tool-output-error", text)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ({"a": 1}, '{"a":1}'),
        ('{"a":1}', r'"{\"a\":1}"'),
        (r'"{\"a\":1}"', r'"\"{\\\"a\\\":1}\""'),
        ('{"a": 1}', '{"a": 1}'),
        ('"no"', '"no"'),
        ("[1", "[1"),
    ],
)
def test_error_of_the_provider_comes_back_as_it_was(content: object, text: str) -> None:
    block = ServerToolResult("s", "mcp_tool_result", content, is_error=True)
    assert middle(BlockStart(0, block), BlockStop(0))[-1]["errorText"] == text
    assert server_error_from_wire(text) == content


def test_result_of_an_unknown_call_follows_a_call_which_the_client_needs() -> None:
    result = ServerToolResult("s", "web_search_tool_result", [{"url": "u"}])
    assert middle(BlockStart(0, result), BlockStop(0)) == [
        {
            "type": "tool-input-available",
            "toolCallId": "s",
            "toolName": "web_search_tool_result",
            "providerExecuted": True,
            "input": {},
        },
        {
            "type": "tool-output-available",
            "toolCallId": "s",
            "output": [{"url": "u"}],
            "providerExecuted": True,
        },
    ]


@pytest.mark.parametrize(
    ("result", "fields"),
    [
        (ToolResult("c", (Text("ok"),)), {"output": "ok"}),
        (ToolResult("c", (Text("{}"),), value='{"a":\n1}'), {"output": {"a": 1}}),
        (ToolResult("c", (Text("x"),), value='{"__proto__":1}'), {"output": "x"}),
    ],
)
def test_result_of_a_tool_of_the_application(result: ToolResult, fields: dict[str, Any]) -> None:
    chunk = {"type": "tool-output-available", "toolCallId": "c", **fields}
    start = [BlockStart(0, ToolCall("c", "f")), BlockStop(0)]
    assert middle(*start, BlockStart(1, result), BlockStop(1))[2:] == [chunk]


@pytest.mark.parametrize(
    ("call", "result"),
    [
        (ServerToolCall("c", "f"), ServerToolResult("c", "f_result", [1])),
        (ToolCall("c", "f"), ToolResult("c", (Text("1"),))),
    ],
)
@pytest.mark.parametrize("arguments", ["", '{"a":1}'])
def test_result_of_an_open_call_follows_the_input_of_the_call(
    call: ToolCall | ServerToolCall, result: ToolResult | ServerToolResult, arguments: str
) -> None:
    """`useChat` would show the call as not yet answered if its input came last."""
    interleaved = middle(
        *(BlockStart(0, call), BlockStart(1, result), BlockStop(1)),
        *(JSONDelta(0, arguments), BlockStop(0)),
    )
    in_turn = middle(
        *(BlockStart(0, call), JSONDelta(0, arguments), BlockStop(0)),
        *(BlockStart(1, result), BlockStop(1)),
    )
    assert [chunk["type"] for chunk in in_turn] == [
        "tool-input-start",
        "tool-input-delta",
        "tool-input-available",
        "tool-output-available",
    ]
    assert interleaved == in_turn


def test_failed_result_is_an_output_error() -> None:
    block = ToolResult("c", (Text("no"),), is_error=True)
    assert middle(BlockStart(0, block), BlockStop(0))[1:] == [
        {"type": "tool-output-error", "toolCallId": "c", "errorText": "no"}
    ]


def test_rule_10_message_that_is_continued_keeps_its_id_and_its_calls() -> None:
    writer = encoder("ui_message_stream")
    writer.response_fields = {"messageId": "page-1"}
    assert b'"messageId":"page-1"' in writer.encode(START)
    result = BlockStart(0, ToolResult("c", (Text("done"),)))
    assert writer.encode(result).count(b"data: ") == 1
    # A result of the provider's tool seldom is of an answer before.
    writer.encode(BlockStop(0))
    assert writer.encode(BlockStart(1, ServerToolResult("s", "k"))).count(b"data: ") == 2


def test_message_that_is_continued_has_the_calls_of_its_page() -> None:
    """OpenAI's results of a shell name an id that their call has beside its own."""
    for result in (ToolResult("c"), ServerToolResult("c", "k")):
        writer = encoder("ui_message_stream")
        assert isinstance(writer, RunEncoder)
        writer.earlier_calls = {"of-the-message": True, "before-it": False}
        writer.encode(START)
        for number, (id, chunks) in enumerate(
            [("of-the-message", 1), ("before-it", 2), ("unknown", 2), ("unknown", 1)]
        ):
            block = structs.replace(result, tool_call_id=id)
            written = writer.encode(BlockStart(number, block))
            assert written.count(b"data: ") == chunks, id
            writer.encode(BlockStop(number))


def test_call_of_a_result_without_a_kind_has_a_name() -> None:
    for result in (ToolResult("c"), ServerToolResult("c", "")):
        assert middle(BlockStart(0, result), BlockStop(0))[0]["toolName"] == "tool"
