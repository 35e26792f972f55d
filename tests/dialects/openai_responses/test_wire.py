"""Structs of delta events: what they accept, and what is read in full."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.openai_responses.frames import START, args, completed, decode, delta, part, text

from streamnorm import JSONDelta, ReasoningDelta, TextDelta
from streamnorm._core.json import FAST_ERRORS
from streamnorm.dialects.openai_responses import wire

TEXT = "response.output_text.delta"


def payload(kind: str = TEXT, **fields: Any) -> str:
    return json.dumps({"type": kind, **fields})


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (payload(delta="a"), wire.OutputTextDelta("a")),
        (
            payload(delta="é", output_index=2, item_id="i", content_index=1, obfuscation="x"),
            wire.OutputTextDelta("é", 2, "i", part=1),
        ),
        (payload(delta="a", output_index=None, sequence_number=4), wire.OutputTextDelta("a", None)),
        (
            payload("response.function_call_arguments.delta", delta="{", item_id="i"),
            wire.ArgumentsDelta("{", None, "i"),
        ),
        (
            payload("response.reasoning_summary_text.delta", delta="a", summary_index=3),
            wire.SummaryTextDelta("a", part=3),
        ),
        (
            payload("response.reasoning_text.delta", delta="a", content_index=3),
            wire.ReasoningTextDelta("a", part=3),
        ),
    ],
)
def test_deltas_are_decoded_whatever_other_fields_they_have(
    data: str, expected: wire.DeltaEvent
) -> None:
    read = wire.decode_delta(data)
    read.sequence_number = None
    assert read == expected
    assert json.loads(data)["type"] == wire.DELTA_TYPES[type(read)]


@pytest.mark.parametrize(
    "data",
    [
        payload(),
        payload(delta=None),
        payload(delta="\ud83d"),
        payload(delta="a", output_index="0"),
        payload(delta="a", sequence_number=0.5),
        payload("response.refusal.delta", delta="a"),
        payload("response.output_text.done", text="a"),
        "[DONE]",
        "",
    ],
)
def test_unusual_delta_is_left_to_the_slow_path(data: str) -> None:
    with pytest.raises(FAST_ERRORS):
        wire.decode_delta(data)


def test_fast_and_slow_path_give_the_same_events() -> None:
    """A member that the structs reject sends the whole frame to the slow path."""
    ways = []
    for odd in ({}, {"odd": "\ud83d"}):
        frames = [
            delta("reasoning_summary_text", "s", 0, summary_index=1, **odd),
            delta("reasoning_text", "r", 1, content_index=0, **odd),
            text("t", 2, **odd),
            args("{}", 3, **odd),
        ]
        call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
        output = [{"type": "reasoning"}, {"type": "reasoning"}, {"type": "message"}, call]
        output[2]["content"] = [part("t")]  # type: ignore[assignment] # objects of JSON
        ways.append(decode(START, *frames, completed(*output)))
    assert ways[0] == ways[1]
    deltas = [ReasoningDelta(0, "s"), ReasoningDelta(1, "r"), TextDelta(2, "t"), JSONDelta(3, "{}")]
    assert [event for event in ways[0].events if event in deltas] == deltas
