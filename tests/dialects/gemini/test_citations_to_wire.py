"""Citations are written with byte offsets in the text that a client joins."""

from __future__ import annotations

import json
from typing import Any

from streamnorm import (
    BlockStart,
    BlockStop,
    Citation,
    CitationDelta,
    Event,
    JSONDelta,
    Loss,
    MessageStart,
    Reasoning,
    ReasoningDelta,
    SignatureDelta,
    StreamError,
    Text,
    TextDelta,
    ToolCall,
)
from streamnorm.dialects.gemini.content import merge_citations
from streamnorm.dialects.gemini.encode import GeminiEncoder


def candidate_fields(*events: Event, **options: Any) -> list[dict[str, Any]]:
    """Return the fields of each candidate besides content and index, where there are any."""
    writer = GeminiEncoder(**options)
    wire = b"".join(writer.encode(event) for event in (MessageStart("r", "m"), *events))
    frames = [json.loads(frame[6:]) for frame in wire.decode().split("\r\n\r\n")[:-1]]
    candidates = [frame["candidates"][0] for frame in frames if "candidates" in frame]
    said = [
        {key: value for key, value in candidate.items() if key not in ("content", "index")}
        for candidate in candidates
    ]
    return [fields for fields in said if fields]


def text(index: int, words: str, *citations: Citation) -> list[Event]:
    deltas = [CitationDelta(index, citation) for citation in citations]
    return [BlockStart(index, Text()), TextDelta(index, words), *deltas, BlockStop(index)]


def web(start: int | None, end: int | None, url: str = "https://a", title: str = "A") -> Citation:
    return Citation("web", url, title, start=start, end=end)


def segment(start: int, end: int, words: str) -> dict[str, Any]:
    return {"startIndex": start, "endIndex": end, "text": words}


def support(place: dict[str, Any], *numbers: int) -> dict[str, Any]:
    return {"segment": place, "groundingChunkIndices": list(numbers)}


A = {"web": {"uri": "https://a", "title": "A"}}
B = {"web": {"uri": "https://b", "title": "A"}}


def test_character_offsets_become_byte_offsets() -> None:
    assert candidate_fields(*text(0, "Grüße, 😀 fjørd", web(1, 5), web(7, 8))) == [
        {
            "groundingMetadata": {
                "groundingChunks": [A],
                "groundingSupports": [
                    support(segment(1, 7, "rüße"), 0),
                    support(segment(9, 13, "😀"), 0),
                ],
            }
        }
    ]


def test_citation_of_the_whole_block_covers_it() -> None:
    (fields,) = candidate_fields(*text(0, "é!", web(None, None)))
    assert fields["groundingMetadata"]["groundingSupports"] == [support(segment(0, 3, "é!"), 0)]


def test_sources_of_one_segment_share_a_support_without_repetition() -> None:
    cited = [web(0, 2), web(0, 2, "https://b"), web(2, 4), web(0, 1)]
    (fields,) = candidate_fields(*text(0, "abcd", *cited))
    assert fields["groundingMetadata"] == {
        "groundingChunks": [A, B],
        "groundingSupports": [
            support(segment(0, 2, "ab"), 0, 1),
            support(segment(2, 4, "cd"), 0),
            support(segment(0, 1, "a"), 0),
        ],
    }


def test_range_beyond_the_text_ends_with_the_text() -> None:
    (fields,) = candidate_fields(*text(0, "ab", web(1, 9), web(7, 9)))
    places = [s["segment"] for s in fields["groundingMetadata"]["groundingSupports"]]
    assert places == [segment(1, 2, "b"), segment(2, 2, "")]


def test_offsets_count_from_the_start_of_joined_text() -> None:
    (fields,) = candidate_fields(*text(0, "é"), *text(1, "bc", web(1, 2)))
    assert fields["groundingMetadata"]["groundingSupports"] == [support(segment(3, 4, "c"), 0)]


def test_offsets_restart_after_another_part() -> None:
    called: list[Event] = [BlockStart(1, ToolCall("c", "f")), BlockStop(1)]
    (fields,) = candidate_fields(*text(0, "é"), *called, *text(2, "bc", web(1, 2)))
    assert fields["groundingMetadata"]["groundingSupports"] == [support(segment(1, 2, "c"), 0)]


def test_text_after_a_withdrawn_call_is_joined() -> None:
    called: list[Event] = [BlockStart(1, ToolCall("c", "f")), JSONDelta(1, "["), BlockStop(1)]
    (fields,) = candidate_fields(*text(0, "é"), *called, *text(2, "bc", web(1, 2)))
    assert fields["groundingMetadata"]["groundingSupports"] == [support(segment(3, 4, "c"), 0)]


def test_offsets_restart_after_signed_text() -> None:
    start, delta, stop = text(0, "é")
    signed = [start, delta, SignatureDelta(0, "c2ln", "google"), stop]
    (fields,) = candidate_fields(*signed, *text(1, "bc", web(1, 2)))
    assert fields["groundingMetadata"]["groundingSupports"] == [support(segment(1, 2, "c"), 0)]


def test_foreign_citation_is_a_web_source_without_cited_text() -> None:
    source = Citation("url_citation", "https://a", "A", "their words", 0, 1, extra={"content": "x"})
    writer = GeminiEncoder()
    events: list[Event] = [MessageStart("r", "m"), *text(0, "ab", source)]
    assert b"their words" not in b"".join(map(writer.encode, events))
    assert writer.losses == (Loss("citations", "url_citation", 1, "written as web"),)
    (fields,) = candidate_fields(*text(0, "ab", source))
    assert fields["groundingMetadata"]["groundingChunks"] == [A]


def test_sources_that_differ_in_cited_text_alone_are_one() -> None:
    cited = [Citation("web_search_result_location", "https://a", "A", words) for words in "xy"]
    (fields,) = candidate_fields(*text(0, "ab", *cited))
    assert fields["groundingMetadata"]["groundingSupports"] == [support(segment(0, 2, "ab"), 0)]


def test_cited_text_of_a_retrieved_source_is_kept() -> None:
    source = Citation("retrievedContext", "gs://a", "A", "their words", 0, 2)
    (fields,) = candidate_fields(*text(0, "ab", source))
    chunk = {"retrievedContext": {"uri": "gs://a", "title": "A", "text": "their words"}}
    assert fields["groundingMetadata"]["groundingChunks"] == [chunk]


def test_recited_source_is_written_to_citation_metadata() -> None:
    source = Citation("citation", "https://a", None, None, 1, 2, {"license": "MIT"})
    place = {"startIndex": 2, "endIndex": 3}
    for extras, fields in ((False, {}), (True, {"license": "MIT"})):
        cited = {"citations": [{**place, **fields, "uri": "https://a"}]}
        assert candidate_fields(*text(0, "éb", source), extras=extras) == [
            {"citationMetadata": cited}
        ]


def test_recited_source_counts_all_text_of_the_answer() -> None:
    """Which has no words beside its place that could tell where it begins."""
    source = Citation("citation", "https://a", None, None, 1, 2)
    call = [BlockStart(1, ToolCall("c", "f")), BlockStop(1)]
    signed = [*text(2, "öö")[:-1], SignatureDelta(2, "cw==", "google"), BlockStop(2)]
    thought = [BlockStart(3, Reasoning()), ReasoningDelta(3, "hm"), BlockStop(3)]
    events = [*text(0, "é"), *call, *signed, *thought, *text(4, "ab"), *text(5, "cd", source)]
    cited = {"citations": [{"startIndex": 9, "endIndex": 10, "uri": "https://a"}]}
    assert candidate_fields(*events) == [{"citationMetadata": cited}]


def test_vendor_fields_of_a_source_are_written_back() -> None:
    def scored(score: float) -> Citation:
        extra = {"domain": "a.test", "confidenceScores": [score]}
        return Citation("web", f"https://{score}", None, None, 0, 2, extra)

    (fields,) = candidate_fields(*text(0, "ab", scored(0.5), scored(0.25), web(0, 2)), extras=True)
    first = {"web": {"domain": "a.test", "uri": "https://0.5"}}
    second = {"web": {"domain": "a.test", "uri": "https://0.25"}}
    assert fields["groundingMetadata"] == {
        "groundingChunks": [first, second, A],
        "groundingSupports": [
            {**support(segment(0, 2, "ab"), 0, 1), "confidenceScores": [0.5, 0.25]},
            support(segment(0, 2, "ab"), 2),
        ],
    }


def test_citations_of_a_cut_text_precede_the_error() -> None:
    *events, _ = text(0, "ab", web(0, 1))
    (fields,) = candidate_fields(*events, StreamError("truncated", "cut"))
    assert fields["groundingMetadata"]["groundingSupports"] == [support(segment(0, 1, "a"), 0)]


def test_empty_signed_text_has_no_citation() -> None:
    writer = GeminiEncoder()
    signed = SignatureDelta(0, "c2ln", "google")
    before, behind = CitationDelta(0, web(0, 0)), CitationDelta(0, web(None, None))
    events: list[Event] = [BlockStart(0, Text()), before, signed, behind, BlockStop(0)]
    wire = b"".join(map(writer.encode, [MessageStart("r", "m"), *events]))
    assert b"groundingMetadata" not in wire
    assert writer.losses == (Loss("citations", "empty text", 2, "dropped"),)


def test_sources_of_several_parts_are_numbered_on() -> None:
    def grounded(*numbers: int) -> dict[str, Any]:
        chunks = [{"web": {"uri": f"https://e.org/{number}"}} for number in numbers]
        support = {"segment": {"endIndex": 1}, "groundingChunkIndices": [*range(len(numbers))]}
        return {
            "groundingMetadata": {"groundingChunks": chunks, "groundingSupports": [support]},
        }

    merged = merge_citations([(0, grounded(1)), (1, grounded(2, 3))])["groundingMetadata"]
    assert len(merged["groundingChunks"]) == 3
    supports = merged["groundingSupports"]
    assert [support["groundingChunkIndices"] for support in supports] == [[0], [1, 2]]
    assert supports[1]["segment"] == {"endIndex": 1, "partIndex": 1}
