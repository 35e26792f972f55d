"""Whole responses, read as the stream of the same answer would be."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from streamnorm import (
    Citation,
    DecodeError,
    Limits,
    Message,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    UpstreamError,
    Usage,
    accumulate,
    decode_message,
)
from streamnorm._core.codec import ReadContext
from streamnorm.dialects.openai_chat.body import CODEC

CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"t":1}'}}


def response(message: dict[str, Any], finish: str | None = "stop", **fields: Any) -> dict[str, Any]:
    """Return a response with one choice."""
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1700000000,
        "model": "m",
        "choices": [choice],
        **fields,
    }


def read(body: dict[str, Any], **options: Any) -> Message:
    return decode_message(body, "openai_chat", **options)


READ: dict[str, tuple[dict[str, Any], Message]] = {
    "text": (
        response({"content": "Hi", "refusal": None, "annotations": []}),
        Message(blocks=(Text("Hi"),), stop_reason="end_turn", raw_stop_reason="stop"),
    ),
    "calls": (
        response({"content": None, "tool_calls": [CALL, {**CALL, "id": "c2"}]}, "tool_calls"),
        Message(
            blocks=(ToolCall("c1", "f", '{"t":1}'), ToolCall("c2", "f", '{"t":1}')),
            stop_reason="tool_use",
            raw_stop_reason="tool_calls",
        ),
    ),
    "custom call": (
        response(
            {"tool_calls": [{"id": "c1", "type": "custom", "custom": {"name": "p", "input": "x"}}]},
            "tool_calls",
        ),
        Message(
            blocks=(ToolCall("c1", "p", "x", "custom"),),
            stop_reason="tool_use",
            raw_stop_reason="tool_calls",
        ),
    ),
    "refusal": (
        response({"content": None, "refusal": "No."}),
        Message(blocks=(Refusal("No."),), stop_reason="refusal", raw_stop_reason="stop"),
    ),
    "reasoning": (
        response({"reasoning_content": "Hm.", "content": "Hi"}, "length"),
        Message(
            blocks=(Reasoning(("Hm.",)), Text("Hi")),
            stop_reason="max_tokens",
            raw_stop_reason="length",
        ),
    ),
    "cited text before a call": (
        response(
            {
                "content": "It rains.",
                "annotations": [
                    {
                        "type": "url_citation",
                        "url_citation": {
                            "url": "https://a.example",
                            "title": "A",
                            "start_index": 0,
                            "end_index": 9,
                        },
                    }
                ],
                "tool_calls": [CALL],
            },
            "tool_calls",
        ),
        Message(
            blocks=(
                Text(
                    "It rains.",
                    (Citation("url_citation", "https://a.example", "A", start=0, end=9),),
                ),
                ToolCall("c1", "f", '{"t":1}'),
            ),
            stop_reason="tool_use",
            raw_stop_reason="tool_calls",
        ),
    ),
    "nothing": (
        response({"content": ""}),
        Message(stop_reason="end_turn", raw_stop_reason="stop"),
    ),
    "no finish reason": (
        response({"content": "Hi"}, None),
        Message(blocks=(Text("Hi"),), stop_reason="end_turn"),
    ),
    "arguments as an object": (
        response({"tool_calls": [{"id": "c1", "function": {"name": "f", "arguments": {"t": 1}}}]}),
        Message(
            blocks=(ToolCall("c1", "f", '{"t":1}'),), stop_reason="tool_use", raw_stop_reason="stop"
        ),
    ),
    "call without arguments": (
        response({"tool_calls": [{"id": "c1", "function": {"name": "f", "arguments": None}}]}),
        Message(blocks=(ToolCall("c1", "f"),), stop_reason="tool_use", raw_stop_reason="stop"),
    ),
    "indexes that are all zero": (
        response(
            {"tool_calls": [{**CALL, "index": 0}, {**CALL, "id": "c2", "index": 0}]}, "tool_calls"
        ),
        Message(
            blocks=(ToolCall("c1", "f", '{"t":1}'), ToolCall("c2", "f", '{"t":1}')),
            stop_reason="tool_use",
            raw_stop_reason="tool_calls",
        ),
    ),
    "stop sequence of vLLM": (
        {
            **response({}),
            "choices": [
                {"message": {"content": "Hi"}, "finish_reason": "stop", "stop_reason": "END"}
            ],
        },
        Message(
            blocks=(Text("Hi"),),
            stop_reason="stop_sequence",
            raw_stop_reason="stop",
            stop_sequence="END",
        ),
    ),
    "other fields": (
        response({"content": "Hi", "cost": 1}),
        Message(
            blocks=(Text("Hi"),),
            stop_reason="end_turn",
            raw_stop_reason="stop",
            stop_extra={"cost": 1},
        ),
    ),
}


@pytest.mark.parametrize(("body", "message"), READ.values(), ids=READ)
def test_a_response_is_read(body: dict[str, Any], message: Message) -> None:
    head = {"id": "chatcmpl-1", "model": "m", "extra": {"created": 1700000000}}
    assert read(body) == structs.replace(message, **head)


def test_a_response_without_id_model_and_object_is_read() -> None:
    body = {"choices": [{"message": {"content": "Hi"}}], "id": None, "usage": None, "error": None}
    assert read(body) == Message(blocks=(Text("Hi"),), stop_reason="end_turn")


def test_a_legacy_call_is_read_with_an_id_of_its_own() -> None:
    call = {"name": "f", "arguments": '{"t":1}'}
    body = response({"content": None, "function_call": call}, "function_call")
    first, again = read(body), read(body)
    (block,) = first.blocks
    assert isinstance(block, ToolCall)
    assert block.id
    assert (block.name, block.arguments) == ("f", '{"t":1}')
    assert first == again
    assert first.stop_reason == "tool_use"


def test_tokens_are_counted_as_in_a_stream() -> None:
    usage = {
        "prompt_tokens": 130,
        "completion_tokens": 40,
        "total_tokens": 170,
        "prompt_tokens_details": {"cached_tokens": 100},
    }
    assert read(response({"content": "Hi"}, usage=usage)).usage == Usage(130, 40, 100)


def test_citations_belong_to_the_text_where_a_refusal_follows_it() -> None:
    cited = {"start_index": 0, "end_index": 2, "url": "https://u", "title": "t"}
    annotation = {"type": "url_citation", "url_citation": cited}
    message = read(response({"content": "Hi", "refusal": "No.", "annotations": [annotation]}))
    citation = Citation("url_citation", "https://u", "t", start=0, end=2)
    assert message.blocks == (Text("Hi", (citation,)), Refusal("No."))


def test_every_choice_is_read() -> None:
    body = response({"content": "A"})
    body["choices"].append({"message": {"content": "B"}, "finish_reason": "length"})
    events = CODEC.read_response(body, ReadContext())
    assert [accumulate(events, choice=choice).text for choice in (0, 1)] == ["A", "B"]
    assert accumulate(events, choice=1).stop_reason == "max_tokens"


def test_arguments_of_a_server_that_repeats_them_are_read_by_its_name() -> None:
    assert read(response({"tool_calls": [CALL]}), server="qianfan").tool_calls[0].arguments


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ({}, "$.choices: no choices, expected at least one"),
        ({"choices": []}, "$.choices: no choices, expected at least one"),
        ({"choices": 5}, "$.choices: an integer, expected an array"),
        ({"choices": [5]}, "$.choices[0]: an integer, expected an object"),
        ({"choices": [{"text": "Hi"}]}, "$.choices[0].message: null, expected an object"),
        ({"choices": [{"message": "Hi"}]}, "$.choices[0].message: a string of 2 characters"),
        (response({"content": 5}), "$: "),
        (
            {"choices": [{"index": True, "message": {"content": "Hi"}}]},
            "$.choices[0].index: expected `int | null`, got `bool`",
        ),
        (
            {"choices": [{"index": 1, "message": {"content": "Hi"}}]},
            "$: choice 1 alone, expected choice 0",
        ),
        (response({"tool_calls": [{"id": "c1", "function": {"arguments": "{}"}}]}), "$: "),
    ],
)
def test_what_is_no_response_is_refused(body: dict[str, Any], problem: str) -> None:
    with pytest.raises(DecodeError) as caught:
        read(body)
    assert str(caught.value).startswith(problem)


@pytest.mark.parametrize(
    ("body", "message", "code", "status", "retryable"),
    [
        (
            response({"content": "Hi"}, error={"message": "died", "code": 500}),
            "died",
            "500",
            500,
            True,
        ),
        # OpenRouter relays the error of an upstream in the choice, and DeepSeek names it as the
        # reason.
        (
            {"choices": [{"message": {"content": "H"}, "error": {"code": 429, "message": "slow"}}]},
            "slow",
            "429",
            429,
            True,
        ),
        (
            response({"content": "H"}, "insufficient_system_resource"),
            "the provider ended with 'insufficient_system_resource'",
            "insufficient_system_resource",
            503,
            True,
        ),
    ],
)
def test_an_error_beside_an_answer_is_the_error_of_its_stream(
    body: dict[str, Any], message: str, code: str, status: int, retryable: bool
) -> None:
    with pytest.raises(UpstreamError) as caught:
        read(body)
    error = caught.value
    assert str(error) == message
    assert (error.code, error.status, error.retryable) == (code, status, retryable)


def test_only_the_id_of_a_spoken_answer_goes_into_a_later_request() -> None:
    sound = {"data": "AAAA", "expires_at": 1700003600, "transcript": "Hi"}
    spoken = read(response({"content": None, "audio": {"id": "audio_1", **sound}}))
    assert CODEC.message_fields(spoken) == {"audio": {"id": "audio_1"}}
    for field in ({"audio": sound}, {"executed_tools": [{"id": "i"}]}, {"images": "none"}):
        message = {"content": "Hi", **field}
        assert CODEC.message_fields(read(response(message))) == {}


def test_half_a_character_is_replaced() -> None:
    """A decoded object may hold what JSON text cannot."""
    annotation = {"type": "file", "file": {"name": "a\ud83d"}}
    message = read(response({"content": "b\ud83d\ude00c\ud83d", "annotations": [annotation]}))
    (block,) = message.blocks
    assert isinstance(block, Text)
    assert block.text == "b😀c�"
    assert block.citations == (Citation("file", extra={"name": "a�"}),)


def test_bounds_hold() -> None:
    body = response({"tool_calls": [CALL, {**CALL, "id": "c2"}]})
    with pytest.raises(DecodeError, match="max_tool_calls of 1 passed"):
        read(body, limits=Limits(max_tool_calls=1))
