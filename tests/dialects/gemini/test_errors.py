"""Errors that a Gemini stream ends in, as they are written."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.gemini.payloads import chunk, encode

from streamnorm import (
    StreamError,
)
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
            {"code": 529, "message": "busy", "status": "UNAVAILABLE"},
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
    """The client looks for `{"error":` at the start."""
    writer = GeminiEncoder()
    frame = b"data: " + json.dumps({"error": wire}, separators=(",", ":")).encode() + b"\r\n\r\n"
    assert writer.encode(error) == frame
    assert writer.error_body(error) == frame[6:-4]
    assert writer.close() == b""


@pytest.mark.parametrize("word", ["UNEXPECTED_TOOL_CALL", "malformed_function_call"])
def test_failed_finish_is_written_as_finish_reason(word: str) -> None:
    failed = chunk({"text": ""}, finishReason=word.upper(), finishMessage="sorry")
    assert encode(StreamError("upstream", "sorry", word)) == [failed]
