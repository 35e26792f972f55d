"""Which event may follow which."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from support.draws import Draws, draws
from support.streams.event_strategies import event_streams, make_stream, messages

from streamnorm import (
    Block,
    BlockStart,
    BlockStop,
    Citation,
    CitationDelta,
    Event,
    JSONDelta,
    LocalProtocolError,
    Message,
    MessageStart,
    MessageStop,
    Opaque,
    Ping,
    Reasoning,
    ReasoningDelta,
    RedactedReasoning,
    Refusal,
    RefusalDelta,
    ServerToolCall,
    SignatureDelta,
    StreamError,
    Text,
    TextDelta,
    ToolCall,
    Usage,
    UsageUpdate,
    message_events,
)
from streamnorm._core.grammar import EventGrammar
from streamnorm.validation import Violation, validate

START = MessageStart()
STOP = MessageStop("end_turn")
TEXT, STOP_0 = BlockStart(0, Text()), BlockStop(0)
CALL = BlockStart(0, ToolCall("c", "f"))
THOUGHT = BlockStart(0, Reasoning())
ERROR = StreamError("transport", "reset")
USAGE = UsageUpdate(Usage(1))
SIGNATURE = SignatureDelta(0, "s")
CITATION = CitationDelta(0, Citation("url"))

LEGAL: dict[str, list[Event]] = {
    "no block": [START, STOP],
    "pings and opaques anywhere": [
        *(Ping(), Opaque("d", "n", "{}"), START, Ping(), TEXT, Opaque("d", "n", "{}", 0)),
        *(Ping(), STOP_0, Opaque("d", "n", "{}", 0), STOP, Ping(), Opaque("d", "n", "{}")),
    ],
    "usage before a stop": [START, USAGE, TEXT, USAGE, STOP_0, USAGE, STOP],
    "error before the start": [ERROR],
    "error with a block open": [START, TEXT, ERROR],
    "blocks that overlap": [
        *(START, CALL, BlockStart(1, ToolCall("d", "g")), JSONDelta(0, "{"), JSONDelta(1, "{")),
        *(JSONDelta(0, "}"), BlockStop(1), STOP_0, STOP),
    ],
    "two choices": [
        *(START, TEXT, BlockStart(1, Text(), 1), TextDelta(1, "b"), STOP_0, STOP),
        *(BlockStop(1), MessageStop("end_turn", choice=1)),
    ],
    "signed text with a citation after": [START, TEXT, SIGNATURE, CITATION, STOP_0, STOP],
    "arguments after a call's signature": [START, CALL, SIGNATURE, JSONDelta(0, "1"), STOP_0, STOP],
    "every delta in its block": [
        *(START, TEXT, TextDelta(0, "a"), CITATION, STOP_0),
        *(BlockStart(1, Reasoning()), ReasoningDelta(1, "a"), SignatureDelta(1, "s"), BlockStop(1)),
        *(BlockStart(2, Refusal()), RefusalDelta(2, "a"), BlockStop(2)),
        *(BlockStart(3, ServerToolCall("s", "f")), JSONDelta(3, "{}"), BlockStop(3), STOP),
    ],
    "whole block": [START, BlockStart(0, RedactedReasoning("x")), STOP_0, STOP],
}


@pytest.mark.parametrize("events", LEGAL.values(), ids=LEGAL)
def test_legal_stream_has_no_violation(events: list[Event]) -> None:
    assert validate(events) == []


ILLEGAL: list[tuple[str, list[Event], Event, str]] = [
    ("start twice", [START], START, "second message_start, expected one"),
    ("block first", [], TEXT, "block_start comes first, expected message_start"),
    ("delta first", [], TextDelta(0, "a"), "text_delta comes first, expected message_start"),
    ("stop first", [], STOP, "message_stop comes first, expected message_start"),
    ("gap", [START], BlockStart(1, Text()), "block 1 starts, expected 0"),
    ("index again", [START, TEXT, STOP_0], TEXT, "block 0 starts, expected 1"),
    ("negative", [START], BlockStart(-1, Text()), "block -1 starts, expected 0"),
    ("stop unopened", [START], STOP_0, "block 0 stops, expected an open block"),
    ("stop twice", [START, TEXT, STOP_0], STOP_0, "block 0 stops, expected an open block"),
    (
        "delta before its block",
        [START],
        TextDelta(0, "a"),
        "text_delta of block 0, expected an open block",
    ),
    (
        "delta after its block",
        [START, TEXT, STOP_0],
        TextDelta(0, "a"),
        "text_delta of block 0, expected an open block",
    ),
    ("json in text", [START, TEXT], JSONDelta(0, "{"), "json_delta of block 0, which is Text"),
    ("text in call", [START, CALL], TextDelta(0, "a"), "text_delta of block 0, which is ToolCall"),
    (
        "citation in reasoning",
        [START, THOUGHT],
        CITATION,
        "citation_delta of block 0, which is Reasoning",
    ),
    (
        "delta in whole block",
        [START, BlockStart(0, RedactedReasoning("x"))],
        ReasoningDelta(0, "a"),
        "reasoning_delta of block 0, which is RedactedReasoning",
    ),
    (
        "signature of a refusal",
        [START, BlockStart(0, Refusal())],
        SIGNATURE,
        "signature_delta of block 0, which is Refusal",
    ),
    (
        "text after its signature",
        [START, TEXT, SIGNATURE],
        TextDelta(0, "a"),
        "text_delta of block 0, which is signed",
    ),
    (
        "second signature",
        [START, THOUGHT, SIGNATURE],
        SIGNATURE,
        "signature_delta of block 0, which is signed",
    ),
    (
        "stop with a block open",
        [START, TEXT],
        STOP,
        "message_stop with block 0 open, expected block_stop first",
    ),
    ("stop again", [START, STOP], STOP, "second message_stop of choice 0, expected one"),
    (
        "block in a stopped choice",
        [START, STOP],
        TEXT,
        "block 0 starts in choice 0, which has stopped",
    ),
    (
        "usage after a stop",
        [START, STOP],
        USAGE,
        "usage_update after message_stop, expected it before",
    ),
    (
        "error after a stop",
        [START, STOP],
        ERROR,
        "stream_error after message_stop, expected nothing",
    ),
    (
        "anything after an error",
        [START, ERROR],
        Ping(),
        "ping after stream_error, expected nothing",
    ),
    ("error again", [START, ERROR], ERROR, "stream_error after stream_error, expected nothing"),
    (
        "opaque of no block",
        [START],
        Opaque("d", "n", "{}", 0),
        "opaque of block 0, which has not started",
    ),
]


@pytest.mark.parametrize(
    ("before", "event", "problem"), [row[1:] for row in ILLEGAL], ids=[row[0] for row in ILLEGAL]
)
def test_violation_has_the_position_of_its_event(
    before: list[Event], event: Event, problem: str
) -> None:
    assert Violation(len(before), problem) in validate([*before, event])
    grammar = EventGrammar()
    for earlier in before:
        grammar.advance(earlier)
    with pytest.raises(LocalProtocolError) as caught:
        grammar.advance(event)
    assert str(caught.value) == problem


def test_missing_events_are_reported_at_the_end() -> None:
    assert validate([]) == [
        Violation(0, "no event, expected message_start"),
        Violation(0, "choice 0 ends without message_stop"),
    ]
    assert validate([START, TEXT, BlockStart(1, Text(), 2)]) == [
        Violation(3, "block 0 is open, expected block_stop"),
        Violation(3, "block 1 is open, expected block_stop"),
        Violation(3, "choice 0 ends without message_stop"),
        Violation(3, "choice 2 ends without message_stop"),
    ]


def test_one_mistake_is_reported_once() -> None:
    late_start = [BlockStart(0, Text()), TextDelta(0, "a"), STOP_0, STOP]
    gap = [START, BlockStart(4, Text()), TextDelta(4, "a"), BlockStop(4), STOP]
    assert [violation.position for violation in validate(late_start)] == [0]
    assert [violation.position for violation in validate(gap)] == [1]


@given(event_streams(choices=3, failing=True))
def test_generated_stream_is_legal(events: list[Event]) -> None:
    assert validate(events) == []


@given(messages())
def test_stream_of_a_message_is_legal_once_it_has_stopped(message: Message) -> None:
    assume(message.stop_reason is not None)
    assert validate(message_events(message)) == []


FRAME = MessageStart | BlockStart | BlockStop | MessageStop


@given(draws())
def test_stream_without_one_of_its_structural_events_is_illegal(d: Draws) -> None:
    events = make_stream(d, choices=2)
    missing = d.pick([n for n, event in enumerate(events) if isinstance(event, FRAME)])
    lacking = events[:missing] + events[missing + 1 :]
    # An answer without a block is known by its stop alone.
    nothing = isinstance(events[missing], MessageStop) and not any(
        isinstance(event, BlockStart) and event.choice == events[missing].choice for event in events
    )
    assert validate(lacking) or nothing


@given(draws())
def test_stream_with_a_repeated_structural_event_is_illegal(d: Draws) -> None:
    events = make_stream(d, choices=2)
    again = d.pick([event for event in events if isinstance(event, FRAME)])
    assert validate([*events, again])


FILLED: dict[str, Block] = {
    "text": Text("a"),
    "citations": Text(citations=(Citation("k"),)),
    "signed text": Text(signature="s"),
    "reasoning": Reasoning(("a",)),
    "signed reasoning": Reasoning(signature="s"),
    "refusal": Refusal("no"),
    "arguments": ToolCall("c", "f", "{}"),
    "arguments of the server's": ServerToolCall("s", "g", "{}"),
}


@pytest.mark.parametrize("block", FILLED.values(), ids=FILLED)
def test_appendable_block_must_start_empty(block: Block) -> None:
    events = [MessageStart("m"), BlockStart(0, block), BlockStop(0), MessageStop("end_turn")]
    problem = "block 0 starts filled, expected deltas to fill it"
    assert validate(events) == [Violation(1, problem)]


@pytest.mark.parametrize(
    "block",
    [RedactedReasoning("x", "anthropic"), ToolCall("c", "f", signature="s", issuer="google")],
    ids=["redacted reasoning", "signed call"],
)
def test_block_start_may_hold_its_known_fields(block: Block) -> None:
    events = [MessageStart("m"), BlockStart(0, block), BlockStop(0), MessageStop("end_turn")]
    assert validate(events) == []
