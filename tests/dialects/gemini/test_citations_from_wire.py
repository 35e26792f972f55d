"""Grounding and recitation metadata become citations; unreadable entries are kept."""

from __future__ import annotations

from typing import Any

import pytest
from support.gemini.frames import blocks, parts, text, thought

from streamnorm import (
    BlockStart,
    BlockStop,
    Citation,
    CitationDelta,
    Opaque,
    Reasoning,
    ReasoningDelta,
    Text,
    TextDelta,
)
from streamnorm._core.limits import StoredBytes
from streamnorm._core.text import TextOffsets
from streamnorm.dialects.gemini.content import grounding_from_wire, recitations_from_wire

SEA = {"web": {"uri": "https://sea.example", "title": "sea"}}
MAP = {"maps": {"uri": "https://map.example", "title": "Riff", "placeId": "p1"}}
FILE = {"retrievedContext": {"title": "log", "text": "Nebel", "fileSearchStore": "s"}}


def place(text: str = "Möwe am Riff") -> TextOffsets:
    kept = TextOffsets(room=StoredBytes(100))
    kept.append(text)
    return kept


def support(start: int | None, end: int | None, *chunks: object, **fields: Any) -> dict[str, Any]:
    segment = {"startIndex": start, "endIndex": end}
    told = {key: value for key, value in segment.items() if value is not None}
    return {"segment": told, "groundingChunkIndices": list(chunks), **fields}


def metadata(*supports: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {
        "groundingChunks": [SEA, MAP, FILE],
        "groundingSupports": list(supports),
        **fields,
    }


def test_each_source_of_each_support_is_a_citation() -> None:
    told = metadata(support(None, 5, 0, 1), support(9, 13, 2, confidenceScores=[0.5]))
    assert grounding_from_wire(told, place()) == (
        [
            Citation("web", "https://sea.example", "sea", None, 0, 4),
            Citation("maps", "https://map.example", "Riff", None, 0, 4, {"placeId": "p1"}),
            Citation(
                *("retrievedContext", None, "log", "Nebel", 8, 12),
                extra={"fileSearchStore": "s", "confidenceScores": [0.5]},
            ),
        ],
        {},
    )


def test_support_without_a_segment_cites_the_whole_block() -> None:
    bare = {"groundingChunkIndices": [0]}
    citations, _ = grounding_from_wire(metadata(bare, support(None, None, 1)), place())
    assert [(c.kind, c.start, c.end) for c in citations] == [
        ("web", None, None),
        ("maps", None, None),
    ]


@pytest.mark.parametrize(
    "odd",
    [
        support(0, 99, 0),
        support(3, None, 0),
        support(0, 5),
        support(0, 5, 3),
        support(0, 5, -1),
        support(0, 5, "0"),
        support(0, 5, None),
        {"segment": {"startIndex": "0", "endIndex": 5}, "groundingChunkIndices": [0]},
        "support",
    ],
    ids=str,
)
def test_unreadable_support_is_kept_with_all_sources(odd: Any) -> None:
    told = metadata(support(0, 5, 1), odd, webSearchQueries=["q"])
    citations, rest = grounding_from_wire(told, place())
    assert [citation.kind for citation in citations] == ["maps"]
    assert rest == {
        "groundingChunks": [SEA, MAP, FILE],
        "groundingSupports": [odd],
        "webSearchQueries": ["q"],
    }


@pytest.mark.parametrize("chunk", [{}, {"web": 1}, {"web": {}, "maps": {}}, None], ids=str)
def test_invalid_source_is_kept(chunk: object) -> None:
    told = {"groundingChunks": [chunk], "groundingSupports": [support(0, 5, 0)]}
    assert grounding_from_wire(told, place()) == ([], told)


def test_uncited_source_is_kept() -> None:
    citations, rest = grounding_from_wire(metadata(support(0, 5, 0)), place())
    assert len(citations) == 1
    assert rest == {"groundingChunks": [SEA, MAP, FILE]}


def test_metadata_without_open_text_is_kept() -> None:
    told = metadata(support(0, 5, 0))
    assert grounding_from_wire(told, None) == ([], told)
    assert recitations_from_wire({"citations": [{"uri": "u"}]}, None) == (
        [],
        {"citations": [{"uri": "u"}]},
    )


def test_empty_metadata_gives_nothing() -> None:
    empty: dict[str, Any] = {
        "groundingChunks": [],
        "groundingSupports": None,
        "searchEntryPoint": {},
    }
    assert grounding_from_wire(empty, place()) == ([], {})
    assert recitations_from_wire({"citations": []}, place()) == ([], {})


def test_recitation_names_its_sources() -> None:
    late = {"startIndex": 50, "endIndex": 60, "uri": "u"}
    told = {
        "citations": [{"endIndex": 5, "uri": "u", "title": "t", "license": "mit"}, late, 3],
        "novelty": 1,
    }
    assert recitations_from_wire(told, place()) == (
        [Citation("citation", "u", "t", None, 0, 4, {"license": "mit"})],
        {"citations": [late, 3], "novelty": 1},
    )


# In a stream


def grounded(**told: Any) -> bytes:
    return parts({"text": ""}, groundingMetadata=told)


def test_sources_find_the_text_that_is_still_open() -> None:
    told = {"groundingChunks": [SEA], "groundingSupports": [support(6, 8, 0)]}
    citation = Citation("web", "https://sea.example", "sea", None, 5, 7)
    assert blocks(text("Möwe "), text("am Riff"), grounded(**told)) == [
        *(BlockStart(0, Text()), TextDelta(0, "Möwe "), TextDelta(0, "am Riff")),
        *(CitationDelta(0, citation), BlockStop(0)),
    ]


def test_repeated_source_is_cited_once() -> None:
    told = {
        "groundingChunks": [SEA],
        "groundingSupports": [support(0, 5, 0)],
        "webSearchQueries": ["q"],
    }
    events = blocks(text("Möwe"), grounded(**told), grounded(**told))
    citation = Citation("web", "https://sea.example", "sea", None, 0, 4)
    assert events[2:] == [
        CitationDelta(0, citation),
        Opaque("gemini", "groundingMetadata", '{"webSearchQueries":["q"]}', 0),
        BlockStop(0),
    ]


def test_offsets_of_a_later_block_count_the_whole_text() -> None:
    segment = {"startIndex": 4, "endIndex": 7, "text": "two"}
    told = {
        "groundingChunks": [SEA],
        "groundingSupports": [{"segment": segment, "groundingChunkIndices": [0]}],
    }
    events = blocks(text("one "), thought("hm"), text("two"), grounded(**told))
    citation = Citation("web", "https://sea.example", "sea", None, 0, 3)
    assert events[-2:] == [CitationDelta(2, citation), BlockStop(2)]


def test_sources_without_open_text_are_opaque() -> None:
    told = {"groundingChunks": [SEA], "groundingSupports": [support(0, 1, 0)]}
    data = (
        '{"groundingChunks":[{"web":{"uri":"https://sea.example","title":"sea"}}],'
        '"groundingSupports":[{"segment":{"startIndex":0,"endIndex":1},'
        '"groundingChunkIndices":[0]}]}'
    )
    assert blocks(grounded(**told)) == [Opaque("gemini", "groundingMetadata", data)]
    assert blocks(thought("hm"), grounded(**told)) == [
        *(BlockStart(0, Reasoning()), ReasoningDelta(0, "hm")),
        *(Opaque("gemini", "groundingMetadata", data, 0), BlockStop(0)),
    ]


SOURCE = {"citations": [{"uri": "https://e.org/", "startIndex": 0, "endIndex": 1}]}


def test_citation_follows_half_a_character() -> None:
    found = blocks(parts({"text": "a\ud83d"}, citationMetadata=SOURCE, finishReason="STOP"))
    kinds = [TextDelta, TextDelta, CitationDelta]
    assert [type(event) for event in found[1:-1]] == kinds
    assert found[2] == TextDelta(0, "\ufffd")


def test_citations_before_any_text_are_opaque() -> None:
    [found] = blocks(parts(citationMetadata=SOURCE, finishReason="STOP"))
    assert isinstance(found, Opaque)
    assert (found.name, found.index) == ("citationMetadata", None)
