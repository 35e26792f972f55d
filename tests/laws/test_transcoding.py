"""Laws 1, 2 and 6 of DESIGN §9 for transcoding: chunking, totality, commutation.

Each dialect is read and each is written, its own anew.
"""

from __future__ import annotations

from typing import Any

import pytest
from anthropic_strategies import gives_back
from bodies import any_body, make_source
from corpus import each_recording_of
from dice import Dice, dice
from hypothesis import given
from judges import assert_client_has, ends_in_error
from mutations import chunked, cut_anywhere
from strategies import agrees
from streams import (
    DIALECTS,
    DIRECTIONS,
    FIELDS,
    decode,
    in_any_order,
    overlaps,
    projected,
    said,
    transcode,
)

from streamnorm import Completed, ServerToolCall, ToolCall, accumulate, message_events
from streamnorm.recording import Recording

each_direction = pytest.mark.parametrize(
    ("source", "target"), DIRECTIONS, ids=[" to ".join(names) for names in DIRECTIONS]
)

BLANK = b" \t\r\n\xef\xbb\xbf"

WAYS: list[tuple[str, dict[str, Any]]] = [
    ("anthropic", {}),
    ("anthropic", {"reasoning": None}),
    *(("openai_chat", {"reasoning": field}) for field in FIELDS),
    ("openai_chat", {"include_usage": False}),
]


@each_recording_of(*DIALECTS)
def test_chunking_does_not_matter(recording: Recording) -> None:
    for target in DIALECTS:
        whole, run = transcode([recording.body], recording.dialect, target)
        for size in (1, 7, 64):
            out, other = transcode(chunked(recording.body, size), recording.dialect, target)
            assert out == whole
            assert (other.outcome, other.losses) == (run.outcome, run.losses)
            assert (other.notes, other.message) == (run.notes, run.message)


@each_direction
@given(d=dice(500))
def test_no_cut_matters_in_any_stream(source: str, target: str, d: Dice) -> None:
    body = any_body(d, source)
    pieces = cut_anywhere(d, body)
    verbatim = d.flag()
    for named in (source, None):
        whole, _ = transcode([body], named, target, verbatim=verbatim)
        out, _ = transcode(pieces, named, target, verbatim=verbatim)
        # What is blank before a body that is no stream may have gone out, or not.
        assert out.lstrip(BLANK) == whole.lstrip(BLANK)


@each_direction
@given(d=dice(500))
def test_whatever_comes_in_what_goes_out_is_a_stream_that_ends(
    source: str, target: str, d: Dice
) -> None:
    out, transcoder = transcode(cut_anywhere(d, any_body(d, source)), source, target)
    failed = ends_in_error(out, target, foreign=source == target)
    assert failed != isinstance(transcoder.outcome, Completed)


def assert_commutes(pieces: list[bytes], source: str, target: str, options: dict[str, Any]) -> None:
    """Check law 6, with our decoder on the way back and with a client."""
    events, outcome, _ = decode(pieces, source)
    out, transcoder = transcode(pieces, source, target, **options)
    passed, losses = projected(events, target, **options)
    assert transcoder.outcome == outcome
    assert {loss for loss in transcoder.losses if loss.feature != "held"} == set(losses)
    if len(transcoder.losses) > len(losses):  # what waited when the stream failed is gone
        assert ends_in_error(out, target, foreign=source == target)
        return
    back = decode([out], target)
    assert isinstance(back.outcome, Completed) == isinstance(outcome, Completed)
    got, wanted = (said(each, target, **options) for each in (back.events, passed))
    if overlaps(events, (ToolCall, ServerToolCall)):
        # One may overtake another that has not begun to say something.
        if target == "anthropic":
            assert in_any_order(got) == in_any_order(wanted)
        assert got.messages[0].tool_calls == wanted.messages[0].tool_calls
        return
    assert got == wanted
    assert_client_has(out, passed, target, extras=source == target, **options)


@each_recording_of(*DIALECTS)
def test_transcoding_a_recording_commutes_with_projecting(recording: Recording) -> None:
    assert recording.dialect is not None
    for target, options in WAYS:
        assert_commutes([recording.body], recording.dialect, target, options)


@pytest.mark.parametrize("source", DIALECTS)
@given(d=dice(320))
def test_transcoding_commutes_with_projecting(source: str, d: Dice) -> None:
    target, options = d.pick(WAYS)
    assert_commutes(make_source(d, source).frames, source, target, options)


@each_direction
@given(d=dice(300))
def test_message_is_what_was_sent(source: str, target: str, d: Dice) -> None:
    stream = make_source(d, source)
    _, transcoder = transcode(stream.frames, source, target)
    events = message_events(transcoder.message)
    only = stream._replace(messages=stream.messages[:1])
    assert gives_back(only, events) if source == "anthropic" else agrees(only, events)
    assert transcoder.usage == stream.usage
    assert transcoder.message == accumulate(decode([stream.body], source).events)
    assert isinstance(transcoder.outcome, Completed)
