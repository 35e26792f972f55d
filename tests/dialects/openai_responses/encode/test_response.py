"""The response object of the first and last events."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.openai_responses.streams import encode, write

from streamnorm import (
    BlockStart,
    BlockStop,
    Loss,
    MessageStart,
    MessageStop,
    StreamError,
    Text,
    Usage,
    UsageUpdate,
)
from streamnorm.dialects.openai_responses.encode import ResponsesEncoder, echoed_fields
from streamnorm.sse import SSEDecoder

# What Open Responses asks of every response.
KEYS = {
    *("id", "object", "created_at", "completed_at", "status", "incomplete_details", "model"),
    *("previous_response_id", "instructions", "output", "error", "tools", "tool_choice"),
    *("truncation", "parallel_tool_calls", "text", "top_p", "presence_penalty"),
    *("frequency_penalty", "top_logprobs", "temperature", "reasoning", "user", "usage"),
    *("max_output_tokens", "max_tool_calls", "store", "background", "service_tier", "metadata"),
    *("safety_identifier", "prompt_cache_key"),
}


def begun(start: MessageStart, **options: Any) -> dict[str, Any]:
    """Return the response that the first event carries."""
    response: dict[str, Any] = write([start], **options)[0][0]["response"]
    return response


@pytest.mark.parametrize(
    ("id", "written"),
    [
        ("resp_0a.b", "resp_0a.b"),
        ("chatcmpl-123", "resp_123"),
        ("msg_01X", "resp_01X"),
        ("gen-17", "resp_17"),
        ("a1b2-c3", "resp_a1b2-c3"),
        ("a:b", "resp_snid_a_3ab"),
        ("", "resp_0"),
        ("msg_", "resp_0"),
    ],
)
def test_response_id_derives_from_the_message_id(id: str, written: str) -> None:
    assert begun(MessageStart(id, "m"))["id"] == written
    item = write([MessageStart(id, "m"), BlockStart(0, Text())])[0][2]["item"]
    assert item["id"] == f"msg_{written.removeprefix('resp_')}_0"


def test_response_has_every_key_at_its_start_and_at_its_end() -> None:
    start, _, end = write([MessageStart("resp_1", "m"), MessageStop("end_turn")])[0]
    for event in (start, end):
        assert event["response"].keys() == KEYS
    changed = {key for key in KEYS if start["response"][key] != end["response"][key]}
    assert changed == {"status", "usage"}
    assert (start["response"]["output"], start["response"]["usage"]) == ([], None)


@pytest.mark.parametrize("key", ["created", "created_at"])
def test_creation_time_is_the_source_s(key: str) -> None:
    assert begun(MessageStart("i", "m", {key: 17}))["created_at"] == 17
    assert begun(MessageStart("i", "m", {key: "noon"}))["created_at"] == 0


def test_model_option_replaces_the_model() -> None:
    assert begun(MessageStart("i", "m"))["model"] == "m"
    assert begun(MessageStart("i", "m"), model="mine")["model"] == "mine"


def test_extra_fields_of_another_vendor_are_omitted() -> None:
    response = begun(MessageStart("i", "m", {"system_fingerprint": "fp", "type": "message"}))
    assert response.keys() == KEYS


def test_extra_counts_of_another_vendor_are_omitted() -> None:
    counted = UsageUpdate(Usage(1, 2, extra={"cost": 0.1, "input_tokens_details": {"audio": 1}}))
    usage = encode(counted, MessageStop("end_turn"))[-1]["response"]["usage"]
    assert "cost" not in usage
    assert usage["input_tokens_details"] == {"cached_tokens": 0, "cache_write_tokens": 0}


def test_service_tier_is_text_and_mapped_once_it_is_known() -> None:
    start, _, end = write(
        [
            MessageStart("i", "m"),
            UsageUpdate(Usage(1, 1, extra={"service_tier": "flex"})),
            MessageStop("end_turn"),
        ]
    )[0]
    assert start["response"]["service_tier"] == "default"
    assert end["response"]["service_tier"] == "flex"
    assert begun(MessageStart("i", "m", {"service_tier": "priority"}))["service_tier"] == "priority"
    payloads, writer = write([MessageStart("i", "m", {"service_tier": "batch"})])
    assert payloads[0]["response"]["service_tier"] == "default"
    assert writer.losses == (Loss("service_tier", "batch", 1, "dropped"),)


def test_response_repeats_the_options_of_its_request() -> None:
    tool = {"type": "function", "name": "f", "parameters": {"type": "object"}}
    search = {"type": "web_search"}
    assert echoed_fields(
        {
            "model": "m",
            "input": "Hi",
            "stream": True,
            "store": True,
            "service_tier": "flex",
            "previous_response_id": "resp_1",
            "instructions": "Be brief.",
            "temperature": 0.2,
            "top_p": None,
            "reasoning": {"effort": "low"},
            "text": {"verbosity": "low"},
            "tools": [tool, search, 7],
            "tool_choice": "required",
        }
    ) == {
        "instructions": "Be brief.",
        "reasoning": {"effort": "low", "summary": None},
        "temperature": 0.2,
        "text": {"format": {"type": "text"}, "verbosity": "low"},
        "tool_choice": "required",
        "tools": [{**tool, "description": None, "strict": None}, search, 7],
    }


def test_error_before_the_start_has_a_response_too() -> None:
    payloads, _ = write([StreamError("transport", "gone")], model="mine")
    assert [payload["type"] for payload in payloads] == ["error", "response.failed"]
    response = payloads[1]["response"]
    assert response.keys() == KEYS
    assert (response["id"], response["model"], response["output"]) == ("resp_0", "mine", [])


def test_failed_response_has_the_known_counts() -> None:
    blocks = [BlockStart(0, Text()), BlockStop(0)]
    assert encode(*blocks, StreamError("truncated", "cut"))[-1]["response"]["usage"] is None
    counted = encode(*blocks, UsageUpdate(Usage(5)), StreamError("truncated", "cut"))
    assert counted[-1]["response"]["usage"]["input_tokens"] == 5


def test_answer_that_failed_is_not_stored() -> None:
    for fields, said in (({"store": True, "id": "resp_2"}, False), ({"store": False}, False)):
        writer = ResponsesEncoder()
        writer.response_fields = fields
        data = writer.encode(MessageStart("resp_1", "m"))
        data += writer.encode(StreamError("upstream", "gone"))
        values = [json.loads(frame.data) for frame in SSEDecoder().feed(data)]
        start, end = (values[at]["response"] for at in (0, -1))
        assert (start["store"], end["store"]) == (fields["store"], said)
