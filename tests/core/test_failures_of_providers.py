"""Errors in every shape that Chat Completions servers were seen to send."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.openai_chat.chunks import DONE, chunk, content, decode, frame

from streamnorm import Completed, Event, Failed, MessageStart, Opaque, StreamError, TextDelta

TEXT = content("hi")


def error(*frames: bytes) -> StreamError:
    """Return the error that ends a stream, which says nothing behind it."""
    decoded = decode(*frames, content("late"), DONE)
    last = decoded.events[-1]
    assert isinstance(last, StreamError)
    assert decoded.outcome == Failed(last)
    return last


def upstream(
    message: str,
    code: str | None = None,
    status: int | None = None,
    extra: dict[str, Any] | None = None,
    *,
    retryable: bool | None = None,
) -> StreamError:
    return StreamError("upstream", message, code, status, retryable, extra)


OVERLOADED = {"message": "busy", "type": "server_error", "code": "overloaded"}
SHAPES: dict[str, tuple[bytes, StreamError]] = {
    "named frame with json": (
        frame({"error": OVERLOADED}, "error"),
        upstream("busy", "overloaded", 529, {"type": "server_error"}, retryable=True),
    ),
    "named frame with text": (frame("out of memory", "error"), upstream("out of memory")),
    "named frame with an object that has no error": (
        frame({"message": "busy", "code": 503}, "error"),
        upstream("busy", "503", 503, retryable=True),
    ),
    "named frame that looks like a chunk": (
        b"event: error\n" + content("no choice of ours"),
        upstream(
            "",
            extra={
                "id": "chatcmpl-1",
                "model": "gpt",
                "choices": [
                    {"index": 0, "delta": {"content": "no choice of ours"}, "finish_reason": None}
                ],
            },
        ),
    ),
    "typed wrapper": (
        frame({"type": "error", "error": OVERLOADED}),
        upstream("busy", "overloaded", 529, {"type": "server_error"}, retryable=True),
    ),
    "top level object": (
        frame({"error": {"message": "slow down", "type": "rate_limit_error"}}),
        upstream("slow down", "rate_limit_error", 429, retryable=True),
    ),
    "top level text": (frame({"error": "model not loaded"}), upstream("model not loaded")),
    "old vLLM": (
        frame({"object": "error", "message": "too long", "type": "BadRequestError", "code": 400}),
        upstream("too long", "BadRequestError", 400, retryable=False),
    ),
    "SGLang": (
        frame(
            {"error": {"object": "error", "message": "m", "type": "BadRequestError", "code": 400}}
        ),
        upstream("m", "BadRequestError", 400, retryable=False),
    ),
    "router with the message as an object": (
        frame({"type": "error", "message": {"message": "m", "type": "api_error"}}),
        upstream("m", "api_error", 500, retryable=True),
    ),
    "array of Gemini": (
        frame([{"error": {"code": 429, "message": "quota", "status": "RESOURCE_EXHAUSTED"}}]),
        upstream("quota", "RESOURCE_EXHAUSTED", 429, retryable=True),
    ),
    "MiniMax": (
        frame({"base_resp": {"status_code": 1008, "status_msg": "balance"}}),
        upstream("balance", "1008"),
    ),
    "FastAPI": (frame({"detail": "Not Found"}), upstream("Not Found")),
    "FastAPI with a list": (frame({"detail": [{"a": 1}]}), upstream('[{"a":1}]')),
    "status beside the message": (
        frame({"message": "Rate limited", "statusCode": 429}),
        upstream("Rate limited", "429", 429, retryable=True),
    ),
    "reason beside the message": (
        frame({"statusCode": 404, "error": "Not Found", "message": "Cannot POST /v1/x"}),
        upstream("Cannot POST /v1/x", "404", 404, retryable=False),
    ),
    "Cloudflare": (
        frame({"errors": [{"code": 5021, "message": "m"}], "success": False}, "error"),
        upstream("m", "5021"),
    ),
    "line of its own": (
        b'error: {"code":500,"message":"slot lost","type":"server_error"}\n\n',
        upstream("slot lost", "server_error", 500, retryable=True),
    ),
    "line of its own with text": (b"error: out of memory\n\n", upstream("out of memory")),
    "line of json": (b'{"error":{"message":"m"}}\n', upstream("m")),
    "OpenRouter beside choices": (
        chunk(
            {"content": ""}, "error", error={"code": 502, "message": "lost", "metadata": {"a": 1}}
        ),
        upstream("lost", "502", 502, {"metadata": {"a": 1}}, retryable=True),
    ),
    "Cerebras": (
        frame({"error": {"message": "m", "type": "x"}, "status_code": 500}),
        upstream("m", "x", 500, retryable=True),
    ),
    "LM Studio": (frame({"error": {}, "message": "m", "object": "error"}), upstream("m")),
    "message beside an error without one": (
        frame({"error": {"code": "c"}, "message": "m"}),
        upstream("m", "c"),
    ),
    "Groq": (
        frame(
            {
                "error": {
                    "message": "m",
                    "type": "invalid_request_error",
                    "code": "tool_use_failed",
                    "failed_generation": "g",
                    "status_code": 400,
                    "param": "p",
                }
            },
            "error",
        ),
        upstream(
            "m",
            "tool_use_failed",
            400,
            {"type": "invalid_request_error", "failed_generation": "g", "param": "p"},
            retryable=False,
        ),
    ),
    "message of another type": (frame({"error": {"message": {"a": 1}}}), upstream('{"a":1}')),
    "status that is none": (frame({"error": {"message": "m", "status": 200}}), upstream("m")),
}


@pytest.mark.parametrize(("wire", "expected"), SHAPES.values(), ids=SHAPES)
def test_error_is_read_in_the_shape_of_each_vendor(wire: bytes, expected: StreamError) -> None:
    assert error(TEXT, wire) == expected


# Anthropic sends the typed wrapper too.
UNTYPED = {name: row for name, row in SHAPES.items() if b'"type": "error"' not in row[0]}


@pytest.mark.parametrize(("wire", "expected"), UNTYPED.values(), ids=UNTYPED)
def test_error_before_the_first_token_is_found_without_a_dialect(
    wire: bytes, expected: StreamError
) -> None:
    named, unnamed = decode(wire), decode(wire, dialect=None)
    assert unnamed == named
    assert named.events[-1] == expected


def test_error_in_a_choice() -> None:
    part = {"index": 0, "delta": {"content": "a"}, "error": {"message": "m", "code": 400}}
    decoded = decode(frame({"id": "1", "choices": [part]}))
    assert TextDelta(0, "a") in decoded.events
    assert decoded.events[-1] == upstream("m", "400", 400, retryable=False)
    text = {**part, "error": "why"}
    assert error(frame({"id": "1", "choices": [text]})) == upstream("why")


def test_chunk_that_is_only_an_error_starts_no_message() -> None:
    for body in (
        {"error": {"message": "m"}},
        {"id": "1", "choices": [], "error": {"message": "m"}},
    ):
        assert decode(frame(body), DONE).events == [upstream("m")]


def test_error_beside_choices_follows_their_events() -> None:
    wire = chunk({"content": "a"}, error={"message": "m"})
    decoded = decode(wire)
    assert isinstance(decoded.events[0], MessageStart)
    assert decoded.events[-2:] == [TextDelta(0, "a"), upstream("m")]


@pytest.mark.parametrize(
    "extra",
    [
        {"error": None},
        {"error": {}},
        {"error": ""},
        {"base_resp": {"status_code": 0}},
        {"base_resp": 1},
    ],
)
def test_error_field_without_an_error_is_ignored(extra: dict[str, Any]) -> None:
    decoded = decode(chunk({"content": "a"}, **extra), chunk({}, "stop", **extra), DONE)
    assert isinstance(decoded.outcome, Completed)


def test_error_null_alone_is_opaque() -> None:
    events: list[Event] = decode(TEXT, frame({"error": None}), DONE).events
    assert Opaque("openai_chat", "frame", '{"error":null}') in events


def test_error_after_done_changes_nothing() -> None:
    decoded = decode(TEXT, chunk({}, "stop"), DONE, frame({"error": "late"}), b"error: late\n\n")
    assert isinstance(decoded.outcome, Completed)


def test_error_after_the_finish_reason_is_an_error() -> None:
    assert error(content("a", "stop"), frame({"error": "late"})) == upstream("late")


def test_error_in_the_last_line_without_its_end_is_found() -> None:
    for line in (b'error: {"message":"m"}', b'{"error":{"message":"m"}}', b'data: {"error":"m"}'):
        assert decode(TEXT, line).events[-1] == upstream("m")


def test_error_over_several_lines_is_found_at_the_end() -> None:
    lines = json.dumps({"error": {"message": "m", "code": 500}}, indent=2).encode() + b"\n"
    assert decode(TEXT, lines).events[-1] == upstream("m", "500", 500, retryable=True)


def test_stray_lines_without_an_error_are_ignored() -> None:
    decoded = decode(TEXT, b"hello\n{\n", chunk({}, "stop"), b"}\n\n", DONE)
    assert isinstance(decoded.outcome, Completed)


def test_error_message_has_no_lone_surrogate() -> None:
    wire = b'data: {"error":{"message":"\\ud83d","input":"\\ud83d"}}\n\n'
    assert error(TEXT, wire) == upstream("�", extra={"input": "�"})
    part = b'{"delta":{},"error":{"message":"\\ud83d","input":"\\ud83d"}}'
    wire = b'data: {"id":"1","choices":[' + part + b"]}\n\n"
    assert error(TEXT, wire) == upstream("�", extra={"input": "�"})
