"""A message item: each of its parts is a block."""

from __future__ import annotations

import pytest
from support.openai_responses.frames import (
    START,
    added,
    body,
    completed,
    decode,
    delta,
    done,
    event,
    messages,
    part,
    part_added,
    part_done,
    text,
)

from streamnorm import (
    BlockStart,
    BlockStop,
    Citation,
    CitationDelta,
    Event,
    Note,
    Opaque,
    OpaqueBlock,
    Refusal,
    RefusalDelta,
    Text,
    TextDelta,
)

ITEM = {"item_id": "msg_1"}
BEGUN = added(0, "message", **messages())
STARTED = BlockStart(0, Text(), extra=ITEM)


def refusal(words: str) -> dict[str, str]:
    return {"type": "refusal", "refusal": words}


def whole(text: str, number: int = 0) -> list[Event]:
    start = BlockStart(number, Text(), extra=ITEM)
    return [start, TextDelta(number, text), BlockStop(number)]


def test_block_starts_with_its_part() -> None:
    frames = [BEGUN, part_added(part("")), text("a"), part_done(part("a"))]
    assert body(*frames, done(0, "message", **messages(part("a")))) == whole("a")


def test_block_starts_with_its_first_delta_without_a_part() -> None:
    assert body(BEGUN, text("a"), done(0, "message", **messages(part("a")))) == whole("a")


def test_empty_part_is_an_empty_block() -> None:
    frames = [BEGUN, part_added(part("")), part_done(part(""))]
    assert body(*frames) == [STARTED, BlockStop(0)]


def test_empty_message_is_no_block() -> None:
    assert body(BEGUN, text(""), done(0, "message", **messages())) == []


@pytest.mark.parametrize(
    "end",
    [
        event("response.output_text.done", output_index=0, content_index=0, text="abc"),
        part_done(part("abc")),
        done(0, "message", **messages(part("abc"))),
        completed({"type": "message", **messages(part("abc"))}),
    ],
)
def test_each_end_brings_what_the_deltas_did_not(end: bytes) -> None:
    events = decode(START, BEGUN, text("a"), end, completed()).events
    assert events[1:-1] == [STARTED, TextDelta(0, "a"), TextDelta(0, "bc"), BlockStop(0)]


def test_whole_text_belongs_to_its_part() -> None:
    end = event("response.output_text.done", output_index=0, content_index=1, text="bc")
    events = body(BEGUN, text("a"), text("b", content_index=1), end)
    assert [e for e in events if isinstance(e, TextDelta)][2:] == [TextDelta(1, "c")]


def test_text_that_the_deltas_contradict_is_a_note() -> None:
    decoded = decode(START, BEGUN, text("abd"), part_done(part("abc")), completed())
    assert decoded.events[1:-1] == whole("abd")
    assert Note("resent_text", "Text", 1) in decoded.notes


def test_text_may_stand_in_the_start_of_its_part() -> None:
    frames = [BEGUN, part_added(part("a")), text("b"), part_done(part("ab"))]
    assert body(*frames) == [STARTED, TextDelta(0, "a"), TextDelta(0, "b"), BlockStop(0)]


def test_message_without_its_end_has_what_stood_in_its_start() -> None:
    decoded = decode(START, added(0, "message", **messages(part("a"))), completed())
    assert decoded.events[1:-1] == whole("a")
    assert decoded.notes == (Note("missing_item_done", "message", 1),)


def test_other_fields_of_the_item_come_once() -> None:
    frames = [
        added(0, "message", **messages(phase="commentary", status="in_progress", x=None)),
        *(text("a"), text("b", content_index=1)),
    ]
    starts = [event for event in body(*frames) if isinstance(event, BlockStart)]
    assert [start.extra for start in starts] == [{**ITEM, "phase": "commentary"}, ITEM]


def test_other_fields_of_a_part_are_kept() -> None:
    frames = [BEGUN, part_added(part("", lang="br", none=None))]
    assert body(*frames)[0] == BlockStart(0, Text(), extra={"lang": "br", **ITEM})


def test_parts_may_overlap() -> None:
    frames = [text("a"), text("b", content_index=1), text("c")]
    ends = done(0, "message", **messages(part("ac"), part("b")))
    second = BlockStart(1, Text(), extra=ITEM)
    assert body(BEGUN, *frames, ends) == [
        *(STARTED, TextDelta(0, "a"), second, TextDelta(1, "b"), TextDelta(0, "c")),
        *(BlockStop(0), BlockStop(1)),
    ]


def test_part_that_only_the_complete_item_has() -> None:
    frames = [BEGUN, text("a"), done(0, "message", **messages(part("a"), refusal("no")))]
    assert body(*frames) == [
        *whole("a"),
        *(BlockStart(1, Refusal(), extra=ITEM), RefusalDelta(1, "no"), BlockStop(1)),
    ]


def test_only_part_of_another_number_is_the_same_part() -> None:
    """vLLM numbers it 1."""
    decoded = decode(
        START,
        BEGUN,
        text("a", content_index=1),
        done(0, "message", **messages(part("a"))),
        completed(),
    )
    assert (decoded.events[1:-1], decoded.notes) == (whole("a"), ())


def test_text_and_refusal_of_one_number_are_two_parts() -> None:
    frames = [BEGUN, text("a"), delta("refusal", "no", content_index=0)]
    end = done(0, "message", **messages(part("a"), refusal("no, sir")))
    assert body(*frames, end) == [
        *(STARTED, TextDelta(0, "a"), BlockStart(1, Refusal(), extra=ITEM), RefusalDelta(1, "no")),
        *(BlockStop(0), RefusalDelta(1, ", sir"), BlockStop(1)),
    ]


def test_refusal_that_comes_whole() -> None:
    end = event("response.refusal.done", output_index=0, content_index=0, refusal="no")
    assert body(BEGUN, end) == [
        *(BlockStart(0, Refusal(), extra=ITEM), RefusalDelta(0, "no"), BlockStop(0))
    ]


def test_parts_of_other_types_are_opaque_and_come_once() -> None:
    audio = {"type": "output_audio", "data": "QQ=="}
    frames = [part_added(audio, content_index=1), part_done(audio, content_index=1)]
    end = done(0, "message", **messages(part("a"), audio))
    block = OpaqueBlock("openai_responses", "output_audio", '{"type":"output_audio","data":"QQ=="}')
    assert body(BEGUN, text("a"), *frames, end) == [
        *(STARTED, TextDelta(0, "a"), BlockStart(1, block, extra=ITEM), BlockStop(1), BlockStop(0))
    ]
    assert body(BEGUN, end)[-2:] == [BlockStart(1, block, extra=ITEM), BlockStop(1)]


def test_text_behind_the_end_of_its_part_is_a_block_of_its_own() -> None:
    frames = [BEGUN, text("a"), part_done(part("a")), text("b")]
    decoded = decode(START, *frames, done(0, "message", **messages(part("ab"))), completed())
    assert decoded.events[1:-1] == [*whole("a"), *whole("b", 1)]
    assert decoded.notes == (Note("misplaced_delta", "Text", 1),)


def test_text_behind_the_end_of_its_item_is_a_block_of_its_own() -> None:
    frames = [BEGUN, text("a"), done(0, "message", **messages(part("a"))), text("b")]
    decoded = decode(START, *frames, completed())
    assert decoded.events[1:-1] == [*whole("a"), *whole("b", 1)]


@pytest.mark.parametrize(("kind", "make"), [("output_text", TextDelta), ("refusal", RefusalDelta)])
def test_half_a_character_waits_for_the_other(kind: str, make: type[TextDelta]) -> None:
    halves = [delta(kind, half, content_index=0) for half in "\ud83c\udf0a"]
    assert body(BEGUN, *halves)[1:-1] == [make(0, "🌊")]


def test_whole_text_of_a_part_that_has_ended_says_nothing() -> None:
    again = event("response.output_text.done", output_index=0, content_index=0, text="abc")
    assert body(BEGUN, text("a"), part_done(part("a")), again) == whole("a")


def test_half_a_character_at_the_end_is_replaced() -> None:
    assert body(BEGUN, text("a\ud83c")) == [
        *(STARTED, TextDelta(0, "a"), TextDelta(0, "\ufffd"), BlockStop(0))
    ]
    words = delta("refusal", "a\ud83c", content_index=0)
    assert body(BEGUN, words)[2] == RefusalDelta(0, "\ufffd")


# Sources and log probabilities

SOURCE = {"type": "url_citation", "url": "u"}
CITED = CitationDelta(0, Citation("url_citation", "u"))


def cite(number: int = 0) -> bytes:
    type = "response.output_text.annotation.added"
    return event(type, output_index=0, content_index=0, annotation_index=number, annotation=SOURCE)


def test_sources_come_once() -> None:
    end = part("a", annotations=[SOURCE])
    frames = [BEGUN, text("a"), cite(), part_done(end), done(0, "message", **messages(end))]
    assert body(*frames) == [STARTED, TextDelta(0, "a"), CITED, BlockStop(0)]


def test_sources_that_only_the_complete_part_has() -> None:
    end = part("a", annotations=[SOURCE, SOURCE])
    frames = [BEGUN, text("a"), cite(), part_done(end)]
    assert body(*frames) == [STARTED, TextDelta(0, "a"), CITED, CITED, BlockStop(0)]


def test_sources_that_come_too_late_are_a_note() -> None:
    end = done(0, "message", **messages(part("a", annotations=[SOURCE])))
    decoded = decode(START, BEGUN, text("a"), part_done(part("a")), end, completed())
    assert decoded.events[1:-1] == whole("a")
    assert decoded.notes == (Note("late_citation", "text", 1),)


def test_source_without_a_part_begins_one() -> None:
    assert body(BEGUN, cite()) == [STARTED, CITED, BlockStop(0)]


PROBABLE = [{"token": "a", "logprob": -1.0}]
OPAQUE = Opaque("openai_responses", "logprobs", '[{"token":"a","logprob":-1.0}]', 0)


def test_log_probabilities_follow_their_text_and_come_once() -> None:
    end = part("a", logprobs=PROBABLE)
    frames = [BEGUN, text("a", logprobs=PROBABLE), part_done(end)]
    assert body(*frames) == [STARTED, TextDelta(0, "a"), OPAQUE, BlockStop(0)]


def test_log_probabilities_that_only_the_complete_part_has() -> None:
    end = part_done(part("a", logprobs=PROBABLE))
    assert body(BEGUN, text("a", logprobs=[]), end) == [
        *(STARTED, TextDelta(0, "a"), OPAQUE, BlockStop(0))
    ]


def test_log_probabilities_without_text() -> None:
    assert body(BEGUN, text("", logprobs=PROBABLE)) == [STARTED, OPAQUE, BlockStop(0)]
