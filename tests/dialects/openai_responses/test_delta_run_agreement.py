"""Frames behind a delta run: their numbers and complete texts agree with the run."""

from __future__ import annotations

import tracemalloc

import pytest
from support.openai_responses.frames import START, added, call, completed, done, event
from support.openai_responses.item_deltas import (
    ARGUMENTS,
    MESSAGE,
    TEXT,
    item_delta,
    numbered,
    read,
)
from support.streams.delta_runs import offer

from streamnorm import (
    BlockStop,
    Event,
    JSONDelta,
    MessageStop,
    Note,
    StreamError,
    TextDelta,
)
from streamnorm.dialects.openai_responses.decode import ResponsesDecoder
from streamnorm.sse import Frame


@pytest.mark.parametrize("at", [1, 2, 5])
def test_resent_event_after_the_run_is_dropped(at: int) -> None:
    chunks = numbered(TEXT, *"abcdef")
    odd = chunks[at].replace(b'"logprobs"', b'"odd":"\xff","logprobs"')
    for again in (chunks[at], odd):
        resent = [*chunks[:at], again, again, item_delta(TEXT, "x", at + 1)]
        reading = read(START, MESSAGE, *resent)
        assert reading.events[2:] == [
            *([TextDelta(0, text)] for text in "abcdef"[: at + 1]),
            [],
            [TextDelta(0, "x")],
        ]
        assert reading.decoder.notes == (Note("resent_event", "frame", 1),)


def test_gap_after_the_run_is_a_note() -> None:
    reading = read(START, MESSAGE, *numbered(TEXT, "a", "b", "c"), item_delta(TEXT, "d", 4))
    assert reading.events[-1] == [TextDelta(0, "d")]
    assert reading.decoder.notes == (Note("gap", "sequence_number", 1),)
    assert reading.on_run[2:] == [0, 1, 1, 0]


def test_next_sequence_number_follows_the_run() -> None:
    reader = ResponsesDecoder()
    for chunk in (START, MESSAGE, *numbered(TEXT, "a", "b", "c", first=7)):
        reader.feed(chunk)
    assert reader.next_sequence_number == 10


def test_constant_sequence_number_is_ignored() -> None:
    reading = read(START, MESSAGE, *(item_delta(TEXT, text, 0) for text in "abcd"))
    assert reading.events[2:] == [[TextDelta(0, text)] for text in "abcd"]
    assert reading.decoder.notes == ()


def contradiction(whole: str, deltas: str) -> StreamError:
    sizes = f"{len(whole)} characters that contradicts {len(deltas)} of deltas"
    return StreamError("malformed", f"complete text of {sizes}, expected the same")


@pytest.mark.parametrize("count", [1, 2, 31, 32, 33, 34, 100])
def test_complete_text_is_compared_with_the_deltas_of_the_run(count: int) -> None:
    texts = [f"{number} é" for number in range(count)]
    whole = "".join(texts)
    for whole_text, rest, notes in (
        (whole, [], ()),
        (whole + "!", [TextDelta(0, "!")], (Note("completed_by_whole", "Text", 1),)),
        ("?" + whole[1:], [contradiction(whole, whole)], ()),
        (whole[:-1], [contradiction(whole[:-1], whole)], ()),
    ):
        end = event("response.output_text.done", output_index=0, content_index=0, text=whole_text)
        reading = read(START, MESSAGE, *numbered(TEXT, *texts), end)
        assert reading.events[-1] == rest
        assert reading.decoder.notes == notes
        assert sum(reading.on_run) == count - 1


@pytest.mark.parametrize("numbers", [True, False])
def test_complete_arguments_are_compared_with_interleaved_deltas(*, numbers: bool) -> None:
    items = [call(id=f"fc_{number}", call_id=f"c{number}") for number in range(2)]
    opening = [added(number, "function_call", **item) for number, item in enumerate(items)]
    pieces = [
        item_delta(
            ARGUMENTS,
            f"{number},",
            number if numbers else None,
            item_id=f"fc_{number % 2}",
            output_index=number % 2,
        )
        for number in range(150)
    ]
    ends: list[bytes] = []
    for number, item in enumerate(items):
        whole = "".join(f"{n}," for n in range(number, 150, 2))
        ends.append(done(number, "function_call", **{**item, "arguments": whole + "!" * number}))
    reading = read(START, *opening, *pieces, *ends)
    assert sum(reading.on_run) == 148
    assert reading.events[-2:] == [[BlockStop(0)], [JSONDelta(1, "!"), BlockStop(1)]]
    assert reading.decoder.notes == (Note("completed_by_whole", "ToolCall", 1),)


@pytest.mark.parametrize(
    ("whole_text", "last"),
    [("ab", [BlockStop, MessageStop]), ("ba", [StreamError]), ("a", [StreamError])],
)
def test_complete_text_of_any_event_is_compared_with_the_deltas_of_the_run(
    whole_text: str, last: list[type[Event]]
) -> None:
    reader = read(START, MESSAGE, *numbered(TEXT, "a", "b")).decoder
    end = completed(
        {"type": "message", "id": "m", "content": [{"type": "output_text", "text": whole_text}]}
    )
    payload = end.decode().split("data: ")[1].strip()
    events = reader.feed_frame(Frame("response.completed", payload))
    assert [type(event) for event in events] == last
    assert reader.notes == (Note("missing_item_done", "message", 1),)


def test_deltas_of_the_run_do_not_accumulate_in_the_decoder() -> None:
    reader = ResponsesDecoder()
    reader.feed(START + MESSAGE + item_delta(TEXT, "begin"))
    tracemalloc.start()
    try:
        for number in range(3000):
            reader.feed(item_delta(TEXT, f"{number:0200}"))
        assert tracemalloc.get_traced_memory()[1] < 100_000  # of 600,000 characters
    finally:
        tracemalloc.stop()


def test_frames_on_the_run_and_frames_read_in_full_are_one_stream() -> None:
    """Whichever of them the run reads."""
    texts = [f"word {number}" for number in range(80)]
    reader = ResponsesDecoder()
    reader.feed(START + MESSAGE)
    events: list[Event] = []
    for number, chunk in enumerate(numbered(TEXT, *texts)):
        if number % 7:
            events += offer(reader, chunk).events
        else:
            (raw,) = reader.split(chunk)
            events += reader.read_raw(raw)
    assert events == [TextDelta(0, text) for text in texts]
    part = {"type": "output_text", "text": "".join(texts)}
    reader.feed(done(0, "message", id="m", content=[part]))
    reader.feed(completed())
    assert reader.notes == ()
    assert reader.frames == 85
