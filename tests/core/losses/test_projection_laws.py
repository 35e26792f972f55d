"""Laws of the projector."""

from __future__ import annotations

import json

from hypothesis import given
from msgspec import structs
from support.streams.event_strategies import event_streams
from support.streams.signatures import carried_back

from streamnorm import Block, BlockStart, BlockStop, Event, Message, Reasoning, accumulate, project
from streamnorm._core.grammar import Sequencer
from streamnorm.validation import validate


def block(index: int, block: Block, *deltas: Event) -> list[Event]:
    return [BlockStart(index, block), *deltas, BlockStop(index)]


@given(event_streams(choices=2, failing=True))
def test_projected_stream_is_legal(events: list[Event]) -> None:
    assert validate(project(events, "anthropic")[0]) == []


@given(event_streams(choices=2, failing=True))
def test_projection_is_idempotent(events: list[Event]) -> None:
    once, _ = project(events, "anthropic")
    again, losses = project(once, "anthropic")
    assert again == once
    assert {loss.feature for loss in losses} <= {"usage_unknown"}


@given(event_streams())
def test_without_losses_the_message_is_the_same(events: list[Event]) -> None:
    # Where blocks overlap, one may overtake text that has not got beyond white space.
    sequencer = Sequencer()
    sequential = [passed for event in events for passed in sequencer.push(event)]
    left, losses = project(sequential, "anthropic")
    if {loss.feature for loss in losses} <= {"usage_unknown"}:
        assert said(carried_back(accumulate(left))) == said(accumulate(events))


def said(message: Message) -> Message:
    """Return a message without the parts of reasoning that say nothing."""
    blocks = tuple(
        structs.replace(block, parts=tuple(filter(None, block.parts)))
        if isinstance(block, Reasoning)
        else block
        for block in message.blocks
    )
    return structs.replace(message, blocks=blocks)


@given(event_streams())
def test_custom_tool_input_is_the_string_of_the_written_object(events: list[Event]) -> None:
    before = [call for call in accumulate(events).tool_calls if call.kind == "custom"]
    after = accumulate(project(events, "anthropic")[0]).tool_calls
    wrapped = [
        json.loads(call.arguments)["input"] for call in after if '{"input":' in call.arguments
    ]
    assert wrapped == [call.arguments for call in before]
