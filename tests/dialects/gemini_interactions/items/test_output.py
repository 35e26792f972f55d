"""Answers with citations and files, and thoughts."""

from __future__ import annotations

import base64

import pytest
from support.gemini_interactions.frames import (
    CREATED,
    blocks,
    completed,
    decode,
    delta,
    event,
    kinds,
    start,
    step,
    stop,
)

from streamnorm import (
    BlockStart,
    BlockStop,
    Citation,
    CitationDelta,
    Document,
    Image,
    Opaque,
    Reasoning,
    ReasoningDelta,
    SignatureDelta,
    Text,
    TextDelta,
)
from streamnorm._core.ids import tag_signature

OWN = "gemini_interactions"


def note(index: int, end: int | None, **fields: object) -> tuple[str, dict[str, object]]:
    told = {} if end is None else {"end_index": end}
    source = {"type": "url_citation", "url": "u", "start_index": index, **told, **fields}
    return "text_annotation_delta", {"annotations": [source]}


# Answers


def test_start_may_hold_text() -> None:
    contents = [{"type": "text", "text": "a"}, {"text": "b"}, {"type": "text", "text": ""}]
    got = blocks(step("model_output", ("text", {"text": "c"}), content=contents))
    assert got == [
        BlockStart(0, Text()),
        TextDelta(0, "a"),
        TextDelta(0, "b"),
        TextDelta(0, "c"),
        BlockStop(0),
    ]


def test_step_without_content_is_no_block() -> None:
    assert blocks(step("model_output", ("text", {"text": ""}), content=[])) == []
    assert blocks(step("model_output", ("text", {}), content=1)) == []


def test_text_without_a_type_is_text() -> None:
    body = start(0, "model_output") + event("step.delta", index=0, delta={"text": "a"}) + stop(0)
    assert blocks(body) == [BlockStart(0, Text()), TextDelta(0, "a"), BlockStop(0)]


def test_empty_text_gives_no_event() -> None:
    texts = [("text", {"text": text}) for text in ("a", "", "b")]
    got = blocks(step("model_output", *texts))
    assert got[1:-1] == [TextDelta(0, "a"), TextDelta(0, "b")]


def test_surrogate_halves_are_joined() -> None:
    halves = [("text", {"text": half}) for half in ("a\ud83d", "\ude00b", "c", "\ud83d", "")]
    got = blocks(step("model_output", *halves, note(1, 5)))
    assert got == [
        BlockStart(0, Text()),
        TextDelta(0, "a"),
        TextDelta(0, "\U0001f600b"),
        TextDelta(0, "c"),
        TextDelta(0, "\ufffd"),
        CitationDelta(0, Citation("web", "u", start=1, end=2)),
        BlockStop(0),
    ]
    assert blocks(step("model_output", *halves[3:]))[1] == TextDelta(0, "\ufffd")


def test_file_ends_the_text_before_it() -> None:
    png = {"mime_type": "image/png", "data": "aGk=", "resolution": "low"}
    got = blocks(
        step(
            "model_output",
            ("text", {"text": "a"}),
            ("image", png),
            ("document", {"mime_type": "application/pdf", "uri": "gs://x"}),
            ("document", {"mime_type": "text/csv", "data": "YSxi"}),
            ("text", {"text": "b"}),
        )
    )
    assert got == [
        *(BlockStart(0, Text()), TextDelta(0, "a"), BlockStop(0)),
        BlockStart(1, Image("image/png", "aGk="), extra={"resolution": "low"}),
        BlockStop(1),
        *(BlockStart(2, Document("application/pdf", url="gs://x")), BlockStop(2)),
        *(BlockStart(3, Document("text/csv", "a,b")), BlockStop(3)),
        *(BlockStart(4, Text()), TextDelta(4, "b"), BlockStop(4)),
    ]


def test_unknown_content_is_opaque() -> None:
    """Sound comes in so many pieces that each must not be a block."""
    got = blocks(
        step(
            "model_output",
            ("text", {"text": "a"}),
            ("audio", {"data": "AA=="}),
            ("image", {"mime_type": "image/png"}),
            ("news", {"n": 1}),
            content=[{"type": "video", "uri": "v"}, 7],
            error={"code": 3},
        )
    )
    assert got == [
        Opaque(OWN, "video", '{"type":"video","uri":"v"}'),
        Opaque(OWN, "content", "7"),
        Opaque(OWN, "model_output", '{"error":{"code":3}}'),
        *(BlockStart(0, Text()), TextDelta(0, "a")),
        Opaque(OWN, "audio", '{"type":"audio","data":"AA=="}', 0),
        Opaque(OWN, "image", '{"type":"image","mime_type":"image/png"}', 0),
        Opaque(OWN, "news", '{"type":"news","n":1}', 0),
        BlockStop(0),
    ]


def test_signature_ends_its_text() -> None:
    def sign(text: str) -> tuple[str, dict[str, str]]:
        return "thought_signature", {"signature": text}

    texts = [("text", {"text": text}) for text in ("a", "b")]
    got = blocks(
        step("model_output", texts[0], sign("QQ=="), sign("QQ=="), texts[1], sign("Qg==")),
        step("model_output", sign(""), sign("Qw=="), sign("RA==")),
    )
    assert got == [
        *(BlockStart(0, Text()), TextDelta(0, "a")),
        *(SignatureDelta(0, "QQ==", "google"), BlockStop(0)),
        *(BlockStart(1, Text()), TextDelta(1, "b")),
        *(SignatureDelta(1, "Qg==", "google"), BlockStop(1)),
        *(BlockStart(2, Text()), SignatureDelta(2, "Qw==", "google"), BlockStop(2)),
        *(BlockStart(3, Text()), SignatureDelta(3, "RA==", "google"), BlockStop(3)),
    ]


def test_tagged_signature_has_its_original_issuer() -> None:
    tagged = base64.b64encode(tag_signature("sig", "anthropic").encode()).decode()
    got = blocks(step("thought", ("thought_signature", {"signature": tagged})))
    assert got[1] == SignatureDelta(0, "sig", "anthropic")


# Sources


@pytest.mark.parametrize(
    ("annotation", "citation"),
    [
        ({"type": "url_citation", "url": "u", "title": "t"}, Citation("web", "u", "t")),
        (
            {"type": "url_citation", "url": "u", "end_index": 3},
            Citation("web", "u", start=0, end=2),
        ),
        (
            {"type": "file_citation", "document_uri": "d", "file_name": "f", "source": "s"},
            Citation("retrievedContext", "d", "f", extra={"source": "s"}),
        ),
        (
            {"type": "place_citation", "url": "u", "name": "n", "place_id": "p", "x": None},
            Citation("maps", "u", "n", extra={"place_id": "p"}),
        ),
    ],
)
def test_byte_offsets_of_an_annotation_become_characters(
    annotation: dict[str, object], citation: Citation
) -> None:
    cited = ("text_annotation", {"annotations": [annotation]})
    got = blocks(step("model_output", ("text", {"text": "aéb"}), cited))
    assert got[2] == CitationDelta(0, citation)


@pytest.mark.parametrize(
    "annotation",
    [
        {"type": "url_citation", "start_index": 2, "end_index": 9},
        {"type": "url_citation", "start_index": 2},
        {"type": "url_citation", "start_index": "a", "end_index": 2},
        {"type": "word_info", "text": "a"},
        {"type": 1},
        {},
        7,
    ],
)
def test_invalid_annotation_is_opaque(annotation: object) -> None:
    cited = ("text_annotation_delta", {"annotations": [annotation]})
    got = blocks(step("model_output", ("text", {"text": "abc"}), cited))
    assert [event.index for event in got if isinstance(event, Opaque)] == [0]
    assert not any(isinstance(event, CitationDelta) for event in got)


def test_annotation_without_open_text_is_opaque() -> None:
    got = blocks(step("model_output", note(0, 1), ("text_annotation_delta", {"annotations": 1})))
    assert [type(event) for event in got] == [Opaque]


def test_annotation_counts_within_its_own_text() -> None:
    image = ("image", {"mime_type": "image/png", "data": "aGk="})
    got = blocks(
        step("model_output", ("text", {"text": "é"}), image, ("text", {"text": "bc"}), note(1, 2))
    )
    assert got[-2] == CitationDelta(2, Citation("web", "u", start=1, end=2))


# Thoughts


def test_summaries_of_the_start_are_parts_and_the_last_goes_on() -> None:
    summary = [{"type": "text", "text": "a\ud83d"}, {"type": "text", "text": "b"}]
    more = ("thought_summary", {"content": {"type": "text", "text": "c"}})
    got = blocks(step("thought", more, summary=summary, signature=""))
    assert got == [
        BlockStart(0, Reasoning()),
        ReasoningDelta(0, "a"),
        ReasoningDelta(0, "\ufffd"),
        ReasoningDelta(0, "b", 1),
        ReasoningDelta(0, "c", 1),
        BlockStop(0),
    ]


def test_thought_may_be_whole_in_its_start() -> None:
    got = blocks(step("thought", summary=[{"text": "a"}], signature="QQ=="))
    assert got == [
        *(BlockStart(0, Reasoning()), ReasoningDelta(0, "a")),
        *(SignatureDelta(0, "QQ==", "google"), BlockStop(0)),
    ]


def test_empty_thought_is_a_block_when_it_stops() -> None:
    assert blocks(step("thought")) == [BlockStart(0, Reasoning()), BlockStop(0)]


def test_empty_thought_without_a_stop_is_no_block() -> None:
    got = decode(CREATED, start(0, "thought"), start(1, "model_output"), completed())
    assert got.events[1:-1] == []
    assert kinds(got) == {"missing_block_stop": 2}


def test_text_within_a_thought_is_reasoning() -> None:
    got = blocks(
        step(
            "thought",
            ("text", {"text": "a"}),
            ("thought", {"text": "b"}),
            ("thought_summary", {}),
            ("thought_summary", {"content": {"type": "text", "text": ""}}),
            summary=1,
        )
    )
    assert got == [
        *(BlockStart(0, Reasoning()), ReasoningDelta(0, "a"), ReasoningDelta(0, "b")),
        BlockStop(0),
    ]
    untyped = event("step.delta", index=0, delta={"content": {"text": "a"}})
    body = start(0, "thought") + untyped + stop(0)
    assert blocks(body)[1] == ReasoningDelta(0, "a")


def test_lone_surrogate_is_replaced_before_the_signature() -> None:
    half, sign = {"text": "a\ud83d"}, ("thought_signature", {"signature": "QQ=="})
    thought = blocks(step("thought", ("thought_summary", {"content": half}), sign))
    assert thought[2:] == [
        *(ReasoningDelta(0, "\ufffd"), SignatureDelta(0, "QQ==", "google"), BlockStop(0)),
    ]
    answer = blocks(step("model_output", ("text", half), sign))
    assert answer[2:] == [
        *(TextDelta(0, "\ufffd"), SignatureDelta(0, "QQ==", "google"), BlockStop(0)),
    ]


def test_image_of_a_summary_is_opaque() -> None:
    got = blocks(
        step(
            "thought",
            ("thought_summary", {"content": {"text": "a"}}),
            ("thought_summary", {"content": {"type": "image"}}),
            ("arguments_delta", {"arguments": "x"}),
            summary=[{"type": "image"}],
        )
    )
    assert got == [
        Opaque(OWN, "thought_summary", '{"type":"image"}'),
        *(BlockStart(0, Reasoning()), ReasoningDelta(0, "a")),
        Opaque(OWN, "thought_summary", '{"type":"image"}', 0),
        Opaque(OWN, "arguments_delta", '{"type":"arguments_delta","arguments":"x"}', 0),
        BlockStop(0),
    ]


def test_thought_after_a_signature_is_a_new_block() -> None:
    say = ("thought_summary", {"content": {"text": "a"}})
    signs = [("thought_signature", {"signature": s}) for s in ("", "QQ==", "QQ==", "Qg==")]
    got = decode(CREATED, step("thought", say, *signs, say, summary=[{}, {}]), completed())
    assert got.events[3:-1] == [
        *(BlockStart(0, Reasoning()), ReasoningDelta(0, "a", 1)),
        *(SignatureDelta(0, "QQ==", "google"), BlockStop(0)),
        *(BlockStart(1, Reasoning()), SignatureDelta(1, "Qg==", "google"), BlockStop(1)),
        *(BlockStart(2, Reasoning()), ReasoningDelta(2, "a"), BlockStop(2)),
    ]
    assert kinds(got) == {"resent_signature": 1}


# Steps beside each other


def test_steps_may_overlap() -> None:
    got = blocks(
        start(0, "thought"),
        start(1, "model_output"),
        delta(1, "text", text="a"),
        delta(0, "thought_summary", content={"text": "t"}),
        delta(1, "text", text="b"),
        stop(0),
        stop(1),
    )
    assert got == [
        *(BlockStart(0, Text()), TextDelta(0, "a")),
        *(BlockStart(1, Reasoning()), ReasoningDelta(1, "t")),
        *(TextDelta(0, "b"), BlockStop(1), BlockStop(0)),
    ]


def test_open_step_is_stopped_at_the_end() -> None:
    got = decode(CREATED, start(0, "model_output"), delta(0, "text", text="a"), completed())
    assert got.events[-2] == BlockStop(0)
    assert kinds(got) == {"missing_block_stop": 1}


def test_reused_index_starts_another_step() -> None:
    again = start(0, "model_output") + delta(0, "text", text="a")
    got = decode(CREATED, again, again, stop(0), stop(0), completed())
    assert [event for event in got.events if isinstance(event, TextDelta)] == [
        TextDelta(0, "a"),
        TextDelta(1, "a"),
    ]
    assert kinds(got) == {"reused_index": 1, "extra_block_stop": 1}


def test_delta_after_a_stop_starts_a_block_of_its_kind() -> None:
    got = decode(CREATED, step("thought"), delta(0, "text", text="a"), stop(0), completed())
    assert got.events[3:-1] == [
        *(BlockStart(1, Reasoning()), ReasoningDelta(1, "a"), BlockStop(1)),
    ]
    assert kinds(got) == {"misplaced_delta": 1}


def test_steps_without_an_index_are_numbered_in_order() -> None:
    said = [event("step.start", step={"type": "model_output"})]
    said += [event("step.delta", delta={"type": "text", "text": "a"}), event("step.stop")]
    got = decode(CREATED, *said, *said, completed())
    assert got.events[1:-1] == [
        *(BlockStart(0, Text()), TextDelta(0, "a"), BlockStop(0)),
        *(BlockStart(1, Text()), TextDelta(1, "a"), BlockStop(1)),
    ]


def test_delta_without_a_step_starts_one_of_its_kind() -> None:
    say = delta(4, "thought_summary", content={"text": "t"})
    got = decode(CREATED, say, stop(4), delta(5, "image", uri="u", mime_type="image/png"), stop(5))
    assert got.events[1:-1] == [
        *(BlockStart(0, Reasoning()), ReasoningDelta(0, "t"), BlockStop(0)),
        *(BlockStart(1, Image("image/png", url="u")), BlockStop(1)),
    ]
    assert kinds(got) == {"misplaced_delta": 2}


def test_unknown_delta_without_a_step_is_opaque() -> None:
    got = blocks(delta(3, "news", n=1), event("step.delta", index=3), event("step.start", index=3))
    assert got[:2] == [Opaque(OWN, "news", '{"type":"news","n":1}'), Opaque(OWN, "delta", "{}")]
