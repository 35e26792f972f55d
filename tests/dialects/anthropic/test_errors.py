"""Errors, in both directions: in the form of any vendor, and as Anthropic's."""

from __future__ import annotations

import json

import pytest
from support.anthropic import payloads
from support.anthropic.frames import STOP, decode, end, event, start, text
from support.openai_chat.chunks import frame

from streamnorm import (
    BlockStart,
    BlockStop,
    Completed,
    Failed,
    MessageStart,
    StreamError,
    Text,
    TextDelta,
)
from streamnorm.codec import encoder

HELLO = [BlockStart(0, Text()), TextDelta(0, "Hello"), BlockStop(0)]
BEGUN = MessageStart("msg_1", "claude-1")

ERROR = {"type": "overloaded_error", "message": "Overloaded"}
OVERLOADED = StreamError("upstream", "Overloaded", "overloaded_error", 529, True)


@pytest.mark.parametrize(
    ("bytes_", "error"),
    [
        (event("error", error=ERROR), OVERLOADED),
        (frame({"type": "error", "error": ERROR}), OVERLOADED),
        (
            event("error", error={"type": "api_error", "message": "no"}, request_id="req_1"),
            StreamError("upstream", "no", "api_error", 500, True, {"request_id": "req_1"}),
        ),
        (event("error", message={"message": "no"}), StreamError("upstream", "no")),
        (
            frame({"error": {"message": "no", "code": 429}}),
            StreamError("upstream", "no", "429", 429, True),
        ),
        (frame({"error": "no"}), StreamError("upstream", "no")),
        (frame({"message": "no"}, "error"), StreamError("upstream", "no")),
        (frame("out of memory", "error"), StreamError("upstream", "out of memory")),
        (frame([1], "error"), StreamError("upstream", "[1]")),
        (frame({"object": "error", "message": "no", "type": "x", "error": {}}), None),
        (frame({"detail": "no"}), StreamError("upstream", "no")),
    ],
    ids=[
        *("api", "nameless", "request id", "router", "chat", "string", "by name"),
        *("text", "list", "typed", "framework"),
    ],
)
def test_error_is_read_in_the_form_of_any_vendor(bytes_: bytes, error: StreamError | None) -> None:
    decoded = decode(start(), text(0, "Hello"), bytes_, end(), STOP)
    if error is None:  # an event that has a type of its own, and no error in it
        assert isinstance(decoded.outcome, Completed)
        return
    assert decoded.events == [BEGUN, *HELLO, error]
    assert decoded.outcome == Failed(error)
    assert decode(bytes_).events == [error]


def test_event_line_error_makes_a_delta_an_error() -> None:
    payload = {
        "type": "content_block_delta",
        "index": 0,
        "delta": {"type": "text_delta", "text": "a"},
    }
    decoded = decode(start(), frame(payload, "error"))
    assert isinstance(decoded.outcome, Failed)
    assert decoded.events[-1].kind == "upstream"  # type: ignore[union-attr]  # a StreamError


@pytest.mark.parametrize(
    ("error", "type"),
    [
        (StreamError("upstream", "m", status_hint=400), "invalid_request_error"),
        (StreamError("upstream", "m", status_hint=422), "invalid_request_error"),
        (StreamError("upstream", "m", status_hint=401), "authentication_error"),
        (StreamError("upstream", "m", status_hint=402), "billing_error"),
        (StreamError("upstream", "m", status_hint=403), "permission_error"),
        (StreamError("upstream", "m", status_hint=404), "not_found_error"),
        (StreamError("upstream", "m", status_hint=413), "request_too_large"),
        (StreamError("upstream", "m", status_hint=429), "rate_limit_error"),
        (StreamError("upstream", "m", status_hint=500), "api_error"),
        (StreamError("upstream", "m", status_hint=503), "overloaded_error"),
        (StreamError("upstream", "m", status_hint=529), "overloaded_error"),
        (StreamError("upstream", "m", status_hint=504), "timeout_error"),
        (StreamError("stalled", "m"), "timeout_error"),
        (StreamError("truncated", "m"), "api_error"),
        (StreamError("upstream", "m"), "api_error"),
    ],
)
def test_error_ends_the_stream_without_stops(error: StreamError, type: str) -> None:
    frames = payloads.encode(BlockStart(0, Text()), TextDelta(0, "a"), error)
    assert frames[-1] == ("error", {"error": {"type": type, "message": "m"}})
    assert [name for name, _ in frames].count("content_block_stop") == 0
    body = json.loads(encoder("anthropic").error_body(error))
    assert body == {"type": "error", "error": {"type": type, "message": "m"}}


VLLM = "This model's maximum context length is {} tokens. However, you requested {} tokens ({} in "
VLLM += "the messages, {} in the completion)."


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("prompt is too long: 9 tokens > 8 maximum", "prompt is too long: 9 tokens > 8 maximum"),
        ("Prompt is too long", "Prompt is too long"),
        (
            "input length and `max_tokens` exceed context limit: 5 + 4 > 8, decrease input length",
            "input length and `max_tokens` exceed context limit: 5 + 4 > 8, decrease input length",
        ),
        (VLLM.format(8, 13, 9, 4), "prompt is too long: 9 tokens > 8 maximum"),
        (
            VLLM.format(8, 9, 5, 4),
            "prompt is too long: input length and `max_tokens` exceed context limit: 5 + 4 > 8, "
            "decrease input length or `max_tokens` and try again",
        ),
        (
            "Input is too long for requested model.",
            "prompt is too long: Input is too long for requested model.",
        ),
    ],
)
@pytest.mark.parametrize("status", [400, 413, 500, None])
def test_request_that_is_too_long_is_in_the_words_of_the_api(
    message: str, expected: str, status: int | None
) -> None:
    """Claude Code decides by these words, and takes the counts from them."""
    error = StreamError("upstream", message, None, status)
    body = {"type": "invalid_request_error", "message": expected}
    assert json.loads(encoder("anthropic").error_body(error)) == {"type": "error", "error": body}
    assert payloads.encode(BlockStart(0, Text()), error)[-1] == ("error", {"error": body})


def test_details_of_an_error_go_back_to_the_sdk() -> None:
    """By them it knows that a thread is gone, and sends the whole conversation."""
    details = {"error_code": "thread_not_found"}
    wire = {
        "type": "error",
        "error": {"type": "not_found_error", "message": "m", "details": details},
    }
    (error,) = decode(frame(wire, "error")).events
    assert isinstance(error, StreamError)
    assert json.loads(encoder("anthropic", extras=True).error_body(error)) == wire
    assert "details" not in json.loads(encoder("anthropic").error_body(error))["error"]
    odd = StreamError("upstream", "m", None, 404, extra={"details": "gone"})
    assert "details" not in json.loads(encoder("anthropic", extras=True).error_body(odd))["error"]
