"""Laws of transcoding: chunking, totality, commutation.

Each dialect is transcoded to each, to its own by re-encoding.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, note
from msgspec.structs import replace
from support.bodies.samples import any_body, make_source
from support.draws import Draws, draws
from support.openai_chat.strategies import agrees
from support.streams.client_readings import assert_client_has, ends_in_error
from support.streams.content import (
    DIALECTS,
    ENCODER_OPTIONS,
    StreamContent,
    content_of,
    decode,
    expected_outcome,
    overlaps,
    projected,
    transcode,
    with_sorted_blocks,
)
from support.streams.corpus import each_recording_of
from support.streams.generated import has_same_messages
from support.streams.mutations import chunked, cut_anywhere

from streamnorm import (
    Completed,
    Failed,
    Message,
    ServerToolCall,
    ToolCall,
    accumulate,
    message_events,
)
from streamnorm.recording import Recording

SMALL_BYTES = 3_000

each_source = pytest.mark.parametrize("source", DIALECTS)

BLANK = b" \t\r\n\xef\xbb\xbf"


def pick_target(d: Draws) -> str:
    """Return the target dialect, noted for a failing example."""
    target = d.pick(DIALECTS)
    note(f"written as {target}")
    return target


@each_recording_of(*DIALECTS, arrays=True)
def test_recording_transcodes_the_same_in_any_chunking(recording: Recording) -> None:
    # The smaller the chunks, the more there are of them.
    sizes = (1 if len(recording.body) < SMALL_BYTES else 7, 64)
    for number, target in enumerate(DIALECTS, len(recording.name)):
        whole, run = transcode([recording.body], recording.dialect, target)
        size = sizes[number % len(sizes)]
        out, other = transcode(chunked(recording.body, size), recording.dialect, target)
        assert out == whole
        assert (other.outcome, other.losses) == (run.outcome, run.losses)
        assert (other.notes, other.message) == (run.notes, run.message)


@each_source
@given(d=draws(500))
def test_any_stream_transcodes_the_same_in_any_chunking(source: str, d: Draws) -> None:
    target = pick_target(d)
    body = any_body(d, source)
    pieces = cut_anywhere(d, body)
    verbatim = d.flag()
    for named in (source, None):
        whole, _ = transcode([body], named, target, verbatim=verbatim)
        out, _ = transcode(pieces, named, target, verbatim=verbatim)
        # Blank bytes before a body that is no stream may have been passed or not.
        assert out.lstrip(BLANK) == whole.lstrip(BLANK)


@each_source
@given(d=draws(500))
def test_any_bytes_transcode_to_a_stream_that_ends(source: str, d: Draws) -> None:
    target = pick_target(d)
    out, transcoder = transcode(cut_anywhere(d, any_body(d, source)), source, target)
    failed = ends_in_error(out, target, foreign=source == target)
    assert failed != isinstance(transcoder.outcome, Completed)


def assert_commutes(pieces: list[bytes], source: str, target: str, options: dict[str, Any]) -> None:
    """Check law 6, with our decoder and with an independent client."""
    events, outcome, _ = decode(pieces, source)
    out, transcoder = transcode(pieces, source, target, **options)
    passed, losses = projected(events, target, extras=source == target, **options)
    assert transcoder.outcome == expected_outcome(outcome, passed)
    assert {loss for loss in transcoder.losses if loss.where != "failed stream"} == set(losses)
    if any(
        loss.feature == "held" for loss in transcoder.losses
    ):  # what waited when the stream failed is gone
        assert ends_in_error(out, target, foreign=source == target)
        return
    back = decode([out], target)
    assert isinstance(back.outcome, Completed) == isinstance(transcoder.outcome, Completed)
    got, wanted = (content_of(each, target, **options) for each in (back.events, passed))
    if overlaps(events, (ToolCall, ServerToolCall)):
        # A text may overtake another that has no content yet.
        if target != "openai_chat":
            assert with_sorted_blocks(got) == with_sorted_blocks(wanted)
        assert got.messages[0].tool_calls == wanted.messages[0].tool_calls
        return
    if isinstance(transcoder.outcome, Failed) and target == "openai_chat":
        # A call is read from its first argument on: one that had none yet is not there.
        got, wanted = (_without_empty_calls(each) for each in (got, wanted))
    assert got == wanted
    assert_client_has(out, passed, target, extras=source == target, **options)


def _without_empty_calls(content: StreamContent) -> StreamContent:
    def shortened(message: Message) -> Message:
        kept = [
            block for block in message.blocks if not isinstance(block, ToolCall) or block.arguments
        ]
        return replace(message, blocks=tuple(kept))

    messages = {choice: shortened(message) for choice, message in content.messages.items()}
    return replace(content, messages=messages)


@each_recording_of(*DIALECTS, arrays=True)
def test_transcoding_a_recording_commutes_with_projection(recording: Recording) -> None:
    assert recording.dialect is not None
    for target in DIALECTS:
        for options in ENCODER_OPTIONS[target]:
            assert_commutes([recording.body], recording.dialect, target, options)


@each_source
@given(d=draws(320))
def test_transcoding_a_generated_stream_commutes_with_projection(source: str, d: Draws) -> None:
    target = pick_target(d)
    options = d.pick(ENCODER_OPTIONS[target])
    assert_commutes(make_source(d, source).frames, source, target, options)


@each_source
@given(d=draws(300))
def test_transcoded_message_is_the_generated_one(source: str, d: Draws) -> None:
    target = pick_target(d)
    stream = make_source(d, source)
    _, transcoder = transcode(stream.frames, source, target)
    events = message_events(transcoder.message)
    only = stream._replace(messages=stream.messages[:1])
    assert agrees(only, events) if source == "openai_chat" else has_same_messages(only, events)
    assert transcoder.usage == stream.usage
    assert transcoder.message == accumulate(decode([stream.body], source).events)
