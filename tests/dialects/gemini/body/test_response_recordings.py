"""Whole responses, there and back, and those of recorded streams."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from msgspec import structs
from support.bodies.responses import whole_answer_of
from support.streams.content import content_of, decode
from support.streams.corpus import CorpusStream, each_recording_of, each_stream_of
from support.streams.event_strategies import messages

from streamnorm import (
    Completed,
    Event,
    Message,
    MessageStop,
    ServerToolCall,
    StreamError,
    ToolCall,
    accumulate,
    message_events,
    project,
)
from streamnorm._core.codec import ReadContext
from streamnorm._core.json import compact
from streamnorm._core.losses import Losses
from streamnorm._core.losses.executed_calls import without_executed_calls
from streamnorm.dialects.gemini.body import CODEC
from streamnorm.recording import Recording


def read(body: dict[str, Any], **context: Any) -> list[Event]:
    return CODEC.read_response(body, ReadContext(**context))


def assert_comes_back(message: Message) -> None:
    """Check that a written message is read as the projection leaves it, losses included."""
    losses = Losses()
    body = CODEC.write_response(message, None, losses)
    projected, lost = project(message_events(message), "gemini", extras=True)
    # Fields that only the vendor of the answer knows are no content.
    counted = {loss for loss in losses.list() if loss.feature != "extra"}
    assert counted == set(lost)  # a stream may count a call when a later block has come
    if any(isinstance(event, StreamError) for event in projected):
        assert body["candidates"][0]["finishReason"] == "MALFORMED_FUNCTION_CALL"
        return
    assert json_values(read(body)) == json_values(projected)


def json_values(events: list[Event]) -> Message:
    """Return the message of a stream, with arguments as a body has them: by their value."""
    message = content_of(events, "gemini").messages[0]
    blocks = tuple(
        structs.replace(block, arguments=compact(json.loads(block.arguments)))
        if isinstance(block, ToolCall | ServerToolCall)
        else block
        for block in message.blocks
    )
    return structs.replace(message, blocks=blocks, stop_sequence=None)


@given(messages())
def test_a_written_message_is_read_as_projected(message: Message) -> None:
    """Calls that an agent has executed are left out before the room writes the message."""
    if message.stop_reason is not None:
        assert_comes_back(without_executed_calls(message, Losses()))


@each_recording_of("gemini", "anthropic", "openai_chat", "openai_responses", "gemini_interactions")
def test_a_recorded_answer_comes_back(recording: Recording) -> None:
    decoded = decode([recording.body], str(recording.dialect), server=recording.server)
    if any(isinstance(event, MessageStop) for event in decoded.events):
        assert_comes_back(accumulate(decoded.events))


@each_stream_of("gemini")
def test_a_captured_answer_comes_back(stream: CorpusStream) -> None:
    decoded = decode([stream.body], "gemini")
    if any(isinstance(event, MessageStop) for event in decoded.events):
        assert_comes_back(accumulate(decoded.events))


@each_stream_of("gemini")
def test_a_body_is_read_as_its_stream(stream: CorpusStream) -> None:
    decoded = decode([stream.body], "gemini")
    if isinstance(decoded.outcome, Completed) and stream.body.startswith(b"data:"):
        body = whole_answer_of("gemini", stream.body)
        assert body is not None
        assert json_values(read(body)) == json_values(decoded.events)
