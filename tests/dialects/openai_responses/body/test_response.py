"""Whole responses."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs
from openai.types.responses import Response

from streamnorm import (
    Block,
    DecodeError,
    EncodeError,
    LossyEncoding,
    Message,
    MessageStart,
    MessageStop,
    OpaqueBlock,
    Reasoning,
    Refusal,
    ServerToolCall,
    StreamError,
    Text,
    ToolCall,
    Usage,
    UsageUpdate,
    accumulate,
    decode_message,
    encode_message,
)
from streamnorm._core.codec import ReadContext
from streamnorm._core.events import Event
from streamnorm._core.limits import Limits
from streamnorm._core.losses import Losses
from streamnorm.dialects.openai_responses.body import CODEC

OWN = "openai_responses"

# One answer, as four dialects have it.
ANSWER = Message(
    "msg_1",
    "m",
    (
        Reasoning(("…",), "EqQB", "anthropic"),
        Text("Hi"),
        ToolCall("toolu_1", "f", '{"t":1}'),
    ),
    "tool_use",
    usage=Usage(130, 40, 100),
)
OUTPUT: list[dict[str, Any]] = [
    {
        "id": "rs_1_0",
        "type": "reasoning",
        "summary": [{"type": "summary_text", "text": "…"}],
        "encrypted_content": "sn1.anthropic.EqQB",
    },
    {
        "id": "msg_1_1",
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": "Hi", "annotations": [], "logprobs": []}],
    },
    {
        "id": "fc_1_2",
        "type": "function_call",
        "call_id": "toolu_1",
        "name": "f",
        "arguments": '{"t":1}',
        "status": "completed",
    },
]
USAGE = {
    "input_tokens": 130,
    "input_tokens_details": {"cached_tokens": 100, "cache_write_tokens": 0},
    "output_tokens": 40,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 170,
}
BODY: dict[str, Any] = {
    "id": "resp_1",
    "object": "response",
    "created_at": 1700000000,
    "model": "m",
    "status": "completed",
    "output": OUTPUT,
    "parallel_tool_calls": True,
    "tool_choice": "auto",
    "tools": [],
    "error": None,
    "incomplete_details": None,
    "usage": USAGE,
}


def read(body: dict[str, Any], **context: Any) -> list[Event]:
    return CODEC.read_response(body, ReadContext(**context))


def write(message: Message, created: float | None = None) -> dict[str, Any]:
    """Return a message as a response, which the SDK accepts and which loses nothing."""
    losses = Losses()
    body = CODEC.write_response(message, created, losses)
    assert losses.list() == ()
    Response.model_validate(body, strict=True)
    return body


def written(*blocks: Block, reason: Any = "end_turn") -> dict[str, Any]:
    return write(Message("resp_1", "m", blocks, reason, usage=Usage(1, 1)))


def test_answer_of_another_dialect_is_written() -> None:
    body = write(ANSWER, 1700000000)
    assert {name: body[name] for name in BODY} == BODY


def test_answer_is_read() -> None:
    message = accumulate(read(BODY))
    assert message.blocks == ANSWER.blocks
    assert (message.id, message.model, message.stop_reason) == ("resp_1", "m", "tool_use")
    assert message.usage == Usage(130, 40, 100, 0, 0)


def test_same_dialect_keeps_ids_and_echoed_fields() -> None:
    echoed = {"instructions": "a", "temperature": 0.5, "metadata": {"k": "v"}, "store": True}
    body = {**BODY, **echoed, "completed_at": 1700000001}
    back = write(accumulate(read(body)))
    assert {name: back[name] for name in body} == body


@pytest.mark.parametrize(
    ("message", "created", "expected"),
    [
        (ANSWER, None, 0),
        (ANSWER, 1.9, 1),
        (structs.replace(ANSWER, extra={"created": 3}), None, 3),
        (structs.replace(ANSWER, extra={"created": 3}), 4.9, 4),
    ],
)
def test_time_is_that_of_the_caller_else_of_the_message(
    message: Message, created: float | None, expected: int
) -> None:
    time = write(message, created)["created_at"]
    assert (time, type(time)) == (expected, int)  # Open Responses allows no fraction


@pytest.mark.parametrize(
    ("reason", "raw", "status", "details"),
    [
        ("end_turn", None, "completed", None),
        ("stop_sequence", None, "completed", None),
        ("max_tokens", None, "incomplete", {"reason": "max_output_tokens"}),
        ("refusal", None, "incomplete", {"reason": "content_filter"}),
        ("other", "max_messages", "incomplete", {"reason": "max_messages"}),
    ],
)
def test_stop_reason(reason: Any, raw: str | None, status: str, details: Any) -> None:
    message = Message("resp_1", "m", (Text("a"),), reason, raw, usage=Usage(1, 1))
    body = CODEC.write_response(message, None, Losses())
    assert (body["status"], body["incomplete_details"]) == (status, details)


def test_refusal_is_a_part() -> None:
    (item,) = written(Refusal("no"), reason="refusal")["output"]
    assert item["content"] == [{"type": "refusal", "refusal": "no"}]


def test_call_with_broken_arguments_is_incomplete() -> None:
    (item,) = written(ToolCall("c", "f", '{"a'), reason="max_tokens")["output"]
    assert (item["status"], item["arguments"]) == ("incomplete", '{"a')


def test_items_of_the_server_and_unknown_ones_are_written() -> None:
    call = ServerToolCall(
        "ws_1", "web_search_call", '{"action":{"type":"search"}}', "web_search_call"
    )
    unknown = OpaqueBlock(OWN, "new", '{"type":"new","x":1}')
    body = CODEC.write_response(Message("resp_1", "m", (call, unknown), "end_turn"), None, Losses())
    assert body["output"] == [
        {
            "id": "ws_1",
            "type": "web_search_call",
            "status": "completed",
            "action": {"type": "search"},
        },
        {"type": "new", "x": 1},
    ]


def test_losses_are_those_of_the_stream() -> None:
    losses = Losses()
    message = Message("a", "m", (Text("a"),), "end_turn", usage=Usage())
    CODEC.write_response(message, None, losses)
    assert [(loss.feature, loss.where) for loss in losses.list()] == [
        ("usage_unknown", "input_tokens"),
        ("usage_unknown", "output_tokens"),
    ]
    with pytest.raises(LossyEncoding):
        CODEC.write_response(message, None, Losses(strict=True))


def test_message_that_has_not_ended_has_no_form() -> None:
    with pytest.raises(EncodeError) as caught:
        write(structs.replace(ANSWER, stop_reason=None))
    assert caught.value.path == "stop_reason"


# Responses that did not complete

TEXT = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "status": "incomplete",
    "content": [{"type": "output_text", "text": "a", "annotations": []}],
}


def test_incomplete_response() -> None:
    details = {"reason": "max_output_tokens"}
    body = {**BODY, "output": [TEXT], "status": "incomplete", "incomplete_details": details}
    message = accumulate(read(body))
    assert (message.text, message.stop_reason) == ("a", "max_tokens")
    assert message.raw_stop_reason == "max_output_tokens"


@pytest.mark.parametrize("status", ["failed", "cancelled", "completed", "in_progress"])
def test_failed_response_has_its_output_and_its_error(status: str) -> None:
    error = {"code": "server_error", "message": "it broke"}
    events = read({**BODY, "output": [TEXT], "status": status, "error": error})
    assert accumulate(events).text == "a"
    last = events[-1]
    assert isinstance(last, StreamError)
    assert (last.kind, last.message, last.code) == ("upstream", "it broke", "server_error")
    assert not any(isinstance(event, MessageStop) for event in events)
    assert any(isinstance(event, UsageUpdate) for event in events)


@pytest.mark.parametrize("status", ["failed", "cancelled"])
def test_failed_response_without_an_error_says_so(status: str) -> None:
    last = read({**BODY, "status": status, "error": None})[-1]
    assert isinstance(last, StreamError)
    assert (last.message, last.code) == (f"response {status}", status)


@pytest.mark.parametrize("status", ["in_progress", "queued"])
def test_response_that_goes_on_has_no_stop(status: str) -> None:
    events = read({**BODY, "output": [TEXT], "status": status, "usage": None})
    assert accumulate(events).text == "a"
    assert accumulate(events).stop_reason is None
    assert not isinstance(events[-1], StreamError)


def test_response_without_a_status_is_complete() -> None:
    body = {name: value for name, value in BODY.items() if name != "status"}
    assert accumulate(read(body)).stop_reason == "tool_use"


def test_reasoning_is_that_of_the_server() -> None:
    item = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"}
    message = accumulate(read({**BODY, "output": [item]}, server="xai"))
    assert message.blocks == (Reasoning((), "x", "xai", "rs_1"),)


def test_response_without_output_is_a_message_without_blocks() -> None:
    start, *rest = read({**BODY, "output": []})
    assert isinstance(start, MessageStart)
    assert [type(event) for event in rest] == [UsageUpdate, MessageStop]


# Other bodies


@pytest.mark.parametrize(
    ("body", "path", "problem"),
    [
        ({}, "$.output", "missing, expected an array"),
        (
            {"object": "list", "output": []},
            "$.object",
            "a string of 4 characters, expected response",
        ),
        ({"output": {}}, "$.output", "an object, expected an array"),
        ({"output": [5]}, "$.output[0]", "an integer, expected an object"),
        ({"output": [{}]}, "$.output[0].type", "missing, expected a string"),
        (
            {"output": [{"type": "message", "content": "a"}]},
            "$.output[0].content",
            "a string of 1 characters, expected an array",
        ),
        (
            {"output": [{"type": "message", "content": ["a"]}]},
            "$.output[0].content[0]",
            "a string of 1 characters, expected an object",
        ),
        (
            {"output": [{"type": "message", "content": [{"type": "output_text", "text": 5}]}]},
            "$.output[0].content[0].text",
            "an integer, expected a string",
        ),
        (
            {"output": [{"type": "reasoning", "summary": [{"type": []}]}]},
            "$.output[0].summary[0].type",
            "an array, expected a string",
        ),
        (
            {"output": [{"type": "custom_tool_call", "input": {}}]},
            "$.output[0].input",
            "an object, expected a string",
        ),
        (
            {"output": [{"type": "function_call", "arguments": "{}"}]},
            "$.output",
            "function_call without a name, expected one",
        ),
    ],
)
def test_other_bodies_are_refused(body: dict[str, Any], path: str, problem: str) -> None:
    with pytest.raises(DecodeError) as caught:
        read(body)
    assert (caught.value.path, caught.value.args[0]) == (path, problem)


def test_bounds_hold() -> None:
    with pytest.raises(DecodeError) as caught:
        read({**BODY, "output": [TEXT, {**TEXT, "id": "b"}]}, limits=Limits(max_blocks=1))
    assert caught.value.args[0] == "max_blocks of 1 passed"


def test_body_is_revised_in_its_model_and_its_time() -> None:
    body = {**encode_message(ANSWER, OWN).body, "prompt_cache_retention": None}
    message = decode_message(body, OWN)
    assert encode_message(message, OWN).body == body
    revised = encode_message(message, OWN, model="mine", created=7.5).body
    assert revised == {**body, "model": "mine", "created_at": 7}
