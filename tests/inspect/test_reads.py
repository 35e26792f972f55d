"""What each read adds: frames and events, with their numbers and times."""

from __future__ import annotations

import pytest
from support.openai_chat.chunks import DONE, call, calls, chunk, content, frame
from support.streams.corpus import each_recording
from support.streams.mutations import chunked

from streamnorm import (
    BlockStart,
    BlockStop,
    MessageStart,
    MessageStop,
    StreamError,
    Text,
    TextDelta,
)
from streamnorm.codec import decoder
from streamnorm.inspect import Survey
from streamnorm.inspect.report import Rate, TimedEvent
from streamnorm.recording import Recording

END = chunk({}, "stop") + DONE


def placed(events: list[TimedEvent]) -> list[tuple[int, int, int | None, str]]:
    """Return number, frame, time and type of events."""
    return [(each.number, each.frame, each.ms, type(each.event).__name__) for each in events]


def test_events_have_the_frame_and_the_time_that_brought_them() -> None:
    run = Survey("openai_chat", timed=True)
    first = run.feed(b": ping\n\n" + content("a") + content("b")[:9], 100)
    assert (first.ms, first.first, [each.event for each in first.frames]) == (100, 0, ["message"])
    assert placed(first.events) == [
        (0, 0, 100, "MessageStart"),
        (1, 0, 100, "BlockStart"),
        (2, 0, 100, "TextDelta"),
    ]
    second = run.feed(content("b")[9:] + END, 50)
    assert (second.ms, second.first, len(second.frames)) == (150, 1, 3)
    assert placed(second.events) == [
        (3, 1, 150, "TextDelta"),
        # A finish reason is revoked by further content, until [DONE].
        (4, 3, 150, "BlockStop"),
        (5, 3, 150, "MessageStop"),
    ]
    assert run.close().events == []


def test_events_at_the_end_belong_to_the_last_frame() -> None:
    run = Survey("openai_chat")
    run.feed(content("a") + content("b"))
    assert placed(run.close().events) == [(4, 1, None, "StreamError")]


def test_failure_of_the_source_is_an_event() -> None:
    run = Survey("openai_chat")
    run.feed(content("a"))
    [last] = run.abort(TimeoutError()).events
    assert isinstance(last.event, StreamError)
    assert (last.number, last.frame) == (3, 0)


def test_body_without_frames_has_its_error_at_frame_0() -> None:
    run = Survey()
    run.feed(b'{"error":{"message":"no key"}}')
    assert placed(run.close().events) == [(0, 0, None, "StreamError")]


def test_detected_dialect_has_the_events_of_its_first_frames() -> None:
    run = Survey()
    events = run.feed(content("a") + END).events
    assert [each.event for each in events] == [
        MessageStart("chatcmpl-1", "gpt"),
        BlockStart(0, Text()),
        TextDelta(0, "a"),
        BlockStop(0),
        MessageStop("end_turn", "stop"),
    ]


@each_recording
@pytest.mark.parametrize("size", [1, 7, 1 << 20])
def test_events_are_those_of_a_decoder_and_frames_ascend(recording: Recording, size: int) -> None:
    run = Survey(recording.dialect, server=recording.server)
    reads = [run.feed(data) for data in chunked(recording.body, size)]
    events = [event for read in [*reads, run.close()] for event in read.events]
    reader = decoder(recording.dialect, server=recording.server)
    assert [each.event for each in events] == [*reader.feed(recording.body), *reader.close()]
    numbers = [each.frame for each in events]
    assert numbers == sorted(numbers)
    assert [each.number for each in events] == list(range(len(events)))
    assert numbers[-1] < max(run.report().frames, 1)


@each_recording
def test_frame_of_an_event_does_not_depend_on_the_reads(recording: Recording) -> None:
    places: list[list[int]] = []
    for size in (3, 1 << 20):
        run = Survey(recording.dialect, server=recording.server)
        reads = [run.feed(data) for data in chunked(recording.body, size)]
        places.append([each.frame for read in [*reads, run.close()] for each in read.events])
    assert places[0] == places[1]


# Rates


def test_rates_are_those_from_the_first_bytes_to_the_last() -> None:
    run = Survey("openai_chat", timed=True)
    run.feed(content("four"), 900)
    run.feed(calls(call(0, "a", "f", "{}")) + END, 500)
    report = run.report()
    assert report.events == 8
    assert report.rate == Rate(events_per_s=16.0, bytes_per_s=report.bytes * 2.0, chars_per_s=12.0)


def test_rates_of_a_stream_at_once_are_unknown() -> None:
    run = Survey("openai_chat", timed=True)
    run.feed(content("a"), 900)
    run.feed(frame({"id": "c", "choices": []}), 0)
    assert run.report().rate is None
    assert Survey().report().rate is None
