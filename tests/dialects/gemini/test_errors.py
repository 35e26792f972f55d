"""Errors that a Gemini stream ends in, as they are written."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.gemini.payloads import chunk, encode

from streamnorm import StreamError
from streamnorm.dialects.gemini.encode import GeminiEncoder


@pytest.mark.parametrize(
    ("error", "wire"),
    [
        (
            StreamError("upstream", "slow", "rate_limit_exceeded", 429),
            {"code": 429, "message": "slow", "status": "RESOURCE_EXHAUSTED"},
        ),
        (
            StreamError("upstream", "busy", "overloaded_error", 529),
            {"code": 503, "message": "busy", "status": "UNAVAILABLE"},
        ),
        (
            StreamError("upstream", "odd", None, 418),
            {"code": 418, "message": "odd", "status": "INVALID_ARGUMENT"},
        ),
        (
            StreamError("stalled", "no byte"),
            {"code": 504, "message": "no byte", "status": "DEADLINE_EXCEEDED"},
        ),
        (
            StreamError("malformed", "no JSON"),
            {"code": 500, "message": "no JSON", "status": "INTERNAL"},
        ),
    ],
    ids=lambda value: getattr(value, "message", ""),
)
def test_error_comes_first_in_its_frame(error: StreamError, wire: dict[str, Any]) -> None:
    """The client looks for `{"error":` at the start, or for an event that does not end."""
    writer = GeminiEncoder()
    frame = b"data: " + json.dumps({"error": wire}, separators=(",", ":")).encode() + b"\r\n\r\n"
    assert writer.encode(error) == frame + b":"
    assert writer.error_body(error) == frame[6:-4]
    assert writer.close() == b""


# HTTP codes of google.rpc.Code, and those that other vendors use for the same.
STATUSES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    402: "RESOURCE_EXHAUSTED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    408: "DEADLINE_EXCEEDED",
    409: "ABORTED",
    413: "INVALID_ARGUMENT",
    429: "RESOURCE_EXHAUSTED",
    499: "CANCELLED",
    500: "INTERNAL",
    501: "UNIMPLEMENTED",
    502: "INTERNAL",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}


@pytest.mark.parametrize(("code", "status"), STATUSES.items())
def test_error_has_the_status_of_its_http_code(code: int, status: str) -> None:
    body = json.loads(GeminiEncoder().error_body(StreamError("upstream", "m", None, code)))
    assert body == {"error": {"code": code, "message": "m", "status": status}}


@pytest.mark.parametrize("word", ["UNEXPECTED_TOOL_CALL", "malformed_function_call"])
def test_failed_finish_is_written_as_finish_reason(word: str) -> None:
    failed = chunk({"text": ""}, finishReason=word.upper(), finishMessage="sorry")
    assert encode(StreamError("upstream", "sorry", word)) == [failed]


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (
            "prompt is too long: 9 tokens > 8 maximum",
            "The input token count (9) exceeds the maximum number of tokens allowed (8).",
        ),
        (
            "The input token count (9) exceeds the maximum number of tokens allowed (8).",
            "The input token count (9) exceeds the maximum number of tokens allowed (8).",
        ),
        (
            "input length and `max_tokens` exceed context limit: 5 + 4 > 8",
            "The input token count exceeds the maximum number of tokens allowed: input length and "
            "`max_tokens` exceed context limit: 5 + 4 > 8",
        ),
        (
            "Input is too long for requested model.",
            "The input token count exceeds the maximum number of tokens allowed: Input is too long "
            "for requested model.",
        ),
    ],
)
@pytest.mark.parametrize("status", [400, 413, 500, None])
def test_request_that_is_too_long_is_in_the_words_of_google(
    message: str, expected: str, status: int | None
) -> None:
    error = StreamError("upstream", message, "context_length_exceeded", status)
    body = {"code": 400, "message": expected, "status": "INVALID_ARGUMENT"}
    assert json.loads(GeminiEncoder().error_body(error)) == {"error": body}
