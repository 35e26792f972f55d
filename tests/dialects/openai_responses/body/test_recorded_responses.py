"""Whole responses of real streams: what their terminal events hold."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs
from support.bodies.responses import whole_answer_of
from support.streams.corpus import CorpusStream, each_recording_of, each_stream_of, needs_corpus

from streamnorm import Completed, Message, Reasoning, ServerToolCall, accumulate
from streamnorm._core.codec import ReadContext
from streamnorm._core.events import Event
from streamnorm._core.losses import Losses
from streamnorm.codec import decoder
from streamnorm.dialects.openai_responses.body import CODEC
from streamnorm.recording import Recording

OWN = "openai_responses"


def read(body: dict[str, Any], **context: Any) -> list[Event]:
    return CODEC.read_response(body, ReadContext(**context))


def comparable(message: Message) -> Message:
    """Return what the events and the terminal of one stream cannot say differently.

    The terminal has another encryption of the reasoning; images are cut in the corpus; and
    some servers name the model at the end alone.
    """
    blocks = tuple(
        structs.replace(block, signature=None, issuer=None, id=None)
        if isinstance(block, Reasoning)
        else block
        for block in message.blocks
        if not isinstance(block, ServerToolCall)
    )
    return structs.replace(
        message, id="", model="", blocks=blocks, extra=None, stop_extra=None, block_extras=()
    )


def assert_body_is_stream(data: bytes, *, differs: bool = False) -> None:
    response = whole_answer_of(OWN, data)
    reader = decoder(OWN)
    events = reader.feed(data) + reader.close()
    if response is None or not isinstance(reader.outcome, Completed):
        pytest.skip("no response with output at the end")
    message = accumulate(read(response))
    assert (comparable(message) == comparable(accumulate(events))) is not differs
    again = accumulate(read(CODEC.write_response(message, None, Losses())))
    assert [type(block) for block in again.blocks] == [type(block) for block in message.blocks]
    assert (again.id, again.model, again.text) == (message.id, message.model, message.text)
    assert again.tool_calls == message.tool_calls
    assert again.stop_reason == message.stop_reason
    assert again.raw_stop_reason == message.raw_stop_reason


@each_recording_of(OWN)
def test_terminal_of_a_recording_says_what_its_events_say(recording: Recording) -> None:
    assert_body_is_stream(recording.body)


# Streams whose terminal is not what their events were.
OTHER_TERMINALS = {
    # Another id of the call.
    "vllm__fast-agent__openresponses-openai-gpt-oss-120b-tool_use_weather-stream",
    # Other words in the summary of reasoning that was cut.
    "openai__maruel-genai__openairesponses-gpt-5.6-sol_thinking-GenStream-MaxTokens",
}


@needs_corpus
@each_stream_of(OWN)
def test_terminal_of_a_real_stream_says_what_its_events_say(stream: CorpusStream) -> None:
    assert_body_is_stream(stream.body, differs=stream.name in OTHER_TERMINALS)
