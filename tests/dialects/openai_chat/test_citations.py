"""Citations and annotations, in both directions."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.openai_chat.chunks import DONE, blocks_of, chunk, content, decode, opaques_of
from support.openai_chat.payloads import encode, payload

from streamnorm import (
    BlockStart,
    BlockStop,
    Citation,
    CitationDelta,
    Event,
    Failed,
    Limits,
    Loss,
    MessageStart,
    MessageStop,
    Opaque,
    StreamError,
    Text,
    TextDelta,
    ToolCall,
)
from streamnorm._core.limits import StoredBytes
from streamnorm.codec import encoder
from streamnorm.dialects.openai_chat.content import Annotations

END = chunk({}, "stop") + DONE
URL = {"url": "https://e.org", "title": "E", "content": "words", "start_index": 1, "end_index": 3}

SOURCE = Citation("url_citation", "https://u", "T", "words")
SPAN = {"url": "https://u", "title": "T", "content": "words"}


def annotations(*events: Event) -> list[Any]:
    """Return the annotations of a stream, which are in one chunk before the finish."""
    *body, last, _ = encode(*events, MessageStop("end_turn"))
    assert last == payload({}, "stop")
    found = [chunk["choices"][0]["delta"].get("annotations") for chunk in body]
    assert found[:-1] == [None] * (len(found) - 1)
    return found[-1] or []


def cited(start: int, end: int) -> dict[str, Any]:
    return {
        "type": "url_citation",
        "url_citation": {"start_index": start, "end_index": end, **SPAN},
    }


def test_citation_without_offsets_covers_its_block() -> None:
    assert annotations(
        *(BlockStart(0, Text()), TextDelta(0, "é😀"), CitationDelta(0, SOURCE), TextDelta(0, "b")),
        BlockStop(0),
    ) == [cited(0, 3)]


def test_citation_without_title_is_written_with_an_empty_one() -> None:
    """The reference requires one, and the AI SDK refuses the chunk without."""
    bare = Citation("url_citation", "https://u")
    written = {"start_index": 0, "end_index": 1, "url": "https://u", "title": ""}
    assert annotations(
        *(BlockStart(0, Text()), TextDelta(0, "a"), CitationDelta(0, bare), BlockStop(0))
    ) == [{"type": "url_citation", "url_citation": written}]


def test_offsets_count_from_the_start_of_the_choice() -> None:
    part = Citation("url_citation", "https://u", "T", "words", 1, 2)
    assert annotations(
        *(BlockStart(0, Text()), TextDelta(0, "abc"), CitationDelta(0, part), BlockStop(0)),
        *(BlockStart(1, ToolCall("c", "f")), BlockStop(1)),
        *(BlockStart(2, Text()), CitationDelta(2, SOURCE), TextDelta(2, "de")),
        *(CitationDelta(2, part), BlockStop(2)),
    ) == [cited(1, 2), cited(3, 5), cited(4, 5)]


def test_offsets_count_what_a_delta_writer_has_written() -> None:
    encoding = encoder("openai_chat")
    for event in (MessageStart("m", "m"), BlockStart(0, Text()), TextDelta(0, "a")):
        encoding.render(event)
    encoding.delta_writer(0)("bé")
    rest = (
        *(BlockStop(0), BlockStart(1, Text()), TextDelta(1, "d"), CitationDelta(1, SOURCE)),
        *(BlockStop(1), MessageStop("end_turn")),
    )
    written = b"".join(map(encoding.render, rest))
    assert b'"start_index":3,"end_index":4' in written


def test_citation_of_another_dialect_is_written_as_url_citation() -> None:
    found = Citation(
        "web_search_result_location", "https://u", "T", "words", extra={"encrypted_index": "i"}
    )
    events = [BlockStart(0, Text()), TextDelta(0, "a"), CitationDelta(0, found), BlockStop(0)]
    assert annotations(*events) == [cited(0, 1)]
    writer = encoder("openai_chat")
    for event in (MessageStart("m", "gpt"), *events):
        writer.encode(event)
    assert writer.losses == (
        Loss("citations", "web_search_result_location", 1, "written as url_citation"),
    )


@pytest.mark.parametrize("kind", ["char_location", "search_result_location"])
def test_citation_without_url_is_not_written(kind: str) -> None:
    events = [BlockStart(0, Text()), TextDelta(0, "a"), CitationDelta(0, Citation(kind, title="T"))]
    assert annotations(*events, BlockStop(0)) == []


def test_unknown_fields_of_an_annotation_round_trip() -> None:
    annotation = {
        "type": "url_citation",
        "url_citation": {"start_index": 0, "end_index": 2, **SPAN, "n": 1},
    }
    events = decode(content("ab"), chunk({"annotations": [annotation]}, "stop"), DONE).events
    source = Citation("url_citation", "https://u", "T", "words", 0, 2, {"n": 1})
    assert CitationDelta(0, source) in events
    assert annotations(*(e for e in events if getattr(e, "index", None) == 0)) == [annotation]


def test_opaque_annotation_is_written_unchanged_at_the_end() -> None:
    loose = {"type": "url_citation", "url": "https://v"}
    assert annotations(
        Opaque("openai_chat", "annotations", json.dumps(loose)),
        *(BlockStart(0, Text()), TextDelta(0, "a"), CitationDelta(0, SOURCE), BlockStop(0)),
    ) == [cited(0, 1), loose]


def test_choice_without_citations_has_no_annotations() -> None:
    citations = Annotations(StoredBytes())
    citations.start_block(0)
    citations.stop_block(0, 3)
    assert citations.to_wire() == []


def test_citations_of_a_failed_stream_are_a_loss() -> None:
    """They are written at the end of their choice, which a failed stream has not."""
    events: list[Event] = [MessageStart("m", "gpt"), BlockStart(0, Text()), TextDelta(0, "Hi")]
    for cited, losses in (
        ([], ()),
        (
            [CitationDelta(0, Citation("url_citation", url="https://u"))],
            (Loss("held", "failed stream", 1, "citations dropped"),),
        ),
    ):
        writer = encoder("openai_chat")
        for event in (*events, *cited, StreamError("upstream", "gone")):
            writer.encode(event)
        assert writer.losses == losses


def test_annotation_becomes_a_citation_of_the_text() -> None:
    annotation = {"type": "url_citation", "url_citation": {**URL, "extra": 1, "none": None}}
    assert blocks_of({"content": "text"}, {"annotations": [annotation]}) == (
        Text(
            "text", (Citation("url_citation", "https://e.org", "E", "words", 1, 3, {"extra": 1}),)
        ),
    )


def test_flat_annotation_becomes_a_citation() -> None:
    assert blocks_of({"content": "text", "annotations": [{"type": "url_citation", **URL}]}) == (
        Text("text", (Citation("url_citation", "https://e.org", "E", "words", 1, 3),)),
    )


def test_offsets_are_read_only_in_the_first_text_block() -> None:
    deltas = [{"content": "a"}, {"reasoning": "r"}, {"content": "b"}]
    read = blocks_of(*deltas, {"annotations": [{"type": "url_citation", **URL}]})
    assert read[2] == Text(
        "b",
        (
            Citation(
                "url_citation",
                "https://e.org",
                "E",
                "words",
                extra={"start_index": 1, "end_index": 3},
            ),
        ),
    )


def test_fields_of_unexpected_type_go_to_extra() -> None:
    odd = {"type": "file", "url": 5, "title": None, "start_index": True}
    assert blocks_of({"content": "a"}, {"annotations": [odd]}) == (
        Text("a", (Citation("file", extra={"url": 5, "start_index": True}),)),
    )


def test_annotation_without_text_or_type_is_opaque() -> None:
    sourced = {"type": "url_citation", "url_citation": {}}
    assert opaques_of({"annotations": [sourced]}) == [("annotations", sourced)]
    assert opaques_of({"content": "a"}, {"annotations": [{"url": "u"}, "x"]}) == [
        *(("annotations", {"url": "u"}), ("annotations", "x")),
    ]
    later = [{"content": "a"}, {"reasoning": "r"}, {"annotations": [sourced]}, {"content": "b"}]
    assert opaques_of(*later) == [("annotations", sourced)]


def test_sources_before_the_first_text_are_citations_of_it() -> None:
    annotation = {"type": "url_citation", "url_citation": {**URL}}
    source = Citation("url_citation", "https://e.org", "E", "words", 1, 3)
    frames = [chunk({"content": "", "annotations": [annotation]}), chunk({"reasoning": "r"})]
    events = decode(*frames, content("text"), content("!"), END).events
    assert events[4:8] == [
        *(BlockStart(1, Text()), CitationDelta(1, source), TextDelta(1, "text")),
        TextDelta(1, "!"),
    ]


def test_sources_before_the_first_text_are_those_of_no_later_one() -> None:
    annotation = {"type": "url_citation", "url_citation": {**URL}}
    source = Citation("url_citation", "https://e.org", "E", "words", 1, 3)
    deltas = [{"annotations": [annotation]}, {"content": "a"}, {"reasoning": "r"}, {"content": "b"}]
    first, _, last = blocks_of(*deltas)
    assert (first, last) == (Text("a", (source,)), Text("b"))


def test_sources_that_are_held_are_bounded() -> None:
    annotation = {"type": "url_citation", "url_citation": {**URL}}
    limits = Limits(max_accumulated_bytes=200)
    frames = [chunk({"annotations": [annotation]}) for _ in range(3)]
    outcome = decode(*frames, content("a"), END, limits=limits).outcome
    assert isinstance(outcome, Failed)
    assert outcome.error.code == "max_accumulated_bytes"


def test_citation_belongs_to_the_open_text_block() -> None:
    annotation = {"type": "url_citation", "url_citation": {"url": "u"}}
    decoded = decode(content("a"), chunk({"annotations": [annotation]}), END)
    assert decoded.events[3:5] == [CitationDelta(0, Citation("url_citation", "u")), BlockStop(0)]
