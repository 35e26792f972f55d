"""The same answer as a stream and as a whole body: what a gateway turns into each other."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given
from support.bodies.json_values import value_or_text
from support.streams.content import PROVIDERS, decode, encode, transcode
from support.streams.corpus import each_recording_of
from support.streams.event_strategies import messages
from support.streams.run_comparison import seeded_sample

from streamnorm import (
    Completed,
    EncodeError,
    Message,
    Reasoning,
    Refusal,
    ServerToolCall,
    Text,
    ToolCall,
    UpstreamError,
    accumulate,
    decode_message,
    encode_message,
    message_events,
)
from streamnorm.recording import Recording

each_target = pytest.mark.parametrize("target", PROVIDERS)

CUT_IN_ARGUMENTS = {
    "anthropic/eager-input-is-no-json",
    "anthropic/max-tokens-in-arguments",
    "openai/length-in-arguments",
    "openai/incomplete-arguments",
    "proxy/no-message-delta-in-arguments",
}
"""Recordings with arguments that are no JSON: dialects that have objects lose these calls, or
have no form for the answer."""


def said(message: Message) -> dict[str, Any]:
    """Return what a message says, in a form that both a stream and a body of it have.

    A body may order blocks anew, and writes arguments that are an object in its own way.
    """
    calls = [block for block in message.blocks if isinstance(block, ToolCall | ServerToolCall)]
    texts = {
        kind: "".join(block.text for block in message.blocks if isinstance(block, kind))
        for kind in (Text, Refusal)
    }
    # A part without text is a part of a stream alone.
    thoughts = [block.text for block in message.blocks if isinstance(block, Reasoning)]
    texts[Reasoning] = "".join(thoughts).replace("\n\n", "")
    return {
        "head": (message.id, message.model),
        "texts": texts,
        "calls": [(call.id, call.name, value_or_text(call.arguments)) for call in calls],
        "end": (message.stop_reason, message.stop_sequence),
        "tokens": (message.usage.input_tokens, message.usage.output_tokens),
    }


@each_recording_of(*PROVIDERS)
def test_whole_body_says_what_the_stream_says(recording: Recording) -> None:
    if not isinstance(recording.outcome, Completed) or recording.name in CUT_IN_ARGUMENTS:
        return
    source, message = str(recording.dialect), recording.message()
    for target in seeded_sample(PROVIDERS, recording.name, 2):
        out, _ = transcode(
            [recording.body], source, target, server=recording.server, verbatim=False
        )
        streamed = accumulate(decode([out], target).events)
        body = encode_message(message, target).body
        assert said(decode_message(body, target)) == said(streamed), target


@each_recording_of(*PROVIDERS)
def test_body_goes_out_as_a_stream_that_says_the_same(recording: Recording) -> None:
    """A whole body from upstream, for a client that asked for a stream of its own dialect."""
    if not isinstance(recording.outcome, Completed) or recording.name in CUT_IN_ARGUMENTS:
        return
    source = str(recording.dialect)
    body = encode_message(recording.message(), source).body
    message = decode_message(body, source)
    for target in seeded_sample(PROVIDERS, f"{recording.name}, body", 2):
        out, _ = encode(message_events(message), target, extras=source == target)
        streamed = accumulate(decode([out], target).events)
        expected = decode_message(encode_message(message, target).body, target)
        assert said(streamed) == said(expected), target


def is_whole(block: object) -> bool:
    """Return whether a block is no call with arguments that were cut short or are no object."""
    if not isinstance(block, ToolCall):
        return True
    if block.kind == "custom":
        return not block.is_unfinished
    return isinstance(value_or_text(block.arguments), dict)


@each_target
@given(message=messages())
def test_any_message_says_the_same_as_a_stream_and_as_a_body(target: str, message: Message) -> None:
    assume(message.stop_reason is not None and all(map(is_whole, message.blocks)))
    out, losses = encode(message_events(message), target)
    streamed = decode([out], target)
    try:
        encoded = encode_message(message, target)
        body = decode_message(encoded.body, target)
    except (EncodeError, UpstreamError):
        assert not isinstance(streamed.outcome, Completed)
    else:
        assert isinstance(streamed.outcome, Completed)
        assert set(encoded.losses) == set(losses)
        assert said(body) == said(accumulate(streamed.events))
