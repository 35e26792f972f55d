"""The unified events as values: JSON, immutability, matching by position."""

from __future__ import annotations

import msgspec
import pytest

from streamnorm import (
    Abandoned,
    BlockStart,
    BlockStop,
    Citation,
    CitationDelta,
    Completed,
    Event,
    Failed,
    JSONDelta,
    MessageStart,
    MessageStop,
    Opaque,
    Outcome,
    Ping,
    ReasoningDelta,
    RefusalDelta,
    SignatureDelta,
    StreamError,
    Text,
    TextDelta,
    ToolCall,
    Truncated,
    Usage,
    UsageUpdate,
)

EVENTS: list[tuple[Event, str]] = [
    (
        MessageStart("m1", "gpt", {"created": 1}),
        '{"event":"message_start","id":"m1","model":"gpt","extra":{"created":1}}',
    ),
    (MessageStart(), '{"event":"message_start"}'),
    (
        BlockStart(0, Text(), 1, {"a": None}),
        '{"event":"block_start","index":0,"block":{"type":"text"},"choice":1,"extra":{"a":null}}',
    ),
    (
        BlockStart(2, ToolCall("c", "f")),
        '{"event":"block_start","index":2,"block":{"type":"tool_call","id":"c","name":"f"}}',
    ),
    (TextDelta(0, "é"), '{"event":"text_delta","index":0,"text":"é"}'),
    (ReasoningDelta(1, "t", 2), '{"event":"reasoning_delta","index":1,"text":"t","part":2}'),
    (ReasoningDelta(1, "t"), '{"event":"reasoning_delta","index":1,"text":"t"}'),
    (RefusalDelta(1, "no"), '{"event":"refusal_delta","index":1,"text":"no"}'),
    (JSONDelta(1, '{"a'), '{"event":"json_delta","index":1,"partial_json":"{\\"a"}'),
    (
        SignatureDelta(1, "s==", "google"),
        '{"event":"signature_delta","index":1,"signature":"s==","issuer":"google"}',
    ),
    (
        CitationDelta(0, Citation("url", url="u", start=0, end=2)),
        '{"event":"citation_delta","index":0,'
        '"citation":{"kind":"url","url":"u","start":0,"end":2}}',
    ),
    (BlockStop(7), '{"event":"block_stop","index":7}'),
    (
        UsageUpdate(Usage(1, 2, 3, 4, 5, {"x": 6})),
        '{"event":"usage_update","usage":{"input_tokens":1,"output_tokens":2,'
        '"cache_read_tokens":3,"cache_write_tokens":4,"reasoning_tokens":5,"extra":{"x":6}}}',
    ),
    (
        MessageStop("stop_sequence", "stop", "END", 1, {"z": 1}),
        '{"event":"message_stop","reason":"stop_sequence","raw_reason":"stop",'
        '"stop_sequence":"END","choice":1,"extra":{"z":1}}',
    ),
    (
        StreamError("upstream", "busy", "overloaded", 529, True, {"p": 1}),
        '{"event":"stream_error","kind":"upstream","message":"busy","code":"overloaded",'
        '"status_hint":529,"retryable":true,"extra":{"p":1}}',
    ),
    (Ping(), '{"event":"ping"}'),
    (
        Opaque("openai_chat", "logprobs", "{}", 3),
        '{"event":"opaque","dialect":"openai_chat","name":"logprobs","data":"{}","index":3}',
    ),
]
OUTCOMES: list[tuple[Outcome, str]] = [
    (
        Completed("end_turn", Usage(1), ("no_done",)),
        '{"type":"completed","reason":"end_turn","usage":{"input_tokens":1},"lenient":["no_done"]}',
    ),
    (
        Failed(StreamError("malformed", "m")),
        '{"type":"failed","error":{"event":"stream_error","kind":"malformed","message":"m",'
        '"code":null,"status_hint":null,"retryable":null,"extra":null}}',
    ),
    (
        Truncated(StreamError("stalled", "m")),
        '{"type":"truncated","error":{"event":"stream_error","kind":"stalled","message":"m"}}',
    ),
    (Abandoned(), '{"type":"abandoned"}'),
]
NAMES = [type(event).__name__ for event, _ in EVENTS]


@pytest.mark.parametrize(("event", "text"), EVENTS, ids=NAMES)
def test_event_is_written_under_its_name_and_read_back(event: Event, text: str) -> None:
    assert msgspec.json.encode(event).decode() == text
    assert msgspec.json.decode(text, type=Event) == event


@pytest.mark.parametrize(("outcome", "text"), OUTCOMES, ids=lambda v: type(v).__name__)
def test_outcome_survives_json(outcome: Outcome, text: str) -> None:
    assert msgspec.json.decode(text, type=Outcome) == outcome
    assert msgspec.json.decode(msgspec.json.encode(outcome), type=Outcome) == outcome


def test_table_holds_every_event() -> None:
    assert {type(event) for event, _ in EVENTS} == set(Event.__args__)


@pytest.mark.parametrize("event", [event for event, _ in EVENTS], ids=NAMES)
def test_event_is_immutable(event: Event) -> None:
    for field in event.__struct_fields__ or ("index",):
        with pytest.raises(AttributeError):
            setattr(event, field, None)


@pytest.mark.parametrize("event", [event for event, _ in EVENTS], ids=NAMES)
def test_event_matches_by_position(event: Event) -> None:
    assert type(event).__match_args__ == event.__struct_fields__
    assert type(event)(*(getattr(event, field) for field in type(event).__match_args__)) == event


def test_text_delta_is_unpacked_by_a_pattern() -> None:
    match TextDelta(3, "hello"):
        case TextDelta(index, text):
            assert (index, text) == (3, "hello")
        case _:
            pytest.fail("no match")


@pytest.mark.parametrize("text", ['{"event":"text_delta","index":0}', '{"event":"other"}', "{}"])
def test_json_that_is_no_event_is_refused(text: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(text, type=Event)
