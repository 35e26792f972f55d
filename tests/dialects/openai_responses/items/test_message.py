"""Message items: each content part is a block."""

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
    is_malformed,
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
    StreamError,
    Text,
    TextDelta,
)

ITEM = {"item_id": "msg_1"}
ITEM_ADDED = added(0, "message", **messages())
STARTED = BlockStart(0, Text(), extra=ITEM)
REFUSED = {"type": "refusal", "refusal": "a"}


def refusal(words: str) -> dict[str, str]:
    return {"type": "refusal", "refusal": words}


def whole(text: str, number: int = 0) -> list[Event]:
    start = BlockStart(number, Text(), extra=ITEM)
    return [start, TextDelta(number, text), BlockStop(number)]


def test_block_starts_with_its_part() -> None:
    frames = [ITEM_ADDED, part_added(part("")), text("a"), part_done(part("a"))]
    assert body(*frames, done(0, "message", **messages(part("a")))) == whole("a")


def test_block_starts_with_its_first_delta_without_a_part() -> None:
    assert body(ITEM_ADDED, text("a"), done(0, "message", **messages(part("a")))) == whole("a")


def test_empty_part_is_an_empty_block() -> None:
    frames = [ITEM_ADDED, part_added(part("")), part_done(part(""))]
    assert body(*frames) == [STARTED, BlockStop(0)]


def test_empty_message_is_no_block() -> None:
    assert body(ITEM_ADDED, text(""), done(0, "message", **messages())) == []


@pytest.mark.parametrize(
    "end",
    [
        event("response.output_text.done", output_index=0, content_index=0, text="abc"),
        part_done(part("abc")),
        done(0, "message", **messages(part("abc"))),
        completed({"type": "message", **messages(part("abc"))}),
    ],
)
def test_each_done_event_adds_what_no_delta_carried(end: bytes) -> None:
    events = decode(START, ITEM_ADDED, text("a"), end, completed()).events
    assert events[1:-1] == [STARTED, TextDelta(0, "a"), TextDelta(0, "bc"), BlockStop(0)]


def test_complete_text_belongs_to_its_part() -> None:
    end = event("response.output_text.done", output_index=0, content_index=1, text="bc")
    events = body(ITEM_ADDED, text("a"), text("b", content_index=1), end)
    assert [e for e in events if isinstance(e, TextDelta)][2:] == [TextDelta(1, "c")]


@pytest.mark.parametrize("whole_text", ["abc", "ab", "", "abdd"])
@pytest.mark.parametrize("kind", ["output_text.done", "part", "item", "terminal"])
def test_complete_text_that_contradicts_the_deltas_is_malformed(kind: str, whole_text: str) -> None:
    ends = {
        "output_text.done": event(
            "response.output_text.done", output_index=0, content_index=0, text=whole_text
        ),
        "part": part_done(part(whole_text)),
        "item": done(0, "message", **messages(part(whole_text))),
        "terminal": completed({"type": "message", **messages(part(whole_text))}),
    }
    decoded = decode(START, ITEM_ADDED, text("abd"), ends[kind], completed())
    if whole_text == "abdd":
        assert decoded.events[2:4] == [TextDelta(0, "abd"), TextDelta(0, "d")]
        assert Note("completed_by_whole", "Text", 1) in decoded.notes
        return
    assert is_malformed(decoded)


@pytest.mark.parametrize(
    "again",
    [
        event("response.output_text.done", output_index=0, content_index=0, text="ab"),
        part_done(part("ab")),
        part_added(part("b")),
        done(0, "message", **messages(part("ab"))),
        done(0, "message", **messages(REFUSED)),
        done(0, "message", **messages(part("a"), REFUSED)),
        completed({"type": "message", **messages(part("ab"))}),
        completed({"type": "message", **messages(part("a"), part("b"))}),
        completed({"type": "reasoning", "summary": []}),
        text("a", content_index=1),
        text("b"),
    ],
)
def test_second_statement_that_contradicts_the_first_is_malformed(again: bytes) -> None:
    frames = [ITEM_ADDED, text("a"), done(0, "message", **messages(part("a")))]
    assert is_malformed(decode(START, *frames, again, completed()))


@pytest.mark.parametrize(
    "again",
    [
        event("response.output_text.done", output_index=0, content_index=0, text="a"),
        part_done(part("a")),
        part_added(part("")),
        part_added(part("a")),
        done(0, "message", **messages(part("a"))),
        done(0, "message", **messages()),
        completed({"type": "message", **messages(part("a"), part(""))}),
        completed({"type": "message", **messages(part("a"), {"type": "audio"})}),
        text(""),
        text("a"),
    ],
)
def test_second_statement_that_repeats_the_first_is_ignored(again: bytes) -> None:
    frames = [ITEM_ADDED, text("a"), done(0, "message", **messages(part("a")))]
    assert decode(START, *frames, again, completed()).events[1:-1] == whole("a")


def test_text_that_contradicts_the_start_of_its_item_is_malformed() -> None:
    begun = added(0, "message", **messages(part("ab")))
    assert body(begun, text("ab"), done(0, "message", **messages(part("abc"))))[-1] == BlockStop(0)
    assert is_malformed(
        decode(START, begun, text("b"), done(0, "message", **messages(part("b"))), completed())
    )
    assert is_malformed(decode(START, begun, text("b"), completed()))
    assert body(added(0, "message", **messages(part(""))), text("b")) == whole("b")


def test_complete_message_without_a_text_that_came_is_malformed() -> None:
    frames = [ITEM_ADDED, text("a"), text("b", content_index=1)]
    assert is_malformed(decode(START, *frames, done(0, "message", **messages(part("a")))))
    assert not is_malformed(decode(START, *frames, done(0, "message", **messages()), completed()))


def test_complete_part_without_a_text_says_nothing_of_it() -> None:
    assert body(ITEM_ADDED, text("a"), part_done({"type": "output_text"})) == whole("a")


def test_empty_complete_text_starts_no_part() -> None:
    end = event("response.output_text.done", output_index=0, content_index=0, text="")
    assert body(ITEM_ADDED, end) == []


def test_text_without_a_content_index_belongs_to_the_only_part() -> None:
    frames = [ITEM_ADDED, text("a", content_index=1), text("b", content_index=None)]
    assert body(*frames)[1:-1] == [TextDelta(0, "a"), TextDelta(0, "b")]
    frames = [ITEM_ADDED, text("a", content_index=1), text("a", content_index=0)]
    assert is_malformed(decode(START, *frames, text("b", content_index=None), completed()))


def test_start_of_a_part_may_hold_text() -> None:
    frames = [ITEM_ADDED, part_added(part("a")), text("b"), part_done(part("ab"))]
    assert body(*frames) == [STARTED, TextDelta(0, "a"), TextDelta(0, "b"), BlockStop(0)]


def test_message_that_is_never_done_has_the_content_of_its_start() -> None:
    decoded = decode(START, added(0, "message", **messages(part("a"))), completed())
    assert decoded.events[1:-1] == whole("a")
    assert decoded.notes == (Note("missing_item_done", "message", 1),)


def test_extra_fields_of_the_item_are_emitted_once() -> None:
    frames = [
        added(0, "message", **messages(phase="commentary", status="in_progress", x=None)),
        *(text("a"), text("b", content_index=1)),
    ]
    starts = [event for event in body(*frames) if isinstance(event, BlockStart)]
    assert [start.extra for start in starts] == [{**ITEM, "phase": "commentary"}, ITEM]


def test_extra_fields_of_a_part_are_emitted() -> None:
    frames = [ITEM_ADDED, part_added(part("", lang="br", none=None))]
    assert body(*frames)[0] == BlockStart(0, Text(), extra={"lang": "br", **ITEM})


def test_parts_may_overlap() -> None:
    frames = [text("a"), text("b", content_index=1), text("c")]
    ends = done(0, "message", **messages(part("ac"), part("b")))
    second = BlockStart(1, Text(), extra=ITEM)
    assert body(ITEM_ADDED, *frames, ends) == [
        *(STARTED, TextDelta(0, "a"), second, TextDelta(1, "b"), TextDelta(0, "c")),
        *(BlockStop(0), BlockStop(1)),
    ]


def test_part_that_only_the_complete_item_has_is_emitted_whole() -> None:
    frames = [ITEM_ADDED, text("a"), done(0, "message", **messages(part("a"), refusal("no")))]
    assert body(*frames) == [
        *whole("a"),
        *(BlockStart(1, Refusal(), extra=ITEM), RefusalDelta(1, "no"), BlockStop(1)),
    ]


def test_only_part_matches_whatever_its_content_index() -> None:
    """vLLM sends `content_index` 1."""
    decoded = decode(
        START,
        ITEM_ADDED,
        text("a", content_index=1),
        done(0, "message", **messages(part("a"))),
        completed(),
    )
    assert (decoded.events[1:-1], decoded.notes) == (whole("a"), ())


def test_text_and_refusal_with_one_content_index_are_two_parts() -> None:
    frames = [ITEM_ADDED, text("a"), delta("refusal", "no", content_index=0)]
    end = done(0, "message", **messages(part("a"), refusal("no, sir")))
    assert body(*frames, end) == [
        *(STARTED, TextDelta(0, "a"), BlockStart(1, Refusal(), extra=ITEM), RefusalDelta(1, "no")),
        *(BlockStop(0), RefusalDelta(1, ", sir"), BlockStop(1)),
    ]


def test_refusal_without_deltas_is_emitted_whole() -> None:
    end = event("response.refusal.done", output_index=0, content_index=0, refusal="no")
    assert body(ITEM_ADDED, end) == [
        *(BlockStart(0, Refusal(), extra=ITEM), RefusalDelta(0, "no"), BlockStop(0))
    ]


def test_parts_of_unknown_types_are_opaque_and_emitted_once() -> None:
    audio = {"type": "output_audio", "data": "QQ=="}
    frames = [part_added(audio, content_index=1), part_done(audio, content_index=1)]
    end = done(0, "message", **messages(part("a"), audio))
    block = OpaqueBlock("openai_responses", "output_audio", '{"type":"output_audio","data":"QQ=="}')
    assert body(ITEM_ADDED, text("a"), *frames, end) == [
        *(STARTED, TextDelta(0, "a"), BlockStart(1, block, extra=ITEM), BlockStop(1), BlockStop(0))
    ]
    assert body(ITEM_ADDED, end)[-2:] == [BlockStart(1, block, extra=ITEM), BlockStop(1)]


@pytest.mark.parametrize("words", ["b", "\n"])
@pytest.mark.parametrize(
    "end",
    [
        event("response.output_text.done", output_index=0, content_index=0, text="a"),
        part_done(part("a")),
        done(0, "message", **messages(part("a"))),
    ],
)
def test_delta_after_the_end_of_its_text_is_malformed(end: bytes, words: str) -> None:
    message = "delta of a text that is complete, expected an open one"
    decoded = decode(START, ITEM_ADDED, text("a"), end, text(words), completed())
    assert decoded.events[-1] == StreamError("malformed", message)


@pytest.mark.parametrize(("kind", "make"), [("output_text", TextDelta), ("refusal", RefusalDelta)])
def test_half_a_surrogate_pair_waits_for_the_other_half(kind: str, make: type[TextDelta]) -> None:
    halves = [delta(kind, half, content_index=0) for half in "\ud83c\udf0a"]
    assert body(ITEM_ADDED, *halves)[1:-1] == [make(0, "🌊")]


def test_complete_text_of_an_ended_part_is_ignored() -> None:
    again = event("response.output_text.done", output_index=0, content_index=0, text="a")
    assert body(ITEM_ADDED, text("a"), part_done(part("a")), again) == whole("a")


def test_half_a_surrogate_pair_at_the_end_is_replaced() -> None:
    assert body(ITEM_ADDED, text("a\ud83c")) == [
        *(STARTED, TextDelta(0, "a"), TextDelta(0, "\ufffd"), BlockStop(0))
    ]
    words = delta("refusal", "a\ud83c", content_index=0)
    assert body(ITEM_ADDED, words)[2] == RefusalDelta(0, "\ufffd")


def test_complete_text_with_the_same_half_of_a_surrogate_pair_adds_nothing() -> None:
    words = "a\ud83cb"
    end = event("response.output_text.done", output_index=0, content_index=0, text=words)
    frames = [ITEM_ADDED, text(words), end, part_done(part(words))]
    assert body(*frames, done(0, "message", **messages(part(words)))) == whole("a\ufffdb")


# Sources and log probabilities

SOURCE = {"type": "url_citation", "url": "u"}
CITED = CitationDelta(0, Citation("url_citation", "u"))


def cite(number: int = 0) -> bytes:
    type = "response.output_text.annotation.added"
    return event(type, output_index=0, content_index=0, annotation_index=number, annotation=SOURCE)


def test_annotations_are_emitted_once() -> None:
    end = part("a", annotations=[SOURCE])
    frames = [ITEM_ADDED, text("a"), cite(), part_done(end), done(0, "message", **messages(end))]
    assert body(*frames) == [STARTED, TextDelta(0, "a"), CITED, BlockStop(0)]


def test_annotations_that_only_the_complete_part_has_are_emitted() -> None:
    end = part("a", annotations=[SOURCE, SOURCE])
    frames = [ITEM_ADDED, text("a"), cite(), part_done(end)]
    assert body(*frames) == [STARTED, TextDelta(0, "a"), CITED, CITED, BlockStop(0)]


def test_annotations_after_the_end_of_their_part_are_a_note() -> None:
    end = done(0, "message", **messages(part("a", annotations=[SOURCE])))
    decoded = decode(START, ITEM_ADDED, text("a"), part_done(part("a")), end, completed())
    assert decoded.events[1:-1] == whole("a")
    assert decoded.notes == (Note("late_citation", "text", 1),)


@pytest.mark.parametrize(("number", "is_known"), [(0, True), (1, False)])
def test_annotation_after_the_end_of_its_part_is_a_repetition_or_malformed(
    number: int, *, is_known: bool
) -> None:
    frames = [ITEM_ADDED, text("a"), cite(), part_done(part("a", annotations=[SOURCE]))]
    decoded = decode(START, *frames, cite(number), completed())
    assert is_malformed(decoded) == (not is_known)
    assert (Note("late_citation", "text", 1) in decoded.notes) == is_known


def test_annotation_without_a_part_starts_one() -> None:
    assert body(ITEM_ADDED, cite()) == [STARTED, CITED, BlockStop(0)]


PROBABLE = [{"token": "a", "logprob": -1.0}]
OPAQUE = Opaque("openai_responses", "logprobs", '[{"token":"a","logprob":-1.0}]', 0)


def test_logprobs_follow_their_delta_and_are_emitted_once() -> None:
    end = part("a", logprobs=PROBABLE)
    frames = [ITEM_ADDED, text("a", logprobs=PROBABLE), part_done(end)]
    assert body(*frames) == [STARTED, TextDelta(0, "a"), OPAQUE, BlockStop(0)]


def test_logprobs_that_only_the_complete_part_has_are_emitted() -> None:
    end = part_done(part("a", logprobs=PROBABLE))
    assert body(ITEM_ADDED, text("a", logprobs=[]), end) == [
        *(STARTED, TextDelta(0, "a"), OPAQUE, BlockStop(0))
    ]


def test_logprobs_after_the_end_of_their_part_are_a_note() -> None:
    frames = [ITEM_ADDED, text("a"), part_done(part("a")), text("", logprobs=PROBABLE)]
    decoded = decode(START, *frames, completed())
    assert decoded.events[1:-1] == whole("a")
    assert Note("misplaced_delta", "logprobs", 1) in decoded.notes


def test_logprobs_without_text_start_a_block() -> None:
    assert body(ITEM_ADDED, text("", logprobs=PROBABLE)) == [STARTED, OPAQUE, BlockStop(0)]
