"""Deltas of Interactions that are read on the run."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from support.gemini_interactions.frames import CREATED, blocks, completed, delta, event, start, stop
from support.streams.delta_runs import read_chunks

from streamnorm import (
    Citation,
    CitationDelta,
    Completed,
    Event,
    Failed,
    JSONDelta,
    Limits,
    ReasoningDelta,
    StreamError,
    TextDelta,
)

OWN = "gemini_interactions"


def text(piece: str, index: int = 0, **fields: str) -> bytes:
    return delta(index, "text", text=piece, **fields)


def thought(piece: str, index: int = 0) -> bytes:
    return delta(index, "thought_summary", content={"type": "text", "text": piece})


def arguments(piece: str, index: int = 0) -> bytes:
    return delta(index, "arguments_delta", arguments=piece)


def call(index: int = 0) -> bytes:
    return start(index, "function_call", id=f"c{index}", name="f", arguments={})


def deltas(events: list[list[Event]]) -> list[Event]:
    """Return the deltas of some reads."""
    return [
        each
        for given in events
        for each in given
        if isinstance(each, TextDelta | ReasoningDelta | JSONDelta)
    ]


@pytest.mark.parametrize(
    ("opening", "make", "expected"),
    [
        (start(0, "model_output"), text, [TextDelta(0, piece) for piece in "123"]),
        (start(0, "thought"), thought, [ReasoningDelta(0, piece) for piece in "123"]),
        (call(), arguments, [JSONDelta(0, piece) for piece in "123"]),
    ],
    ids=["text", "thought", "arguments"],
)
def test_deltas_after_the_first_are_read_on_the_run(
    opening: bytes, make: Callable[[str], bytes], expected: list[Event]
) -> None:
    reading = read_chunks(OWN, CREATED, opening, *map(make, ["1", "", "2", "3"]), stop(0))
    assert reading.on_run == [0, 0, 0, 1, 1, 1, 0]
    assert deltas(reading.events) == expected


def test_calls_that_alternate_stay_on_the_run() -> None:
    pieces = [arguments(piece, index) for piece in ("[", "1", "]") for index in (0, 1)]
    reading = read_chunks(OWN, CREATED, call(0), call(1), *pieces)
    assert reading.on_run == [0, 0, 0, 0, 0, 1, 1, 1, 1]
    assert deltas(reading.events) == [
        JSONDelta(index, piece) for piece in ("[", "1", "]") for index in (0, 1)
    ]


def test_run_reads_deltas_of_one_type() -> None:
    """A delta of another type selects that type."""
    pieces = [text("a", 0), text("b", 0), arguments("[", 1), arguments("]", 1), text("c", 0)]
    reading = read_chunks(OWN, CREATED, start(0, "model_output"), call(1), *pieces)
    assert reading.on_run == [0, 0, 0, 0, 1, 0, 1, 0]
    assert deltas(reading.events) == [
        TextDelta(1, "a"),  # a text begins with its first delta
        TextDelta(1, "b"),
        JSONDelta(0, "["),
        JSONDelta(0, "]"),
        TextDelta(1, "c"),
    ]


@pytest.mark.parametrize(
    ("between", "index"),
    [
        pytest.param([stop(0), start(1, "model_output")], 1, id="stop"),
        pytest.param([start(1, "function_call", id="c", name="f")], 0, id="start"),
        pytest.param([delta(0, "thought_signature", signature="QQ==")], 0, id="signature"),
        pytest.param([text("\ud83d")], 0, id="half a character"),
        pytest.param([event("interaction.status_update", status="in_progress")], 0, id="status"),
        pytest.param([event("interaction.status_update", status="completed")], 0, id="end"),
    ],
)
def test_event_that_may_change_a_step_ends_the_run(between: list[bytes], index: int) -> None:
    opening = [CREATED, start(0, "model_output"), text("a"), text("b")]
    reading = read_chunks(OWN, *opening, *between, text("c", index), text("d", index))
    assert reading.on_run == [0, 0, 0, 1, *([0] * len(between)), 0, 1]
    said = [each.text for each in deltas(reading.events) if isinstance(each, TextDelta)]
    assert "".join(said).replace("\ufffd", "") == "abcd"


def test_signature_without_an_index_ends_the_run_of_its_step() -> None:
    signature = event("step.delta", delta={"type": "thought_signature", "signature": "QQ=="})
    reading = read_chunks(
        OWN, CREATED, start(0, "thought"), thought("a"), thought("b"), signature, thought("c")
    )
    assert reading.on_run == [0, 0, 0, 1, 0, 0]
    assert deltas(reading.events) == [
        ReasoningDelta(0, "a"),
        ReasoningDelta(0, "b"),
        ReasoningDelta(1, "c"),  # the signature covers the text before it alone
    ]


@pytest.mark.parametrize("piece", ["ab", "é😀" * 200], ids=["short", "long"])
def test_text_on_the_run_must_be_the_text_that_the_last_event_repeats(piece: str) -> None:
    """Texts are counted in batches, and a long one at once."""
    opening = [CREATED, start(0, "model_output"), *[text(piece)] * 70, stop(0)]
    for repeated, outcome in ((piece * 70, Completed), (piece * 69, Failed)):
        content = [{"type": "text", "text": repeated}]
        last = completed(steps=[{"type": "model_output", "content": content}])
        reading = read_chunks(OWN, *opening, last)
        assert sum(reading.on_run) == 69
        assert isinstance(reading.decoder.outcome, outcome)


def test_citation_amid_a_text_on_the_run_has_its_characters() -> None:
    annotation = {"type": "url_citation", "url": "u", "start_index": 2, "end_index": 4}
    cited = delta(0, "text_annotation_delta", annotations=[annotation])
    reading = read_chunks(OWN, CREATED, start(0, "model_output"), text("é"), text("é"), cited)
    assert reading.on_run == [0, 0, 0, 1, 0]
    assert reading.events[-1] == [CitationDelta(0, Citation("web", "u", start=1, end=2))]


def test_id_of_an_event_on_the_run_can_resume_the_stream() -> None:
    def identified(piece: str, id: str) -> bytes:
        fields = {"index": 0, "delta": {"type": "text", "text": piece}, "event_id": id}
        return event("step.delta", **fields)

    opening = [CREATED, start(0, "model_output")]
    reading = read_chunks(OWN, *opening, identified("a", "e1"), identified("b", "e2"), text("c"))
    assert reading.on_run == [0, 0, 0, 1, 1]
    assert reading.decoder.resume_token == {"event_id": "e2"}


def test_delta_without_its_type_is_known_by_its_field() -> None:
    bare = event("step.delta", index=0, delta={"arguments": "{"})
    for pieces in ([bare, arguments("}")], [arguments("{"), bare.replace(b'"{"', b'"}"')]):
        found = blocks(call(), *pieces, stop(0))
        assert found[1:-1] == [JSONDelta(0, "{"), JSONDelta(0, "}")]


def test_arguments_beyond_the_bound_end_the_stream_on_the_run() -> None:
    limits = Limits(max_accumulated_bytes=20)
    pieces = [arguments("1" * 8), arguments("2" * 8), arguments("3" * 8)]
    reading = read_chunks(OWN, CREATED, call(), *pieces, completed(), limits=limits)
    assert reading.on_run == [0, 0, 0, 1, 0, 0]
    *_, error = reading.events[4]
    assert isinstance(error, StreamError)
    assert (error.kind, error.code) == ("too_large", "max_accumulated_bytes")
