"""What Chat Completions can carry of a stream: each kind of loss by hand, and the laws."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from support.streams.event_strategies import event_streams

from streamnorm import (
    Block,
    BlockStart,
    BlockStop,
    Citation,
    CitationDelta,
    Event,
    JSONDelta,
    Loss,
    MessageStart,
    MessageStop,
    Opaque,
    OpaqueBlock,
    Reasoning,
    ReasoningDelta,
    RedactedReasoning,
    Refusal,
    RefusalDelta,
    ServerToolCall,
    ServerToolResult,
    SignatureDelta,
    StopReason,
    Text,
    TextDelta,
    ToolCall,
    Usage,
    UsageUpdate,
    project,
)
from streamnorm._core.losses import Losses
from streamnorm._core.losses.projection import Projector
from streamnorm._registry import capabilities
from streamnorm.validation import validate

START = MessageStart("m", "gpt")
STOP = MessageStop("end_turn")


def block(index: int, block: Block, *deltas: Event, choice: int = 0) -> list[Event]:
    return [BlockStart(index, block, choice), *deltas, BlockStop(index)]


def text(index: int, *pieces: str, choice: int = 0) -> list[Event]:
    return block(index, Text(), *(TextDelta(index, piece) for piece in pieces), choice=choice)


def projected(*events: Event, **options: Any) -> tuple[list[Event], tuple[Loss, ...]]:
    """Return what is left of the body of a stream."""
    left, losses = project([START, *events, STOP], "openai_chat", **options)
    assert (left[0], left[-1]) == (START, STOP)
    return left[1:-1], losses


CARRIED: dict[str, list[Event]] = {
    "text": text(0, "a", " "),
    "text of white space": text(0, "\n"),
    "refusal": block(0, Refusal(), RefusalDelta(0, "no")),
    "reasoning": block(0, Reasoning(), ReasoningDelta(0, "a")),
    "call": block(0, ToolCall("c", "f"), JSONDelta(0, "null"), SignatureDelta(0, "s", "x")),
    "call without arguments": block(0, ToolCall("c", "f")),
    "custom call": block(0, ToolCall("c", "f", kind="custom"), JSONDelta(0, '"')),
    "choices": [*text(0, "a", choice=1), *text(1, "b")],
    "calls that overlap": [
        *(BlockStart(0, ToolCall("c", "f")), BlockStart(1, ToolCall("d", "g"))),
        *(JSONDelta(1, "["), JSONDelta(0, "{}"), BlockStop(0), JSONDelta(1, "]"), BlockStop(1)),
    ],
    "source with an address": block(
        0,
        Text(),
        TextDelta(0, "a"),
        CitationDelta(0, Citation("url_citation", "u", extra={"n": 1})),
    ),
    "its own data": [Opaque("openai_chat", "logprobs", "{}")],
}


@pytest.mark.parametrize("body", CARRIED.values(), ids=CARRIED)
def test_supported_blocks_pass_unchanged(body: list[Event]) -> None:
    stops = [MessageStop("end_turn", choice=1)] if "choice=1" in repr(body) else []
    left, losses = project([START, *body, *stops, STOP], "openai_chat")
    assert left == [START, *body, *stops, STOP]
    assert losses == ()


SIGNED = block(0, Reasoning(), ReasoningDelta(0, "a"), SignatureDelta(0, "s", "x"))
LOST: dict[str, tuple[list[Event], list[Event], Loss]] = {
    "empty text": (block(0, Text()), [], Loss("empty_block", "block", 1, "dropped")),
    "empty reasoning": (block(0, Reasoning()), [], Loss("empty_block", "block", 1, "dropped")),
    "empty refusal": (block(0, Refusal()), [], Loss("empty_block", "block", 1, "dropped")),
    "signature of reasoning": (
        SIGNED,
        block(0, Reasoning(), ReasoningDelta(0, "a")),
        Loss("signature", "Reasoning", 1, "dropped"),
    ),
    "redacted reasoning": (
        block(0, RedactedReasoning("x", "anthropic")),
        [],
        Loss("redacted_reasoning", "RedactedReasoning", 1, "dropped"),
    ),
    "parts are joined": (
        block(0, Reasoning(), ReasoningDelta(0, "a"), ReasoningDelta(0, "b", 1)),
        block(0, Reasoning(), ReasoningDelta(0, "a"), ReasoningDelta(0, "\n\nb")),
        Loss("reasoning_parts", "block", 1, "joined by a blank line"),
    ),
    "server's call": (
        block(0, ServerToolCall("s", "f", kind="mcp_tool_use"), JSONDelta(0, "{}")),
        [],
        Loss("server_tool", "ServerToolCall", 1, "dropped"),
    ),
    "server's result": (
        block(0, ServerToolResult("s", "web_search_tool_result")),
        [],
        Loss("server_tool", "ServerToolResult", 1, "dropped"),
    ),
    "block of its own, of which it has none": (
        block(0, OpaqueBlock("openai_chat", "k", "{}")),
        [],
        Loss("opaque_block", "OpaqueBlock", 1, "dropped"),
    ),
    "source of another with an address": (
        block(
            *(0, Text(), TextDelta(0, "a")),
            CitationDelta(0, Citation("w", "u", "T", "c", 0, 1, {"encrypted_index": "i"})),
        ),
        block(
            *(0, Text(), TextDelta(0, "a")),
            CitationDelta(0, Citation("url_citation", "u", "T", "c", 0, 1)),
        ),
        Loss("citations", "w", 1, "written as url_citation"),
    ),
    "source without an address": (
        block(0, Text(), TextDelta(0, "a"), CitationDelta(0, Citation("char_location"))),
        text(0, "a"),
        Loss("citations", "char_location", 1, "dropped"),
    ),
    "boundary of texts": (
        [*text(0, "a"), *text(1, "b"), *text(2, "c")],
        text(0, "a", "b", "c"),
        Loss("boundaries", "Text", 2, "written as one block"),
    ),
    "boundary of reasoning": (
        [
            *block(0, Reasoning(), ReasoningDelta(0, "a")),
            *block(1, Reasoning(), ReasoningDelta(1, "b")),
        ],
        block(0, Reasoning(), ReasoningDelta(0, "a"), ReasoningDelta(0, "b")),
        Loss("boundaries", "Reasoning", 1, "written as one block"),
    ),
    "data that lost its place": (
        [Opaque("openai_chat", "reasoning_details", "{}")],
        [],
        Loss("opaque", "openai_chat reasoning_details", 1, "dropped"),
    ),
}


@pytest.mark.parametrize(("body", "left", "loss"), LOST.values(), ids=LOST)
def test_unsupported_features_are_counted(body: list[Event], left: list[Event], loss: Loss) -> None:
    assert projected(*body) == (left, (loss,))


def test_block_between_texts_separates_them() -> None:
    body = [*text(0, "a"), *block(1, ToolCall("c", "f")), *text(2, "b")]
    assert projected(*body) == (body, ())


def test_texts_around_a_dropped_block_merge() -> None:
    thinking = block(2, Reasoning())
    result = block(1, ServerToolResult("s", "k"))
    left, losses = projected(*text(0, "a"), *result, *thinking, *text(3, "b"))
    assert left == text(0, "a", "b")
    assert [loss.feature for loss in losses] == ["server_tool", "empty_block", "boundaries"]


def test_texts_of_different_choices_stay_apart() -> None:
    body = [*text(0, "a"), *text(1, "b", choice=1), *text(2, "c")]
    events = [START, *body, MessageStop("end_turn", choice=1), STOP]
    left, losses = project(events, "openai_chat")
    assert [event.text for event in left if isinstance(event, TextDelta)] == ["a", "b", "c"]
    assert validate(left) == []
    assert losses == (Loss("boundaries", "Text", 1, "written as one block"),)


def test_citation_before_its_text_is_held() -> None:
    source = CitationDelta(0, Citation("url_citation", "u"))
    body = [BlockStart(0, Text()), source, TextDelta(0, "a"), BlockStop(0)]
    assert projected(*body) == (body, ())
    assert projected(BlockStart(0, Text()), source, BlockStop(0)) == (
        *([], (Loss("empty_block", "block", 1, "dropped"),)),
    )


# Options


def test_reasoning_details_carry_signatures() -> None:
    redacted = block(1, RedactedReasoning("x", "google"))
    lone = block(2, Reasoning(), SignatureDelta(2, "t", "x"))
    body = [*SIGNED, *redacted, *lone]
    assert projected(*body, reasoning="reasoning_details") == (body, ())


def test_signature_separates_reasoning() -> None:
    body = [
        *(*SIGNED, *block(1, Reasoning(), ReasoningDelta(1, "b"))),
        *block(2, Reasoning(), ReasoningDelta(2, "c"), SignatureDelta(2, "t", "x")),
    ]
    left, losses = projected(*body, reasoning="reasoning_details")
    assert left == [
        *SIGNED,
        *(BlockStart(1, Reasoning()), ReasoningDelta(1, "b"), ReasoningDelta(1, "c")),
        *(SignatureDelta(1, "t", "x"), BlockStop(1)),
    ]
    assert losses == (Loss("boundaries", "Reasoning", 1, "written as one block"),)


def test_signature_without_text_is_not_that_of_the_previous_text() -> None:
    body = [*text(0, "a"), *block(1, Reasoning(), SignatureDelta(1, "t", "x"))]
    assert projected(*body, reasoning="reasoning_details") == (body, ())


@pytest.mark.parametrize("dialect", ["anthropic", "openai_chat"])
def test_reasoning_may_be_omitted(dialect: str) -> None:
    body = [*SIGNED, *block(1, RedactedReasoning("x")), *text(2, "a")]
    events = [START, *body, UsageUpdate(Usage(1, 1)), STOP]
    left, losses = project(events, dialect, reasoning=None)
    assert left[1:-2] == text(0, "a")
    assert losses == (
        Loss("reasoning", "Reasoning", 1, "dropped"),
        Loss("redacted_reasoning", "RedactedReasoning", 1, "dropped"),
    )


@pytest.mark.parametrize(
    ("usage", "lost"),
    [
        (Usage(), []),
        (Usage(1, 2), []),
        (Usage(1), ["output_tokens"]),
        (Usage(reasoning_tokens=1), ["input_tokens", "output_tokens"]),
    ],
)
def test_token_counts_are_written_if_any_is_known(usage: Usage, lost: list[str]) -> None:
    losses = tuple(Loss("usage_unknown", name, 1, "written as 0") for name in lost)
    events = [START, UsageUpdate(usage), STOP]
    assert project(events, "openai_chat")[1] == losses
    assert project(events, "openai_chat", include_usage=False)[1] == ()


# The end


@pytest.mark.parametrize("reason", ["end_turn", "max_tokens", "tool_use", "refusal"])
def test_supported_stop_reason_passes(reason: StopReason) -> None:
    events = [START, MessageStop(reason, "raw")]
    assert project(events, "openai_chat") == (events, ())


@pytest.mark.parametrize("reason", ["pause", "other", "stop_sequence"])
def test_unsupported_stop_reason_is_counted(reason: StopReason) -> None:
    left, losses = project([START, MessageStop(reason, "raw")], "openai_chat")
    assert left == [START, MessageStop("end_turn", "raw")]
    assert losses == (Loss("stop_reason", reason, 1, "written as end_turn"),)


def test_named_stop_sequence_passes() -> None:
    events = [START, MessageStop("stop_sequence", "stop_sequence", "END")]
    assert project(events, "openai_chat") == (events, ())


def test_unsupported_service_tier_is_lost_once() -> None:
    said = {"service_tier": "batch"}
    events = [
        *(MessageStart("m", "gpt", said), UsageUpdate(Usage(1, 1, extra=said))),
        MessageStop("end_turn", extra={"service_tier": "default"}),
    ]
    assert project(events, "openai_chat")[1] == (Loss("service_tier", "batch", 1, "dropped"),)


# The laws


@given(event_streams(choices=3, failing=True))
def test_projected_stream_is_legal(events: list[Event]) -> None:
    assert validate(project(events, "openai_chat")[0]) == []


@given(event_streams(choices=2, failing=True, calls_only=True))
def test_projection_is_idempotent(events: list[Event]) -> None:
    once, _ = project(events, "openai_chat")
    again, losses = project(once, "openai_chat")
    assert again == once
    assert {loss.feature for loss in losses} <= {"usage_unknown"}


def test_passthrough_delta_names_the_deltas_that_pass_unchanged() -> None:
    projector = Projector(capabilities("openai_chat"), Losses())
    events = [
        *(
            START,
            BlockStart(0, Text()),
            BlockStart(1, Reasoning()),
            BlockStart(2, ToolCall("c", "f")),
        ),
        *(BlockStart(3, Refusal()), BlockStart(4, ServerToolResult("s", "k"))),
    ]
    for event in events:
        projector.push(event)
    assert [projector.passthrough_delta(index)[0] for index in range(6)] == [None] * 6
    for event in (
        TextDelta(0, "a"),
        ReasoningDelta(1, "a", 2),
        JSONDelta(2, "{"),
        RefusalDelta(3, "a"),
    ):
        projector.push(event)
    assert [projector.passthrough_delta(index) for index in range(4)] == [
        *((TextDelta, 0), (ReasoningDelta, 2), (JSONDelta, 0), (None, 0)),
    ]
    for index in range(3):
        projector.push(BlockStop(index))
    assert [projector.passthrough_delta(index)[0] for index in range(3)] == [None] * 3
