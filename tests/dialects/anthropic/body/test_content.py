"""Content blocks of messages, in both directions."""

from __future__ import annotations

from typing import Any

import pytest
from support.anthropic.bodies import Body, block_in, read, rewritten, write

from streamnorm import (
    Audio,
    CacheMark,
    Citation,
    DecodeError,
    Document,
    EncodeError,
    InputMessage,
    OpaqueBlock,
    Reasoning,
    RedactedReasoning,
    Request,
    ServerToolCall,
    ServerToolResult,
    Text,
    ToolCall,
    ToolResult,
    translate_request,
)

FOUND: Body = {
    "type": "web_search_result_location",
    "url": "https://a.org",
    "title": "A",
    "cited_text": "rain",
    "encrypted_index": "Eo8C",
}
USE: Body = {"type": "tool_use", "id": "t1", "name": "f", "input": {"b": 1, "a": [2.5]}}
SERVER_USE: Body = {**USE, "type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search"}
SEARCHED: Body = {
    "type": "web_search_tool_result",
    "tool_use_id": "srvtoolu_1",
    "content": [{"type": "web_search_result", "url": "u", "title": "t", "encrypted_content": "E"}],
}

BLOCKS: list[tuple[Body, Any]] = [
    ({"type": "text", "text": "Hi"}, Text("Hi")),
    (
        {"type": "text", "text": "It rains", "citations": [FOUND]},
        Text(
            "It rains",
            (
                Citation(
                    "web_search_result_location",
                    url="https://a.org",
                    title="A",
                    cited_text="rain",
                    extra={"encrypted_index": "Eo8C"},
                ),
            ),
        ),
    ),
    (
        {"type": "thinking", "thinking": "Well", "signature": "EqQB"},
        Reasoning(("Well",), "EqQB", "anthropic"),
    ),
    (
        {"type": "thinking", "thinking": "", "signature": "EqQB"},
        Reasoning((), "EqQB", "anthropic"),
    ),
    ({"type": "redacted_thinking", "data": "Ag"}, RedactedReasoning("Ag", "anthropic")),
    (USE, ToolCall("t1", "f", '{"b":1,"a":[2.5]}')),
    ({**USE, "input": {}}, ToolCall("t1", "f", "{}")),
    (
        {**USE, "caller": {"type": "direct"}},
        ToolCall(
            "t1", "f", '{"b":1,"a":[2.5]}', extra={"anthropic": {"caller": {"type": "direct"}}}
        ),
    ),
    (
        SERVER_USE,
        ServerToolCall("srvtoolu_1", "web_search", '{"b":1,"a":[2.5]}', "server_tool_use"),
    ),
    (
        {**SERVER_USE, "type": "mcp_tool_use", "server_name": "wiki"},
        ServerToolCall(
            "srvtoolu_1",
            "web_search",
            '{"b":1,"a":[2.5]}',
            "mcp_tool_use",
            extra={"anthropic": {"server_name": "wiki"}},
        ),
    ),
    (SEARCHED, ServerToolResult("srvtoolu_1", "web_search_tool_result", SEARCHED["content"])),
    (
        {"type": "mcp_tool_result", "tool_use_id": "m", "is_error": False, "content": "ok"},
        ServerToolResult("m", "mcp_tool_result", "ok"),
    ),
    (
        {"type": "mcp_tool_result", "tool_use_id": "m", "is_error": True, "content": "no"},
        ServerToolResult("m", "mcp_tool_result", "no", is_error=True),
    ),
    (
        {"type": "new_tool_result", "tool_use_id": "m", "is_error": True, "content": "no"},
        ServerToolResult("m", "new_tool_result", "no", is_error=True),
    ),
    ({"type": "tool_result", "tool_use_id": "t1"}, ToolResult("t1")),
    (
        {"type": "tool_result", "tool_use_id": "t1", "content": "18 °C"},
        ToolResult("t1", (Text("18 °C"),)),
    ),
    (
        {"type": "tool_result", "tool_use_id": "t1", "content": "timeout", "is_error": True},
        ToolResult("t1", (Text("timeout"),), is_error=True),
    ),
    (
        {
            "type": "tool_result",
            "tool_use_id": "t1",
            "content": [
                {"type": "text", "text": "a"},
                {"type": "tool_reference", "tool_name": "f"},
            ],
            "toolset_name": "browser",
        },
        ToolResult(
            "t1",
            (
                Text("a"),
                OpaqueBlock(
                    "anthropic", "tool_reference", '{"type":"tool_reference","tool_name":"f"}'
                ),
            ),
            extra={"anthropic": {"toolset_name": "browser"}},
        ),
    ),
    (
        {"type": "container_upload", "file_id": "file_1"},
        OpaqueBlock(
            "anthropic", "container_upload", '{"type":"container_upload","file_id":"file_1"}'
        ),
    ),
]


@pytest.mark.parametrize(("block", "expected"), BLOCKS)
def test_block_is_read_and_written_again(block: Body, expected: Any) -> None:
    assert block_in(block, "assistant") == expected
    before: Body = {"type": "text", "text": "a"}  # beside which no text is written as a string
    body = rewritten(messages=[{"role": "assistant", "content": [before, block]}])
    assert body["messages"][0]["content"][1] == block


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        ({"type": "tool_result", "tool_use_id": "t1", "content": ""}, ToolResult("t1")),
        ({"type": "tool_result", "tool_use_id": "t1", "content": []}, ToolResult("t1")),
        ({**USE, "input": '{"a": 1}'}, ToolCall("t1", "f", '{"a": 1}')),
        ({**USE, "input": None}, ToolCall("t1", "f", "{}")),
        ({"type": "thinking", "thinking": "Well"}, Reasoning(("Well",))),
        (
            {"type": "text", "text": "a", "citations": None},
            Text("a", extra={"anthropic": {"citations": None}}),
        ),
    ],
)
def test_what_clients_send_beyond_the_types_is_read(block: Body, expected: Any) -> None:
    assert block_in(block, "assistant") == expected


@pytest.mark.parametrize("block", [block for block, _ in BLOCKS if block["type"] != "thinking"])
@pytest.mark.parametrize("ttl", [None, "1h"])
def test_mark_of_a_block_is_read_and_written_again(block: Body, ttl: str | None) -> None:
    mark = {"type": "ephemeral"} if ttl is None else {"type": "ephemeral", "ttl": ttl}
    marked = {**block, "cache_control": mark}
    assert block_in(marked).cache == CacheMark(ttl)
    assert block_in(marked).extra == block_in(block).extra
    body = rewritten(messages=[{"role": "user", "content": [marked]}])
    assert body["messages"][0]["content"] == [marked]


def test_tagged_signature_is_that_of_its_issuer() -> None:
    block = {"type": "thinking", "thinking": "", "signature": "sn1.openai.gAAAA"}
    assert block_in(block, "assistant") == Reasoning((), "gAAAA", "openai")


def test_escaped_id_is_the_id_of_another_dialect() -> None:
    call = {**USE, "id": "snid_functions_2ef_3a0"}
    result = {"type": "tool_result", "tool_use_id": "snid_functions_2ef_3a0"}
    assert block_in(call, "assistant").id == "functions.f:0"
    assert block_in(result).tool_call_id == "functions.f:0"
    body = rewritten(
        messages=[
            {"role": "assistant", "content": [call]},
            {"role": "user", "content": [result]},
        ]
    )
    assert [message["content"] for message in body["messages"]] == [[call], [result]]


def test_id_of_another_dialect_comes_back_as_it_was() -> None:
    messages = [
        {
            "role": "assistant",
            "tool_calls": [
                {"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}}
                for id in ("functions.f:0", "snid_f", "call_1")
            ],
        },
        *(
            {"role": "tool", "tool_call_id": id, "content": "1"}
            for id in ("functions.f:0", "snid_f", "call_1")
        ),
    ]
    there = translate_request(
        {"model": "m", "messages": [{"role": "user", "content": "a"}, *messages]},
        to="anthropic",
        dialect="openai_chat",
    )
    ids = [block["id"] for block in there.body["messages"][1]["content"]]
    assert ids == ["snid_functions_2ef_3a0", "snid_snid_5ff", "call_1"]
    back = translate_request(there.body, to="openai_chat", dialect="anthropic")
    assert back.body["messages"][1:] == messages


def test_arguments_keep_order_numbers_and_characters() -> None:
    arguments = '{"z":12345678901234567890,"a":1.50,"é":"\\u2028😀"}'
    request = Request(messages=(InputMessage("assistant", (ToolCall("c", "f", arguments),)),))
    (use,) = write(request).body["messages"][0]["content"]
    assert list(use["input"].items()) == [
        *(("z", 12345678901234567890), ("a", 1.5), ("é", "\u2028😀")),
    ]


@pytest.mark.parametrize(
    ("content", "written"),
    [
        ((), {}),
        ((Text(""),), {"content": ""}),
        ((Text(" "), Text("")), {}),
        ((Text(""), Text("a")), {"content": [{"type": "text", "text": "a"}]}),
        (
            (Text("\n"), Text("a"), Text("b")),
            {"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        ),
        ((Document("application/zip", "UEsD"),), {}),
        ((Text(""), Document("application/zip", "UEsD")), {}),
    ],
)
def test_a_result_has_no_empty_array_and_no_blank_block(
    content: tuple[Any, ...], written: Body
) -> None:
    """Anthropic refuses both (bodies.md, section 4, rules 3 and 6)."""
    body = write(Request(messages=(InputMessage("user", (ToolResult("t1", content),)),))).body
    assert body["messages"][0]["content"] == [
        {"type": "tool_result", "tool_use_id": "t1", **written}
    ]


def test_arguments_that_are_no_object_are_refused_with_their_path() -> None:
    message = InputMessage("assistant", (Text("a"), ToolCall("c", "f", "[1]")))
    with pytest.raises(EncodeError) as error:
        write(Request(messages=(InputMessage("user", (Text("a"),)), message)))
    assert error.value.path == "messages[1].blocks[1]"


def test_block_of_no_dialect_does_not_pass_the_projection() -> None:
    with pytest.raises(AssertionError, match="Audio passed"):
        write(Request(messages=(InputMessage("user", (Audio("audio/wav", "UklG"),)),)))


@pytest.mark.parametrize(
    ("block", "path", "message"),
    [
        ("a", "", "a string of 1 characters, expected an object"),
        ({}, ".type", "missing, expected a string"),
        ({"type": ["text"]}, ".type", "expected a string"),
        ({"type": "text"}, ".text", "missing, expected a string"),
        ({"type": "text", "text": None}, ".text", "null, expected a string"),
        ({"type": "text", "text": "a", "citations": 1}, ".citations", "expected an array"),
        ({"type": "text", "text": "a", "citations": [1]}, ".citations[0]", "expected an object"),
        ({"type": "text", "text": "a", "cache_control": 1}, ".cache_control", "an object"),
        (
            {"type": "text", "text": "a", "cache_control": {"type": "ephemeral", "ttl": 5}},
            ".cache_control.ttl",
            "a string",
        ),
        ({"type": "thinking"}, ".thinking", "missing, expected a string"),
        ({"type": "thinking", "thinking": "", "signature": 1}, ".signature", "a string"),
        ({"type": "redacted_thinking"}, ".data", "missing, expected a string"),
        ({"type": "tool_use", "id": "a"}, ".name", "missing, expected a string"),
        ({"type": "server_tool_use", "name": "a"}, ".id", "missing, expected a string"),
        ({"type": "tool_result"}, ".tool_use_id", "missing, expected a string"),
        ({"type": "web_search_tool_result"}, ".tool_use_id", "missing, expected a string"),
        ({"type": "tool_result", "tool_use_id": "a", "is_error": 1}, ".is_error", "a boolean"),
        ({"type": "tool_result", "tool_use_id": "a", "content": 1}, ".content", "or an array"),
        (
            {"type": "tool_result", "tool_use_id": "a", "content": [{"type": "text"}]},
            ".content[0].text",
            "missing, expected a string",
        ),
    ],
)
def test_broken_block_is_refused_with_its_path(block: object, path: str, message: str) -> None:
    with pytest.raises(DecodeError) as error:
        read(messages=[{"role": "user", "content": [{"type": "text", "text": "a"}, block]}])
    assert error.value.path == f"$.messages[0].content[1]{path}"
    assert message in str(error.value)
