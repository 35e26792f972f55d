"""The response object and the errors, as the first and last events carry them."""

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
from streamnorm.dialects.openai_responses.encode import ResponsesEncoder

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


def failed(error: StreamError, **options: Any) -> dict[str, Any]:
    """Return the error of the stream, told alike in its four places."""
    told, response = encode(error, **options)
    assert told["type"] == "error"
    assert {key: told[key] for key in ("code", "message", "param")} == {
        key: told["error"][key] for key in ("code", "message", "param")
    }
    assert response["type"] == "response.failed"
    assert response["response"]["status"] == "failed"
    failure = {key: told["error"][key] for key in ("code", "message")}
    assert response["response"]["error"] == failure
    assert json.loads(ResponsesEncoder(**options).error_body(error)) == {"error": told["error"]}
    found: dict[str, Any] = told["error"]
    return found


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
def test_id_is_made_of_the_source_s(id: str, written: str) -> None:
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
def test_time_is_the_source_s(key: str) -> None:
    assert begun(MessageStart("i", "m", {key: 17}))["created_at"] == 17
    assert begun(MessageStart("i", "m", {key: "noon"}))["created_at"] == 0


def test_model_can_be_named_anew() -> None:
    assert begun(MessageStart("i", "m"))["model"] == "m"
    assert begun(MessageStart("i", "m"), model="mine")["model"] == "mine"


def test_other_fields_of_another_vendor_are_left_out() -> None:
    response = begun(MessageStart("i", "m", {"system_fingerprint": "fp", "type": "message"}))
    assert response.keys() == KEYS


def test_other_counts_of_another_vendor_are_left_out() -> None:
    counted = UsageUpdate(Usage(1, 2, extra={"cost": 0.1, "input_tokens_details": {"audio": 1}}))
    usage = encode(counted, MessageStop("end_turn"))[-1]["response"]["usage"]
    assert "cost" not in usage
    assert usage["input_tokens_details"] == {"cached_tokens": 0, "cache_write_tokens": 0}


def test_tier_of_service_is_told_in_our_words_from_when_it_is_known() -> None:
    start, _, end = write(
        [
            MessageStart("i", "m"),
            UsageUpdate(Usage(1, 1, extra={"service_tier": "standard"})),
            MessageStop("end_turn"),
        ]
    )[0]
    assert start["response"]["service_tier"] is None
    assert end["response"]["service_tier"] == "default"
    assert begun(MessageStart("i", "m", {"service_tier": "priority"}))["service_tier"] == "priority"
    payloads, writer = write([MessageStart("i", "m", {"service_tier": "batch"})])
    assert payloads[0]["response"]["service_tier"] is None
    assert writer.losses == (Loss("service_tier", "batch", 1, "dropped"),)


# Errors


@pytest.mark.parametrize(
    ("status", "type", "code"),
    [
        (400, "invalid_request_error", "invalid_prompt"),
        (401, "authentication_error", "authentication_error"),
        (402, "insufficient_quota", "insufficient_quota"),
        (403, "permission_error", "permission_error"),
        (404, "invalid_request_error", "model_not_found"),
        (413, "invalid_request_error", "context_length_exceeded"),
        (418, "invalid_request_error", "invalid_prompt"),
        (429, "rate_limit_error", "rate_limit_exceeded"),
        (500, "server_error", "server_error"),
        (503, "server_error", "server_is_overloaded"),
        (504, "server_error", "server_error"),
        (529, "server_error", "server_is_overloaded"),
        (None, "server_error", "server_error"),
    ],
)
def test_error_is_told_by_what_its_status_means(status: int | None, type: str, code: str) -> None:
    error = StreamError("upstream", "try again in 3s", "overloaded_error", status)
    assert failed(error) == {
        "message": "try again in 3s",
        "type": type,
        "param": None,
        "code": code,
    }


@pytest.mark.parametrize("kind", ["malformed", "too_large", "truncated", "transport", "stalled"])
def test_failure_of_the_stream_itself_is_the_server_s(kind: Any) -> None:
    error = failed(StreamError(kind, "what happened", "context_length_exceeded"))
    assert (error["type"], error["code"]) == ("server_error", "server_error")


def test_code_that_clients_act_on_is_kept() -> None:
    error = StreamError("upstream", "no", "context_length_exceeded", 400)
    assert failed(error)["code"] == "context_length_exceeded"


def test_code_and_parameter_of_the_same_dialect_are_kept() -> None:
    error = StreamError("upstream", "no", "image_too_small", 400, extra={"param": "input"})
    assert (failed(error)["code"], failed(error)["param"]) == ("invalid_prompt", None)
    same = failed(error, extras=True)
    assert (same["code"], same["param"]) == ("image_too_small", "input")


def test_error_before_the_start_has_a_response_too() -> None:
    payloads, _ = write([StreamError("transport", "gone")], model="mine")
    assert [payload["type"] for payload in payloads] == ["error", "response.failed"]
    response = payloads[1]["response"]
    assert response.keys() == KEYS
    assert (response["id"], response["model"], response["output"]) == ("resp_0", "mine", [])


def test_failure_tells_the_counts_that_are_known() -> None:
    blocks = [BlockStart(0, Text()), BlockStop(0)]
    assert encode(*blocks, StreamError("truncated", "cut"))[-1]["response"]["usage"] is None
    counted = encode(*blocks, UsageUpdate(Usage(5)), StreamError("truncated", "cut"))
    assert counted[-1]["response"]["usage"]["input_tokens"] == 5
