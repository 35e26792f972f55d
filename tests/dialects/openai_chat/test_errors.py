"""Errors by finish reason, and the error that is written."""

from __future__ import annotations

import json

import pytest
from support.openai_chat.chunks import DONE, chunk, content, decode
from support.openai_chat.payloads import encode

from streamnorm import BlockStart, Event, StreamError, Text, TextDelta
from streamnorm.codec import encoder
from streamnorm.dialects.openai_chat.outcome import refusal_body
from streamnorm.validation import RequestViolation


@pytest.mark.parametrize(
    ("error", "type", "code"),
    [
        (StreamError("upstream", "m", "x", 400), "invalid_request_error", "x"),
        (StreamError("upstream", "m", None, 400), "invalid_request_error", None),
        (StreamError("upstream", "m", "x", 401), "invalid_request_error", "invalid_api_key"),
        (StreamError("upstream", "m", "x", 402), "insufficient_quota", "insufficient_quota"),
        (StreamError("upstream", "m", "x", 403), "permission_error", "x"),
        (StreamError("upstream", "m", "x", 404), "invalid_request_error", "x"),
        (StreamError("upstream", "m", "x", 409), "conflict", "x"),
        (StreamError("upstream", "m", "x", 413), "invalid_request_error", "x"),
        (StreamError("upstream", "m", "x", 418), "invalid_request_error", "x"),
        (StreamError("upstream", "m", "x", 422), "invalid_request_error", "x"),
        (StreamError("upstream", "m", "x", 429), "rate_limit_error", "rate_limit_exceeded"),
        (StreamError("upstream", "m", "api_error", 500), "server_error", "api_error"),
        (StreamError("upstream", "m", "x", 503), "server_error", "overloaded"),
        (StreamError("upstream", "m", "overloaded_error", 529), "server_error", "overloaded"),
        (StreamError("upstream", "m", "x", 504), "server_error", "timeout"),
        (StreamError("upstream", "m"), "server_error", None),
        (StreamError("stalled", "m"), "server_error", "stalled"),
        (StreamError("truncated", "m"), "server_error", "truncated"),
        (StreamError("too_large", "m", "max_blocks"), "server_error", "too_large"),
    ],
)
def test_error_is_written_as_a_frame_of_its_own(
    error: StreamError, type: str, code: str | None
) -> None:
    expected = {"error": {"message": "m", "type": type, "param": None, "code": code}}
    assert encode(BlockStart(0, Text()), TextDelta(0, "hi"), error)[-1] == expected
    assert json.loads(encoder("openai_chat").error_body(error)) == expected


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ("model: claude-x", "model_not_found"),
        ("models/gemini-x is not found for API version v1beta", "model_not_found"),
        ("Item with id 'rs_1' not found.", "not_found_error"),
        ("Invalid URL (POST /v1/chat)", "not_found_error"),
    ],
)
def test_404_is_of_a_model_if_it_speaks_of_one(message: str, code: str) -> None:
    error = StreamError("upstream", message, "not_found_error", 404)
    assert json.loads(encoder("openai_chat").error_body(error)) == {
        "error": {
            "message": message,
            "type": "invalid_request_error",
            "param": None,
            "code": code,
        }
    }


@pytest.mark.parametrize(
    ("message", "code", "status"),
    [
        ("prompt is too long: 213462 tokens > 200000 maximum", "invalid_request_error", 400),
        ("request (9 tokens) exceeds the available context size", "exceed_context_size_error", 400),
        ("The input token count (9) exceeds the maximum number of tokens allowed (8).", None, 413),
        ("Input is too long for requested model.", "validationException", 422),
    ],
)
@pytest.mark.parametrize("extras", [False, True])
def test_request_that_is_too_long_has_the_code_of_the_vendor(
    message: str, code: str | None, status: int, extras: bool
) -> None:
    error = StreamError("upstream", message, code, status, extra={"n_ctx": 8})
    own = {"n_ctx": 8} if extras else {}
    assert json.loads(encoder("openai_chat", extras=extras).error_body(error)) == {
        "error": {
            "message": message,
            "type": "invalid_request_error",
            "param": None,
            "code": "context_length_exceeded",
            **own,
        }
    }


@pytest.mark.parametrize(
    ("word", "status"),
    [
        ("error", None),
        ("network_error", None),
        ("abort", None),
        ("insufficient_system_resource", 503),
        ("MALFORMED_FUNCTION_CALL", None),
    ],
)
def test_finish_reason_that_means_failure_is_an_error(word: str, status: int | None) -> None:
    last: Event = decode(content("hi"), chunk({}, word), DONE).events[-1]
    assert isinstance(last, StreamError)
    assert (last.kind, last.code, last.status_hint) == ("upstream", word, status)


def test_error_of_the_same_dialect_is_written_with_its_own_type_and_code() -> None:
    extra: dict[str, object] = {"type": "model_error", "param": "model", "inner": 1}
    error = StreamError("upstream", "m", "no_model", 404, extra=extra)
    assert json.loads(encoder("openai_chat", extras=True).error_body(error)) == {
        "error": {"message": "m", "code": "no_model", **extra}
    }


@pytest.mark.parametrize(
    ("violation", "type", "param", "code"),
    [
        (
            RequestViolation("r", "tools[0].type", "m"),
            "invalid_request_error",
            "tools[0].type",
            None,
        ),
        (RequestViolation("r", "", "m", code="x"), "invalid_request_error", None, "x"),
        (RequestViolation("r", "", "m", 403), "permission_error", None, None),
        (RequestViolation("r", "", "m", 500), "server_error", None, None),
        (RequestViolation("r", "", "m", 400, "own_error"), "own_error", None, None),
    ],
)
def test_refusal_names_the_parameter(
    violation: RequestViolation, type: str, param: str | None, code: str | None
) -> None:
    error = {"message": "m", "type": type, "param": param, "code": code}
    assert json.loads(refusal_body(violation)) == {"error": error}
