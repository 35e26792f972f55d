"""Citations of text blocks, in both directions."""

from __future__ import annotations

from typing import Any

import pytest
from support.anthropic import payloads
from support.anthropic.frames import block, body, delta, stop

from streamnorm import BlockStart, BlockStop, Citation, CitationDelta, Text, TextDelta
from streamnorm.dialects.anthropic.content import citation_from_wire, citation_to_wire


def test_citations_arrive_in_the_start_or_by_deltas() -> None:
    wire = {"type": "char_location", "document_index": 0, "document_title": "D", "cited_text": "c"}
    source = Citation("char_location", None, "D", "c", extra={"document_index": 0})
    cited = delta(0, "citations_delta", citation=wire)
    assert body(
        block(0, "text", text="a", citations=[wire]),
        *(delta(0, "text_delta", text="b"), cited, stop(0)),
    ) == [
        *(BlockStart(0, Text()), TextDelta(0, "a"), CitationDelta(0, source)),
        *(TextDelta(0, "b"), CitationDelta(0, source), BlockStop(0)),
    ]


def test_half_characters_are_replaced() -> None:
    wire = {"type": "a\ud800", "url": "b\ud800", "title": "\udfff", "cited_text": "\ud83d\ude00"}
    assert citation_from_wire(wire) == Citation("a�", "b�", "�", "😀")


CITATIONS: dict[str, tuple[dict[str, Any], Citation]] = {
    "characters": (
        {
            "type": "char_location",
            "cited_text": "c",
            "document_index": 0,
            "document_title": "D",
            "file_id": None,
            "start_char_index": 3,
            "end_char_index": 9,
        },
        Citation(
            *("char_location", None, "D", "c"),
            extra={"document_index": 0, "start_char_index": 3, "end_char_index": 9},
        ),
    ),
    "pages": (
        {"type": "page_location", "cited_text": "c", "document_title": "D", "file_id": "f"},
        Citation("page_location", None, "D", "c", extra={"file_id": "f"}),
    ),
    "blocks": (
        # What every document's citation has, though it be null: clients check that it is there.
        {
            "type": "content_block_location",
            "cited_text": "c",
            "document_title": None,
            "file_id": None,
            "start_block_index": 0,
        },
        Citation("content_block_location", None, None, "c", extra={"start_block_index": 0}),
    ),
    "web": (
        {
            "type": "web_search_result_location",
            "url": "https://u",
            "title": "T",
            "cited_text": "c",
            "encrypted_index": "i",
        },
        Citation(
            "web_search_result_location", "https://u", "T", "c", extra={"encrypted_index": "i"}
        ),
    ),
    "web without a title": (
        {
            "type": "web_search_result_location",
            "url": "https://u",
            "title": None,
            "cited_text": "c",
        },
        Citation("web_search_result_location", "https://u", None, "c"),
    ),
    "search without a title": (
        {"type": "search_result_location", "cited_text": "c", "source": "s", "title": None},
        Citation("search_result_location", None, None, "c", extra={"source": "s"}),
    ),
    "search": (
        {"type": "search_result_location", "cited_text": "c", "source": "s", "title": "T"},
        Citation("search_result_location", None, "T", "c", extra={"source": "s"}),
    ),
    "a kind to come": (
        {"type": "k", "title": "T", "n": [1]},
        Citation("k", None, "T", extra={"n": [1]}),
    ),
}


@pytest.mark.parametrize(("wire", "source"), CITATIONS.values(), ids=CITATIONS)
def test_citation_round_trips(wire: dict[str, Any], source: Citation) -> None:
    assert citation_from_wire(wire) == source
    assert citation_to_wire(source) == wire


def test_citation_may_lack_every_field() -> None:
    assert citation_from_wire({}) == Citation("")
    assert citation_from_wire(
        {"type": 7, "url": None, "title": ["T"], "cited_text": None}
    ) == Citation("", extra={"title": ["T"]})


def test_malformed_citation_list_is_ignored() -> None:
    for citations in (None, [], "x", ["x", None]):
        events = body(block(0, "text", text="", citations=citations), stop(0))
        assert [type(event).__name__ for event in events] == ["BlockStart", "BlockStop"]


def test_citation_is_written_as_a_delta() -> None:
    citation = Citation(
        "char_location", None, "D", "c", extra={"document_index": 0, "start_char_index": 3}
    )
    events = (BlockStart(0, Text()), TextDelta(0, "a"), CitationDelta(0, citation))
    name, payload = payloads.encode(*events)[-1]
    assert name == "content_block_delta"
    assert payload["delta"] == {
        "type": "citations_delta",
        "citation": {
            "type": "char_location",
            "document_title": "D",
            "file_id": None,
            "cited_text": "c",
            "document_index": 0,
            "start_char_index": 3,
        },
    }
