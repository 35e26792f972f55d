"""Errors: read in every shape, and written as clients read them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.openai_responses.frames import START, completed, decode, event, frame
from support.openai_responses.streams import encode

from streamnorm import Failed, MessageStart, StreamError
from streamnorm.dialects.openai_responses.encode import ResponsesEncoder

MESSAGE_START = MessageStart("resp_1", "gpt")
NESTED = {"error": {"type": "t", "code": "rate_limit_exceeded", "message": "m", "param": None}}
FLAT = {"code": "rate_limit_exceeded", "message": "m", "param": None, "sequence_number": 3}


@pytest.mark.parametrize(
    "payload",
    [
        event("error", **FLAT),
        event("error", error={"code": "rate_limit_exceeded", "message": "m"}, sequence_number=3),
        event("error", error={"code": "rate_limit_exceeded", "message": "m"}, **FLAT),
        frame({"type": "error", **FLAT}),
        frame(FLAT, "error"),
        frame({"error": {"code": "rate_limit_exceeded", "message": "m"}}),
        completed(status="failed", error={"code": "rate_limit_exceeded", "message": "m"}),
    ],
)
def test_error_has_one_meaning_in_all_its_shapes(payload: bytes) -> None:
    error = StreamError("upstream", "m", "rate_limit_exceeded", 429, True)
    decoded = decode(START, payload, completed(status="failed"))
    assert decoded.events == [MESSAGE_START, error]
    assert decoded.outcome == Failed(error)


def test_type_of_an_error_is_kept() -> None:
    extra = {"type": "t"}
    error = StreamError("upstream", "m", "rate_limit_exceeded", 429, True, extra)
    assert decode(START, event("error", **NESTED)).events[-1] == error


def test_error_in_the_shape_of_another_vendor_is_an_error() -> None:
    payload = frame({"detail": "not here"})
    assert decode(payload).events == [StreamError("upstream", "not here")]


@pytest.mark.parametrize(
    "fields",
    [
        {"detail": "too long"},
        {"base_resp": {"status_code": 2013, "status_msg": "too long"}},
        {"errors": [{"code": 5021, "message": "too long"}]},
    ],
    ids=["FastAPI", "MiniMax", "Cloudflare"],
)
def test_error_event_in_the_shape_of_another_vendor_has_its_message(fields: Any) -> None:
    for payload in (frame(fields, "error"), event("error", **fields)):
        last = decode(START, payload).events[-1]
        assert isinstance(last, StreamError)
        assert (last.kind, last.message) == ("upstream", "too long")


def test_payload_of_an_error_event_may_be_text() -> None:
    assert decode(frame("not JSON", "error")).events == [StreamError("upstream", "not JSON")]
    assert decode(frame('"text"', "error")).events == [StreamError("upstream", '"text"')]


def test_error_body_is_an_error() -> None:
    error = StreamError("upstream", "m", "rate_limit_exceeded", 429, True, {"type": "t"})
    assert decode(frame(NESTED).removeprefix(b"data: ").rstrip()).events == [error]


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (None, StreamError("upstream", "response failed", "failed")),
        ({"code": "slow_down", "message": "m"}, StreamError("upstream", "m", "slow_down")),
    ],
)
def test_failed_response_is_an_error(error: object, expected: StreamError) -> None:
    assert decode(START, completed(status="failed", error=error)).events[-1] == expected


def test_cancelled_response_is_an_error() -> None:
    error = StreamError("upstream", "response cancelled", "cancelled")
    assert decode(START, completed(status="cancelled")).events[-1] == error


@pytest.mark.parametrize("status", ["failed", "cancelled"])
def test_response_that_fails_before_its_start_is_an_error_alone(status: str) -> None:
    failed = completed(
        status=status, error={"code": "slow_down", "message": "m"}, usage={"input_tokens": 1}
    )
    assert decode(failed).events == [StreamError("upstream", "m", "slow_down")]


def failed(error: StreamError, **options: Any) -> dict[str, Any]:
    """Return the error of the stream, which is the same in its four places."""
    event, response = encode(error, **options)
    assert event["type"] == "error"
    assert {key: event[key] for key in ("code", "message", "param")} == {
        key: event["error"][key] for key in ("code", "message", "param")
    }
    assert response["type"] == "response.failed"
    assert response["response"]["status"] == "failed"
    failure = {key: event["error"][key] for key in ("code", "message")}
    assert response["response"]["error"] == failure
    assert json.loads(ResponsesEncoder(**options).error_body(error)) == {"error": event["error"]}
    found: dict[str, Any] = event["error"]
    return found


@pytest.mark.parametrize(
    ("status", "type", "code"),
    [
        (400, "invalid_request_error", "invalid_prompt"),
        (401, "authentication_error", "authentication_error"),
        (402, "insufficient_quota", "insufficient_quota"),
        (403, "permission_error", "permission_error"),
        (404, "invalid_request_error", "not_found"),
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
def test_type_and_code_follow_from_the_status(status: int | None, type: str, code: str) -> None:
    error = StreamError("upstream", "try again in 3s", "overloaded_error", status)
    assert failed(error) == {
        "message": "try again in 3s",
        "type": type,
        "param": None,
        "code": code,
    }


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ("model: claude-x", "model_not_found"),
        ("models/gemini-x is not found for API version v1beta", "model_not_found"),
        ("Item with id 'rs_1' not found.", "not_found"),
    ],
)
def test_404_is_of_a_model_if_it_speaks_of_one(message: str, code: str) -> None:
    error = StreamError("upstream", message, "not_found_error", 404)
    assert (failed(error)["type"], failed(error)["code"]) == ("invalid_request_error", code)


@pytest.mark.parametrize("extras", [False, True])
@pytest.mark.parametrize("status", [400, 413, 500])
def test_request_that_is_too_long_has_the_code_of_the_vendor(status: int, extras: bool) -> None:
    """Codex compacts the conversation at this code alone."""
    message = "request (9 tokens) exceeds the available context size (8 tokens)"
    error = StreamError("upstream", message, "exceed_context_size_error", status)
    assert failed(error, extras=extras) == {
        "message": message,
        "type": "invalid_request_error",
        "param": None,
        "code": "context_length_exceeded",
    }


@pytest.mark.parametrize("kind", ["malformed", "too_large", "truncated", "transport", "stalled"])
def test_failure_of_the_connection_is_a_server_error(kind: Any) -> None:
    error = failed(StreamError(kind, "what happened", "context_length_exceeded"))
    assert (error["type"], error["code"]) == ("server_error", "server_error")


def test_code_that_clients_act_on_is_kept() -> None:
    # Codex sends its whole input at the second, and compacts the conversation at the first.
    for code in ("context_length_exceeded", "previous_response_not_found"):
        assert failed(StreamError("upstream", "no", code, 400))["code"] == code


def test_code_and_parameter_of_the_same_dialect_are_kept() -> None:
    error = StreamError("upstream", "no", "image_too_small", 400, extra={"param": "input"})
    assert (failed(error)["code"], failed(error)["param"]) == ("invalid_prompt", None)
    same = failed(error, extras=True)
    assert (same["code"], same["param"]) == ("image_too_small", "input")
