"""Behaviour of all encoders: projection, losses, options, keep-alive and end."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.streams.content import DIALECTS
from support.streams.short import PINGS

from streamnorm import (
    BlockStart,
    Event,
    LocalProtocolError,
    Loss,
    LossyEncoding,
    MessageStart,
    MessageStop,
    Opaque,
    Ping,
    Reasoning,
    ReasoningDelta,
    StreamError,
    TextDelta,
    Usage,
    UsageUpdate,
)
from streamnorm.codec import encoder

START = MessageStart("m", "gpt")

each_dialect = pytest.mark.parametrize("dialect", DIALECTS)


def written(dialect: str, *events: Event, **options: Any) -> bytes:
    writer = encoder(dialect, **options)
    return b"".join([*map(writer.encode, (START, *events)), writer.close()])


@each_dialect
def test_unsupported_event_is_counted_and_reported_as_it_happens(dialect: str) -> None:
    reported: list[Loss] = []
    writer = encoder(dialect, on_loss=reported.append)
    writer.encode(START)
    assert writer.encode(Opaque("morse", "x", "{}")) == b""
    assert writer.encode(Opaque("morse", "x", "{}")) == b""
    loss = Loss("opaque", "morse x", 1, "dropped")
    assert reported == [loss, loss]
    assert writer.losses == (Loss("opaque", "morse x", 2, "dropped"),)


@each_dialect
def test_strict_encoder_raises_at_the_first_loss(dialect: str) -> None:
    writer = encoder(dialect, strict=True)
    writer.encode(START)
    with pytest.raises(LossyEncoding, match=r"^opaque in morse x would be lost$"):
        writer.encode(Opaque("morse", "x", "{}"))


@each_dialect
def test_held_text_of_a_failed_stream_is_a_loss(dialect: str) -> None:
    writer = encoder(dialect)
    writer.count_held(17)
    assert writer.losses == (Loss("held", "failed stream", 1, "17 bytes dropped"),)
    with pytest.raises(LossyEncoding, match="held in failed stream"):
        encoder(dialect, strict=True).count_held(17)


@each_dialect
def test_illegal_event_is_refused(dialect: str) -> None:
    writer = encoder(dialect)
    with pytest.raises(LocalProtocolError, match=r"^text_delta comes first"):
        writer.encode(TextDelta(0, "a"))


@each_dialect
def test_model_may_be_named_by_the_caller(dialect: str) -> None:
    field = b'"modelVersion"' if dialect == "gemini" else b'"model"'
    assert field + b':"gpt"' in written(dialect)
    out = written(dialect, MessageStop("end_turn"), model="asked")
    assert field + b':"asked"' in out
    assert b"gpt" not in out


@each_dialect
def test_reasoning_may_be_left_out(dialect: str) -> None:
    events = (BlockStart(0, Reasoning()), ReasoningDelta(0, "hm"))
    assert b"hm" in written(dialect, *events)
    writer = encoder(dialect, reasoning=None)
    assert b"hm" not in b"".join(map(writer.encode, (START, *events)))
    assert writer.losses == (Loss("reasoning", "Reasoning", 1, "dropped"),)


@each_dialect
def test_usage_is_left_out_only_where_clients_ask_for_it(dialect: str) -> None:
    events = (UsageUpdate(Usage(7, 3)), MessageStop("end_turn"))
    count = b'TokenCount":7' if dialect == "gemini" else b'tokens":7'
    assert count in written(dialect, *events)
    left = written(dialect, *events, include_usage=False)
    assert (count in left) == (dialect != "openai_chat")


@each_dialect
def test_end_marker_follows_success_alone(dialect: str) -> None:
    end = b"data: [DONE]\n\n" if dialect == "openai_chat" else b""
    for last, rest in [(MessageStop("end_turn"), end), (StreamError("truncated", "cut"), b"")]:
        writer = encoder(dialect)
        for event in (START, last):
            writer.encode(event)
        assert writer.close() == rest
    assert encoder(dialect).close() == b""


@each_dialect
def test_ping_is_the_keep_alive_of_the_dialect(dialect: str) -> None:
    writer = encoder(dialect)
    assert writer.ping() == writer.encode(Ping()) == PINGS[dialect]


@pytest.mark.parametrize(
    ("dialect", "error", "written_error"),
    [
        (
            "openai_chat",
            StreamError("upstream", "m", "own_code", 429, extra={"type": "own", "param": "p"}),
            {"message": "m", "type": "own", "param": "p", "code": "own_code"},
        ),
        (
            "openai_responses",
            StreamError("upstream", "m", "own_code", 429, extra={"type": "own", "resets_at": 7}),
            {"message": "m", "type": "own", "param": None, "resets_at": 7, "code": "own_code"},
        ),
        (
            "gemini",
            StreamError("upstream", "m", "FAILED_PRECONDITION", 400, extra={"details": [1]}),
            {"code": 400, "message": "m", "status": "FAILED_PRECONDITION", "details": [1]},
        ),
    ],
)
def test_error_of_the_same_dialect_keeps_its_vendor_fields(
    dialect: str, error: StreamError, written_error: dict[str, Any]
) -> None:
    body = encoder(dialect, extras=True).error_body(error)
    assert json.loads(body)["error"] == written_error
    ours = StreamError("truncated", "cut", extra={"event_id": "3"})
    for extras in (False, True):
        other = json.loads(encoder(dialect, extras=extras).error_body(ours))["error"]
        assert set(other) <= {"message", "type", "param", "code", "status"}
