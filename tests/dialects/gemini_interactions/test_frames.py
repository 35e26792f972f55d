"""Frames of an interaction: missing fields, bounds, detection, and the variant of `gemini`."""

from __future__ import annotations

import json

import pytest
from support.gemini.frames import decode as decode_gemini
from support.gemini.frames import frame
from support.gemini_interactions.frames import (
    CREATED,
    completed,
    decode,
    delta,
    event,
    kinds,
    start,
    step,
)

from streamnorm import (
    BlockStart,
    BlockStop,
    Completed,
    Limits,
    Opaque,
    StreamError,
    Text,
    TextDelta,
    Transcoder,
    Usage,
    accumulate,
    detect,
)
from streamnorm.codec import decoder
from streamnorm.sse import Frame

OWN = "gemini_interactions"
HI = step("model_output", ("text", {"text": "Hi"}))
SAID = [BlockStart(0, Text()), TextDelta(0, "Hi"), BlockStop(0)]


def test_events_without_blank_lines_between_are_read_one_by_one() -> None:
    body = (CREATED + HI + completed()).replace(b"\n\n", b"\n") + b"\n"
    got = decode(body)
    assert got.events[1:-1] == SAID
    assert kinds(got) == {"joined_frames": 1}


def test_frame_without_json_is_malformed() -> None:
    got = decode(CREATED, b"event: step.delta\ndata: {\n\n")
    assert got.events[-1] == StreamError("malformed", "no JSON in 1 characters")


def test_frame_that_nests_too_deep_passes_a_limit() -> None:
    deep = b"event: step.delta\ndata: " + b"[" * 12 + b"\ndata: " + b"]" * 12 + b"\n\n"
    got = decode(CREATED, deep, limits=Limits(max_json_depth=8))
    assert got.events[-1] == StreamError(
        "too_large", "max_json_depth of 8 passed", "max_json_depth"
    )


def test_unknown_frames_are_opaque() -> None:
    got = decode(
        CREATED,
        b"data:\n\n",
        b"data: [1]\n\n",
        event("step.pause", index=1),
        event("budget.note", left=3),
        HI,
        completed(),
    )
    assert got.events[1:4] == [
        Opaque(OWN, "message", "[1]"),
        Opaque(OWN, "step.pause", '{"index":1,"event_type":"step.pause"}'),
        Opaque(OWN, "budget.note", '{"left":3,"event_type":"budget.note"}'),
    ]


def test_resume_token_is_the_last_event_id() -> None:
    """From there the vendor goes on with a stream that broke off."""
    source = decoder("gemini")
    source.feed(event("interaction.created", interaction={}, event_id="e1"))
    assert source.resume_token == {"event_id": "e1"}
    source.feed(start(0, "model_output") + delta(0, "text", text="a"))
    assert source.resume_token == {"event_id": "e1"}
    more = {"event_id": "e2", "event_type": "step.delta", "index": 0}
    source.feed(frame({**more, "delta": {"type": "text", "text": "b"}}))
    (error,) = source.abort(TimeoutError())
    assert isinstance(error, StreamError)
    assert error.extra == {"event_id": "e2"}


def test_truncated_stream_carries_its_resume_token() -> None:
    for source in (decoder(OWN), decoder("gemini"), decoder()):
        source.feed(event("interaction.created", interaction={}, event_id="e1"))
        (error,) = source.close()
        assert isinstance(error, StreamError)
        assert (error.kind, error.extra) == ("truncated", {"event_id": "e1"})


def test_ids_and_names_are_bounded() -> None:
    limits = Limits(max_id_chars=4)
    passed = StreamError("too_large", "max_id_chars of 4 passed", "max_id_chars")
    for body in (
        event("interaction.created", interaction={"id": "v" * 5}),
        CREATED + start(0, "thoughtful"),
        CREATED + step("x_result", call_id="c" * 5),
    ):
        assert decode(body, limits=limits).events[-1] == passed


def test_kept_bytes_are_bounded() -> None:
    limits = Limits(max_accumulated_bytes=300)
    pieces = [delta(0, "arguments_delta", arguments="x" * 99)] * 9
    bodies = [
        [CREATED, *[start(n, "thought", odd="x" * 900) for n in range(9)]],
        [CREATED, *[step("x_call", id=f"c{n}", arguments="x" * 99, number=n) for n in range(9)]],
        [CREATED, start(0, "x_result"), *[delta(0, "x_result", r=["r" * 40])] * 9],
        [start(0, "function_call", name="f"), *pieces],
    ]
    for frames in bodies:
        got = decode(*frames, limits=limits)
        assert isinstance(error := got.events[-1], StreamError)
        assert error.code == "max_accumulated_bytes"


def test_steps_without_a_block_are_bounded() -> None:
    limits = Limits(max_blocks=2)
    for count, kind in ((8, "truncated"), (9, "too_large")):
        frames = [CREATED, *[step("model_output", number=n) for n in range(count)]]
        error = decode(*frames, limits=limits).events[-1]
        assert isinstance(error, StreamError)
        assert error.kind == kind


def test_fields_of_steps_that_stopped_are_stored_no_longer() -> None:
    limits = Limits(max_accumulated_bytes=3000)
    frames = [CREATED, *[step("model_output", odd="x" * 2000, number=n) for n in range(9)]]
    assert isinstance(decode(*frames, completed(), limits=limits).outcome, Completed)


# Which dialect it is


@pytest.mark.parametrize(
    "frame",
    [
        Frame("interaction.created", "{}"),
        Frame("interaction.news", "1"),
        Frame("step.start", "{"),
        Frame("message", '{"event_type":"interaction.start"}'),
        Frame("message", '{"event_type":"step.delta","delta":{}}'),
        Frame("message", '{"event_type":"content.delta","index":0}'),
    ],
)
def test_interaction_frames_are_detected(frame: Frame) -> None:
    assert detect(frame) == OWN


@pytest.mark.parametrize(
    "frame",
    [
        Frame("step", "{}"),
        Frame("content.delta", "{}"),
        Frame("message", '{"event_type":"content.delta","delta":"a"}'),
        Frame("message", '{"event_type":"news"}'),
        Frame("message", '{"event_type":1}'),
    ],
)
def test_frames_of_other_dialects_are_not_detected(frame: Frame) -> None:
    assert detect(frame) is None


def test_unnamed_stream_is_detected() -> None:
    for body in (CREATED + HI + completed(), (CREATED + HI + completed()).replace(b"\n\n", b"\n")):
        source = decoder()
        events = source.feed(body + b"\n") + source.close()
        assert events[1:-1] == SAID
        assert source.dialect == OWN


def test_frames_can_be_fed_without_bytes() -> None:
    told = [
        ("interaction.created", {"interaction": {"id": "v1", "model": "m"}}),
        ("step.start", {"index": 0, "step": {"type": "model_output"}}),
        ("step.delta", {"index": 0, "delta": {"type": "text", "text": "Hi"}}),
        ("step.stop", {"index": 0}),
        ("interaction.completed", {"interaction": {"status": "completed"}}),
    ]
    for source in (decoder(OWN), decoder("gemini"), decoder()):
        frames = [Frame(name, json.dumps(fields)) for name, fields in told]
        events = [event for frame in frames for event in source.feed_frame(frame)]
        assert events == decode(CREATED, HI, completed()).events
        assert isinstance(source.outcome, Completed)


def test_started_generate_content_never_becomes_an_interaction() -> None:
    """What speaks of events in a chunk of `generateContent` is no event."""
    chunk = {"candidates": [{"content": {"parts": [{"text": "Hi"}]}, "finishReason": "STOP"}]}
    later = json.dumps({"event_type": "step.stop", "candidates": []})
    got = decode_gemini(frame(chunk), frame(later))
    assert [event for event in got.events if isinstance(event, TextDelta)] == [TextDelta(0, "Hi")]


# As a variant of `gemini`


def test_interaction_named_gemini_passes_unchanged_to_gemini() -> None:
    body = CREATED + HI + completed()
    transcoder = Transcoder("gemini", "gemini")
    assert b"".join(transcoder.feed(body) + transcoder.close()) == body
    assert (transcoder.dialect, transcoder.untouched) == ("gemini", True)


@pytest.mark.parametrize("source", [OWN, None])
def test_interaction_is_transcoded_to_gemini(source: str | None) -> None:
    transcoder = Transcoder(source, "gemini")
    out = b"".join(transcoder.feed(CREATED + HI + completed()) + transcoder.close())
    assert accumulate(decode_gemini(out).events).text == "Hi"
    assert (transcoder.dialect, transcoder.untouched) == (OWN, False)


def test_array_is_never_an_interaction() -> None:
    body = b'[{"event_type":"interaction.created","interaction":{}}]'
    for source in (decoder("gemini"), decoder()):
        (error,) = source.feed(body) + source.close()
        assert isinstance(error, StreamError)
        assert error.code == "not_a_stream"


def test_unknown_frames_before_an_interaction_are_opaque() -> None:
    first, *events = decode_gemini(frame({"news": 1}), CREATED, HI, completed()).events
    assert isinstance(first, Opaque)
    assert events == decode(CREATED, HI, completed()).events


def test_usage_of_a_first_frame_that_fails_is_known() -> None:
    """The encoders of some dialects write it into the start of the message."""
    usage = {"promptTokenCount": 5}
    chunk = {"candidates": [{"finishReason": "UNEXPECTED_TOOL_CALL"}], "usageMetadata": usage}
    for source in (decoder("gemini"), decoder()):
        source.feed(frame(chunk))
        assert source.first_usage == Usage(input_tokens=5)
