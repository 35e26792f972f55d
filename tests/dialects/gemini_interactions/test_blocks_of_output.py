"""Steps of the answer: text with citations, and files."""

from __future__ import annotations

import base64

import pytest
from support.gemini_interactions.frames import (
    blocks,
    event,
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
    SignatureDelta,
    Text,
    TextDelta,
)
from streamnorm._core.text import tag_signature

OWN = "gemini_interactions"


def note(index: int, end: int | None, **fields: object) -> tuple[str, dict[str, object]]:
    told = {} if end is None else {"end_index": end}
    source = {"type": "url_citation", "url": "u", "start_index": index, **told, **fields}
    return "text_annotation_delta", {"annotations": [source]}


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
        step("model_output", sign(""), sign("Qw=="), sign("RA=="), number=1),
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


# Citations


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


def test_content_of_the_former_revision_may_be_a_file() -> None:
    image = {"type": "image", "uri": "u", "mime_type": "image/png"}
    frames = [event("content.start", index=0, content=image), event("content.stop", index=0)]
    assert blocks(*frames) == [BlockStart(0, Image("image/png", url="u")), BlockStop(0)]
