"""Frames and the message level of `ConverseStream`."""

from __future__ import annotations

from typing import Any

import pytest
from support.bedrock_converse.frames import (
    START,
    decode,
    delta,
    end,
    event,
    events_of,
    exception,
    metadata,
    notes_of,
    outcome_of,
    payload,
    stop,
    text,
    tool,
    tool_input,
)

from streamnorm import (
    BlockStart,
    BlockStop,
    Completed,
    Failed,
    JSONDelta,
    Limits,
    MessageStart,
    MessageStop,
    Opaque,
    StreamError,
    Text,
    TextDelta,
    ToolCall,
    Truncated,
    Usage,
    UsageUpdate,
)
from streamnorm.codec import EVENTSTREAM, SSE, decoder

METRICS = {"metrics": {"latencyMs": 500}}
HELLO = (START, text(0, "Hel"), text(0, "lo"), stop(0))


def test_text_is_decoded_without_a_start() -> None:
    events, outcome, notes = decode(*HELLO, end())
    assert events == [
        MessageStart(),
        BlockStart(0, Text()),
        TextDelta(0, "Hel"),
        TextDelta(0, "lo"),
        BlockStop(0),
        UsageUpdate(Usage(12, 3)),
        MessageStop("end_turn", "end_turn", extra=METRICS),
    ]
    assert outcome == Completed("end_turn", Usage(12, 3))
    assert notes == ()


def test_parallel_calls_are_decoded() -> None:
    events, outcome, _ = decode(
        START,
        *(tool(0, "a", "f"), tool_input(0, ""), tool_input(0, '{"x"'), tool_input(0, ":1}")),
        *(stop(0), tool(2, "b", "g", type="tool_use"), stop(2), end("tool_use")),
    )
    assert events[1:-2] == [
        BlockStart(0, ToolCall("a", "f")),
        JSONDelta(0, '{"x"'),
        JSONDelta(0, ":1}"),
        BlockStop(0),
        # pydantic-ai's recording; only `server_tool_use` is a call of the server.
        BlockStart(1, ToolCall("b", "g"), extra={"type": "tool_use"}),
        BlockStop(1),
    ]
    assert outcome == Completed("tool_use", Usage(12, 3))


def test_message_waits_for_its_tokens() -> None:
    reader = decoder("bedrock_converse")
    reader.feed(b"".join(HELLO) + event("messageStop", stopReason="end_turn"))
    assert reader.outcome is None
    assert reader.lacks_only_terminal
    assert [type(e) for e in reader.feed(metadata())] == [UsageUpdate, MessageStop]
    assert isinstance(reader.outcome, Completed)


def test_message_without_tokens_ends_with_the_source() -> None:
    stopped = event("messageStop", stopReason="max_tokens")
    events, outcome, notes = decode(*HELLO, stopped)
    assert events[-1] == MessageStop("max_tokens", "max_tokens")
    assert outcome == Completed("max_tokens", Usage())
    assert [note.kind for note in notes] == ["no_metadata"]
    # Half a message is a cut, and so is a connection that breaks.
    assert isinstance(outcome_of(*HELLO, stopped, metadata()[:20]), Truncated)
    reader = decoder("bedrock_converse")
    reader.feed(b"".join([*HELLO, stopped]))
    reader.abort(ConnectionResetError())
    assert isinstance(reader.outcome, Truncated)


@pytest.mark.parametrize("cut", [HELLO, HELLO[:2], HELLO[:1], ()])
def test_stream_without_its_stop_is_truncated(cut: tuple[bytes, ...]) -> None:
    assert isinstance(outcome_of(*cut), Truncated)


def test_tokens_before_the_stop_are_read() -> None:
    events, outcome, notes = decode(*HELLO, metadata(), event("messageStop", stopReason="end_turn"))
    assert events[-2:] == [
        UsageUpdate(Usage(12, 3)),
        MessageStop("end_turn", "end_turn", extra=METRICS),
    ]
    assert outcome == Completed("end_turn", Usage(12, 3))
    assert notes == ()


def test_tokens_may_be_missing_in_the_metadata() -> None:
    events, outcome, _ = decode(
        *HELLO, event("messageStop", stopReason="end_turn"), event("metadata")
    )
    assert events[-1] == MessageStop("end_turn", "end_turn")
    assert outcome == Completed("end_turn", Usage())


def test_other_fields_of_the_end_are_kept() -> None:
    events, _, _ = decode(
        START,
        event(
            "messageStop",
            stopReason="stop_sequence",
            additionalModelResponseFields={"stop_sequence": "END"},
        ),
        metadata(
            trace={"promptRouter": {"invokedModelId": "m"}},
            serviceTier={"type": "priority"},
            performanceConfig={"latency": "optimized"},
        ),
    )
    assert events[-1] == MessageStop(
        "stop_sequence",
        "stop_sequence",
        "END",
        extra={
            "additionalModelResponseFields": {"stop_sequence": "END"},
            **METRICS,
            "trace": {"promptRouter": {"invokedModelId": "m"}},
            "performanceConfig": {"latency": "optimized"},
            "service_tier": "priority",
        },
    )


@pytest.mark.parametrize(
    ("fields", "sequence"),
    [
        ({"delta": {"stop_sequence": "X"}}, "X"),
        ({"delta": {"stop_sequence": None}}, None),
        ([], None),
    ],
)
def test_stop_sequence_may_stand_in_a_delta(fields: Any, sequence: str | None) -> None:
    last = event("messageStop", stopReason="stop_sequence", additionalModelResponseFields=fields)
    stopped = events_of(START, last, metadata(serviceTier={}))[-1]
    assert isinstance(stopped, MessageStop)
    assert stopped.stop_sequence == sequence


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        ("end_turn", "end_turn"),
        ("tool_use", "end_turn"),  # no call of the client
        ("max_tokens", "max_tokens"),
        ("model_context_window_exceeded", "max_tokens"),
        ("stop_sequence", "stop_sequence"),
        ("guardrail_intervened", "refusal"),
        ("content_filtered", "refusal"),
        ("malformed_model_output", "other"),
        ("malformed_tool_use", "other"),
        ("new", "other"),
    ],
)
def test_stop_reason_is_mapped(raw: str, reason: str) -> None:
    outcome = outcome_of(*HELLO, end(raw))
    assert isinstance(outcome, Completed)
    assert outcome.reason == reason


def test_missing_start_is_noted() -> None:
    for first in (text(0, "a"), delta(0, reasoningContent={"text": "a"}), tool(0)):
        assert notes_of(first, stop(0), end()) == ["missing_start"]
    assert decode(*HELLO[1:], end())[0][0] == MessageStart()


def test_second_start_is_noted_before_content_and_refused_after_it() -> None:
    assert notes_of(START, *HELLO, end()) == ["repeated_message_start"]
    outcome = outcome_of(*HELLO, START)
    assert isinstance(outcome, Failed)
    assert outcome.error.message == "second messageStart, expected one message"


def test_unknown_fields_of_the_start_are_kept() -> None:
    assert events_of(event("messageStart", role="assistant", x=1))[0] == MessageStart(
        extra={"x": 1}
    )


def test_unknown_event_is_opaque() -> None:
    events = events_of(START, text(0, "a"), event("new", contentBlockIndex=0, x=1), event("newer"))
    assert events[3:5] == [
        Opaque("bedrock_converse", "new", '{"contentBlockIndex":0,"x":1}', 0),
        Opaque("bedrock_converse", "newer", "{}"),
    ]
    assert events_of(START, payload("new", b"?"))[1] == Opaque("bedrock_converse", "new", '"?"')
    assert len(events_of(START, payload("contentBlockDelta", b""), end())) == 3
    outcome = outcome_of(START, payload("n" * 513, b"{}"))
    assert isinstance(outcome, Failed)
    assert outcome.error.code == "max_id_chars"
    assert events_of(START, payload("new", b"[1]"))[1] == Opaque("bedrock_converse", "new", "[1]")


@pytest.mark.parametrize(
    ("broken", "problem"),
    [
        (payload("contentBlockDelta", b"{"), "no JSON in 1 characters"),
        (payload("messageStop", b"[]"), "messageStop is an array, expected an object"),
        (event("messageStop"), "messageStop without a stopReason, expected one"),
        (event("contentBlockDelta", contentBlockIndex=0), "delta is null, expected an object"),
        (
            event("contentBlockStop", contentBlockIndex="0"),
            "contentBlockIndex is a string of 1 characters, expected an integer",
        ),
        (
            event("messageStop", stopReason="end_turn") + text(0, "a"),
            "contentBlockDelta after messageStop, expected metadata",
        ),
    ],
)
def test_broken_event_is_malformed(broken: bytes, problem: str) -> None:
    outcome = outcome_of(START, broken)
    assert isinstance(outcome, Failed)
    assert (outcome.error.kind, outcome.error.message) == ("malformed", problem)


def test_index_may_be_missing() -> None:
    said = event("contentBlockDelta", delta={"text": "a"})
    assert events_of(START, said, event("contentBlockStop"), end())[1:4] == [
        BlockStart(0, Text()),
        TextDelta(0, "a"),
        BlockStop(0),
    ]


def test_exception_ends_the_stream() -> None:
    events, outcome, _ = decode(*HELLO, exception("throttlingException", message="Too many."))
    error = StreamError("upstream", "Too many.", "throttlingException", 429, retryable=True)
    assert events[-1] == error
    assert outcome == Failed(error)


def test_exception_after_the_stop_fails_the_message() -> None:
    failed = exception("internalServerException", message="It broke.")
    outcome = outcome_of(*HELLO, event("messageStop", stopReason="end_turn"), failed)
    assert isinstance(outcome, Failed)
    assert outcome.error.status_hint == 500


def test_exception_is_read_as_a_server_sent_event() -> None:
    reader = decoder("bedrock_converse", framing=SSE)
    (error,) = reader.feed(b'event: validationException\ndata: {"message":"No."}\n\n')
    assert error == StreamError("upstream", "No.", "validationException", 400, retryable=False)


def test_too_large_fields_end_the_stream() -> None:
    limits = Limits(max_accumulated_bytes=100)
    stopped = event("messageStop", stopReason="end_turn")
    outcome = outcome_of(START, stopped, metadata(trace={"x": "y" * 200}), limits=limits)
    assert isinstance(outcome, Failed)
    assert outcome.error.code == "max_accumulated_bytes"


@pytest.mark.parametrize(
    ("counts", "usage"),
    [
        (
            {"inputTokens": 5, "outputTokens": 2, "totalTokens": 17, "cacheReadInputTokens": 10},
            Usage(15, 2, 10),
        ),
        # Nova's older names.
        (
            {"inputTokens": 5, "outputTokens": 2, "cacheWriteInputTokenCount": 4},
            Usage(9, 2, None, 4),
        ),
        (
            {"outputTokens": 2, "serverToolUsage": {"x": 1}},
            Usage(None, 2, extra={"serverToolUsage": {"x": 1}}),
        ),
        ({"inputTokens": "5"}, Usage()),
    ],
)
def test_tokens_are_counted_with_the_cache(counts: dict[str, Any], usage: Usage) -> None:
    outcome = outcome_of(START, event("messageStop", stopReason="end_turn"), metadata(usage=counts))
    assert isinstance(outcome, Completed)
    assert outcome.usage == usage


def test_total_says_that_the_input_has_the_cache() -> None:
    counts = {"inputTokens": 15, "outputTokens": 2, "totalTokens": 17, "cacheReadInputTokens": 10}
    _, outcome, notes = decode(
        START, event("messageStop", stopReason="end_turn"), metadata(usage=counts)
    )
    assert isinstance(outcome, Completed)
    assert outcome.usage == Usage(15, 2, 10)
    assert [note.kind for note in notes] == ["cached_input"]


@pytest.mark.parametrize("dialect", [None, "bedrock_converse"])
def test_message_has_the_id_of_its_response(dialect: str | None) -> None:
    """Also one without a start."""
    for messages in (HELLO, HELLO[1:]):
        reader = decoder(dialect, framing=EVENTSTREAM)
        reader.response_id = "req-1"
        assert reader.feed(b"".join(messages))[0] == MessageStart("req-1")
