"""Errors in an Anthropic stream, in every shape, and the bounds that end it."""

from __future__ import annotations

import pytest
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

HELLO = [BlockStart(0, Text()), TextDelta(0, "Hello"), BlockStop(0)]
BEGUN = MessageStart("msg_1", "claude-1")

TOLD = {"type": "overloaded_error", "message": "Overloaded"}
OVERLOADED = StreamError("upstream", "Overloaded", "overloaded_error", 529, True)


@pytest.mark.parametrize(
    ("bytes_", "error"),
    [
        (event("error", error=TOLD), OVERLOADED),
        (frame({"type": "error", "error": TOLD}), OVERLOADED),
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
