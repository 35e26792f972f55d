"""Whole responses, in both directions."""

from __future__ import annotations

from typing import Any

import pytest
from anthropic.types.beta import BetaMessage
from msgspec import structs

from streamnorm import (
    BlockStart,
    BlockStop,
    Citation,
    DecodeError,
    EncodeError,
    JSONDelta,
    Limits,
    Loss,
    Message,
    MessageStart,
    MessageStop,
    OpaqueBlock,
    Reasoning,
    RedactedReasoning,
    Refusal,
    ServerToolCall,
    ServerToolResult,
    StreamError,
    Text,
    TextDelta,
    ToolCall,
    Usage,
    UsageUpdate,
    accumulate,
    decode_message,
    encode_message,
)
from streamnorm._core.codec import ReadContext
from streamnorm._core.losses import Losses
from streamnorm.dialects.anthropic.body.response import read_response, write_response

Body = dict[str, Any]

USAGE: Body = {
    "input_tokens": 30,
    "cache_creation_input_tokens": 0,
    "cache_read_input_tokens": 100,
    "output_tokens": 40,
}
SEARCHED = [{"type": "web_search_result", "url": "u", "title": "t", "encrypted_content": "E"}]
CITED: Body = {
    "type": "web_search_result_location",
    "url": "u",
    "title": "t",
    "cited_text": "rain",
    "encrypted_index": "Eo8C",
}
CONTENT: list[tuple[Body, Any]] = [
    (
        {"type": "thinking", "thinking": "Well", "signature": "EqQB"},
        Reasoning(("Well",), "EqQB", "anthropic"),
    ),
    ({"type": "redacted_thinking", "data": "Ag"}, RedactedReasoning("Ag", "anthropic")),
    (
        {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "a"}},
        ServerToolCall("s1", "web_search", '{"query":"a"}', "server_tool_use"),
    ),
    (
        {"type": "web_search_tool_result", "tool_use_id": "s1", "content": SEARCHED},
        ServerToolResult("s1", "web_search_tool_result", SEARCHED),
    ),
    (
        {"type": "text", "text": "It rains", "citations": [CITED]},
        Text(
            "It rains",
            (
                Citation(
                    "web_search_result_location",
                    "u",
                    "t",
                    "rain",
                    extra={"encrypted_index": "Eo8C"},
                ),
            ),
        ),
    ),
    (
        {"type": "container_upload", "file_id": "file_1"},
        OpaqueBlock(
            "anthropic", "container_upload", '{"type":"container_upload","file_id":"file_1"}'
        ),
    ),
    ({"type": "text", "text": "Hi"}, Text("Hi")),
    (
        {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"t": 1}},
        ToolCall("toolu_1", "f", '{"t":1}'),
    ),
    (
        {"type": "tool_use", "id": "snid_a_2eb", "name": "f", "input": {}},
        ToolCall("a.b", "f"),
    ),
]
MESSAGE = Message(
    "msg_1",
    "claude-1",
    tuple(block for _, block in CONTENT),
    "tool_use",
    "tool_use",
    usage=Usage(130, 40, 100, 0),
)


def answered(**fields: Any) -> Body:
    """Return a response with some fields."""
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-1",
        "content": [],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": USAGE,
        **fields,
    }


def read(**fields: Any) -> Message:
    """Return the message that a response with some fields is."""
    return accumulate(read_response(answered(**fields), ReadContext()))


def write(message: Message) -> tuple[Body, list[Loss]]:
    """Return a message as a response that the SDK accepts, and the losses."""
    losses = Losses()
    body = write_response(message, 1.0, losses)
    BetaMessage.model_validate(body, strict=True)
    return body, list(losses.list())


def test_response_is_read_and_written_again() -> None:
    content = [block for block, _ in CONTENT]
    body = answered(content=content, stop_reason="tool_use")
    assert accumulate(read_response(body, ReadContext())) == MESSAGE
    assert write(MESSAGE) == (body, [])


def test_events_are_those_of_a_stream() -> None:
    content = [block for block, _ in CONTENT[-3:-1]]
    assert read_response(answered(content=content), ReadContext()) == [
        MessageStart("msg_1", "claude-1"),
        UsageUpdate(Usage(130, 40, 100, 0)),
        *(BlockStart(0, Text()), TextDelta(0, "Hi"), BlockStop(0)),
        *(
            BlockStart(1, ToolCall("toolu_1", "f")),
            JSONDelta(1, '{"t":1}'),
            BlockStop(1),
        ),
        MessageStop("tool_use", "end_turn"),
    ]


def test_call_without_an_id_gets_one() -> None:
    (call,) = read(content=[{"type": "tool_use", "name": "f", "input": {}}]).blocks
    assert isinstance(call, ToolCall)
    assert call.id.startswith("call_")


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"stop_reason": "max_tokens"}, {"stop_reason": "max_tokens"}),
        (
            {"stop_reason": "stop_sequence", "stop_sequence": "END"},
            {"stop_reason": "stop_sequence", "stop_sequence": "END"},
        ),
        ({"stop_reason": None}, {"stop_reason": "end_turn", "raw_stop_reason": None}),
        (
            {"stop_reason": "refusal", "stop_details": {"type": "refusal", "category": "cyber"}},
            {
                "stop_reason": "refusal",
                "stop_extra": {"stop_details": {"type": "refusal", "category": "cyber"}},
            },
        ),
        # In a stream the event with the stop reason has these fields.
        (
            {"container": {"id": "c"}, "context_management": {"applied_edits": []}},
            {
                "stop_extra": {
                    "container": {"id": "c"},
                    "context_management": {"applied_edits": []},
                }
            },
        ),
        (
            {"diagnostics": {"cache_miss_reason": None}, "container": None},
            {"extra": {"diagnostics": {"cache_miss_reason": None}}},
        ),
        ({"usage": None}, {"usage": Usage()}),
        (
            {"usage": {"output_tokens": 1, "service_tier": "priority"}},
            {"usage": Usage(output_tokens=1, extra={"service_tier": "priority"})},
        ),
        ({"id": None, "model": None}, {"id": "", "model": ""}),
    ],
)
def test_field_is_read(fields: Body, expected: dict[str, Any]) -> None:
    plain = Message("msg_1", "claude-1", (), "end_turn", "end_turn", usage=Usage(130, 40, 100, 0))
    expected = {"raw_stop_reason": expected.get("stop_reason", "end_turn"), **expected}
    assert read(**fields) == structs.replace(plain, **expected)


def test_signature_is_that_of_the_server() -> None:
    body = answered(content=[{"type": "thinking", "thinking": "a", "signature": "s"}])
    message = accumulate(read_response(body, ReadContext(server="deepseek")))
    assert message.blocks == (Reasoning(("a",), "s", "deepseek"),)


def test_error_is_the_only_event() -> None:
    error = {"type": "overloaded_error", "message": "Overloaded"}
    body = {"type": "error", "error": error, "request_id": "req_1"}
    assert read_response(body, ReadContext()) == [
        StreamError(
            "upstream",
            "Overloaded",
            "overloaded_error",
            529,
            retryable=True,
            extra={"request_id": "req_1"},
        )
    ]


@pytest.mark.parametrize(
    ("fields", "path", "reason"),
    [
        ({"type": "completion"}, "$.type", "no message, expected a type that says so"),
        ({"content": None}, "$.content", "missing, expected an array"),
        ({"content": "a"}, "$.content", "expected an array"),
        ({"content": ["a"]}, "$.content[0]", "expected an object"),
        ({"content": [{"text": "a"}]}, "$.content[0]", "content block without a type"),
        ({"content": [{"type": "tool_use"}]}, "$.content[0]", "tool_use lacks a field"),
        ({"id": 1}, "$.id", "expected a string"),
        ({"model": "m" * 600}, "$", "max_id_chars of 512 passed"),
        ({"usage": 1}, "$.usage", "expected an object"),
        (
            {"content": [CONTENT[-2][0], CONTENT[-2][0]]},
            "$.content[1]",
            "second call of one id, expected another id",
        ),
    ],
)
def test_broken_response_is_refused_with_its_path(fields: Body, path: str, reason: str) -> None:
    with pytest.raises(DecodeError, match=reason) as error:
        read_response(answered(**fields), ReadContext())
    assert error.value.path == path


def test_bounds_are_those_of_a_stream() -> None:
    content = [{"type": "text", "text": "a"}] * 3
    with pytest.raises(DecodeError, match="max_blocks of 2 passed") as error:
        read_response(answered(content=content), ReadContext(limits=Limits(max_blocks=2)))
    assert error.value.path == "$.content[2]"


def test_unfinished_message_has_no_response() -> None:
    with pytest.raises(EncodeError, match="message without a stop reason") as error:
        write(structs.replace(MESSAGE, stop_reason=None))
    assert error.value.path == "stop_reason"


def test_refusal_is_text_with_details() -> None:
    usage = Usage(1, 2)
    message = Message("m", "claude-1", (Refusal("I cannot"),), "end_turn", "stop", usage=usage)
    body, losses = write(message)
    assert body["content"] == [{"type": "text", "text": "I cannot"}]
    assert body["stop_reason"] == "refusal"
    assert body["stop_details"] == {"type": "refusal", "category": None, "explanation": None}
    assert losses == [Loss("refusal", "block", detail="written as text")]


def test_unsigned_and_foreign_reasoning_is_thinking() -> None:
    blocks = (Reasoning(("a", "b")), Reasoning((), "gAAAA", "openai"))
    body, losses = write(structs.replace(MESSAGE, blocks=blocks))
    assert body["content"] == [
        {"type": "thinking", "thinking": "a\n\nb", "signature": ""},
        {"type": "thinking", "thinking": "", "signature": "sn1.openai.gAAAA"},
    ]
    assert [loss.feature for loss in losses] == ["reasoning_parts"]


def test_signed_call_is_preceded_by_its_signature() -> None:
    call = ToolCall("c", "f", '{"a":1}', signature="Cs", issuer="google")
    body, _ = write(structs.replace(MESSAGE, blocks=(call,)))
    assert body["content"] == [
        {"type": "thinking", "thinking": "", "signature": "sn1..sn1-of.c.google.Cs"},
        {"type": "tool_use", "id": "c", "name": "f", "input": {"a": 1}},
    ]


def test_custom_call_is_wrapped() -> None:
    call = ToolCall("c", "patch", '*** "x"\n', kind="custom")
    body, losses = write(structs.replace(MESSAGE, blocks=(call,)))
    assert body["content"] == [
        {"type": "tool_use", "id": "c", "name": "patch", "input": {"input": '*** "x"\n'}}
    ]
    assert [loss.feature for loss in losses] == ["custom_tool"]


def test_arguments_keep_order_and_numbers() -> None:
    call = ToolCall("c", "f", ' {"z": 12345678901234567890, "a": 1.5}\n')
    body, _ = write(structs.replace(MESSAGE, blocks=(call,)))
    (use,) = body["content"]
    assert list(use["input"].items()) == [("z", 12345678901234567890), ("a", 1.5)]


def test_call_that_was_cut_short_is_dropped() -> None:
    blocks = (Text("a"), ToolCall("c", "f", '{"a":'), Text("b"))
    message = structs.replace(MESSAGE, blocks=blocks, stop_reason="max_tokens")
    body, losses = write(message)
    assert [block["text"] for block in body["content"]] == ["a", "b"]
    assert losses == [Loss("broken_arguments", "ToolCall", detail="call dropped")]


def test_call_with_broken_arguments_has_no_response() -> None:
    message = structs.replace(MESSAGE, blocks=(ToolCall("c", "f", '{"a":'),))
    with pytest.raises(EncodeError, match="call with broken arguments") as error:
        write(message)
    assert error.value.path == "blocks"


@pytest.mark.parametrize(
    ("fields", "tier"),
    [
        ({"extra": {"service_tier": "default"}}, "standard"),
        ({"stop_extra": {"service_tier": "priority"}}, "priority"),
        ({"usage": Usage(1, 2, extra={"service_tier": "batch"})}, "batch"),
        ({"extra": {"service_tier": 1}}, None),
        ({"extra": {"service_tier": "flex"}}, None),
        ({}, None),
    ],
)
def test_service_tier_is_that_of_the_usage(fields: dict[str, Any], tier: str | None) -> None:
    body, _ = write(structs.replace(MESSAGE, **fields))
    assert body["usage"].get("service_tier") == tier


def test_blank_text_is_not_written() -> None:
    body, losses = write(structs.replace(MESSAGE, blocks=(Text("\n\n"), Text("a"))))
    assert body["content"] == [{"type": "text", "text": "a"}]
    assert losses == [Loss("whitespace_text", "block", detail="dropped")]


def test_own_answer_loses_nothing_under_another_model() -> None:
    body: Body = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude",
        "content": [
            {
                "type": "mcp_tool_use",
                "id": "mcptoolu_1",
                "name": "ask",
                "server_name": "dice",
                "input": {},
            },
            {
                "type": "tool_use",
                "id": "toolu_1",
                "name": "f",
                "input": {"t": 1},
                "caller": {"type": "code_execution_20260120", "tool_id": "srvtoolu_1"},
            },
        ],
        "stop_reason": "tool_use",
        "stop_sequence": None,
        "stop_details": None,
        "container": {"id": "container_1", "expires_at": "2026-11-23T00:00:00Z"},
        "usage": {
            **USAGE,
            "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0},
            "service_tier": "standard",
            "inference_geo": "us",
        },
    }
    message = decode_message(body, "anthropic")
    assert encode_message(message, "anthropic").body == body
    encoded = encode_message(message, "anthropic", model="mine", created=7.0)
    assert encoded.body == {**body, "model": "mine"}
    assert encoded.losses == ()
