"""Writers of messages and their parts, event by event."""

from __future__ import annotations

import pytest
from support.openai_responses.streams import MESSAGE_START, encode, find, types, write

from streamnorm import (
    BlockStart,
    BlockStop,
    Citation,
    CitationDelta,
    Event,
    Loss,
    Refusal,
    RefusalDelta,
    Text,
    TextDelta,
)

SAID: list[Event] = [BlockStart(0, Text()), TextDelta(0, "hi"), BlockStop(0)]


@pytest.mark.parametrize("text", ['"\\\n', "é\u2028", "\U0001f600"])
def test_any_text_is_written_unchanged_in_every_event(text: str) -> None:
    payloads = encode(BlockStart(0, Text()), TextDelta(0, text), TextDelta(0, "!"), BlockStop(0))
    assert [event["delta"] for event in find(payloads, "output_text.delta")] == [text, "!"]
    assert find(payloads, "output_text.done")[0]["text"] == text + "!"
    assert find(payloads, "output_item.done")[0]["item"]["content"][0]["text"] == text + "!"


def test_any_item_id_is_written_in_every_delta() -> None:
    id = 'm%d %b %% é"'
    deltas = [TextDelta(0, "50 %"), TextDelta(0, "!")]
    payloads = encode(
        BlockStart(0, Text(), extra={"item_id": id}), *deltas, BlockStop(0), extras=True
    )
    place = {"item_id": id, "output_index": 0, "content_index": 0, "logprobs": []}
    assert find(payloads, "output_text.delta") == [
        {"type": "response.output_text.delta", **place, "delta": text} for text in ("50 %", "!")
    ]


def test_refusal_is_a_refusal_part() -> None:
    payloads = encode(BlockStart(0, Refusal()), RefusalDelta(0, "no"), BlockStop(0))
    place = {"item_id": "msg_1_0", "output_index": 0, "content_index": 0}
    part = {"type": "refusal", "refusal": "no"}
    assert types(payloads) == [
        *("output_item.added", "content_part.added", "refusal.delta", "refusal.done"),
        *("content_part.done", "output_item.done"),
    ]
    assert payloads[1]["part"] == {"type": "refusal", "refusal": ""}
    assert payloads[2] == {"type": "response.refusal.delta", **place, "delta": "no"}
    assert payloads[3] == {"type": "response.refusal.done", **place, "refusal": "no"}
    assert payloads[4]["part"] == part
    assert payloads[5]["item"]["content"] == [part]


def test_each_text_is_a_message_of_its_own() -> None:
    payloads = encode(*SAID, BlockStart(1, Text()), BlockStop(1), BlockStart(2, Refusal()))
    assert [event["item"]["id"] for event in find(payloads, "output_item.added")] == [
        *("msg_1_0", "msg_1_1", "msg_1_2"),
    ]


def test_citation_with_offsets_is_written_at_once() -> None:
    source = Citation("url_citation", "https://u", "T", start=0, end=1, extra={"rank": 1})
    payloads = encode(BlockStart(0, Text()), TextDelta(0, "hi"), CitationDelta(0, source))
    annotation = {
        "type": "url_citation",
        "start_index": 0,
        "end_index": 1,
        "url": "https://u",
        "title": "T",
        "rank": 1,
    }
    assert payloads[-1] == {
        "type": "response.output_text.annotation.added",
        "item_id": "msg_1_0",
        "output_index": 0,
        "content_index": 0,
        "annotation_index": 0,
        "annotation": annotation,
    }


def test_citation_of_a_whole_text_is_written_when_the_text_ends() -> None:
    whole = Citation("url_citation", "https://a", cited_text="words")
    placed = Citation("url_citation", "https://b", "B", start=1, end=2)
    cited = [CitationDelta(0, whole), CitationDelta(0, placed), CitationDelta(0, placed)]
    payloads = encode(BlockStart(0, Text()), TextDelta(0, "é"), *cited, TextDelta(0, "!!"))
    assert types(payloads)[2:] == ["output_text.delta", "output_text.delta"]
    payloads = encode(
        BlockStart(0, Text()), TextDelta(0, "é"), *cited, TextDelta(0, "!!"), BlockStop(0)
    )
    sources = [event["annotation"] for event in find(payloads, "output_text.annotation.added")]
    assert types(payloads)[-6:-3] == ["output_text.annotation.added"] * 3
    assert sources[0] == {
        "type": "url_citation",
        "start_index": 0,
        "end_index": 3,
        "url": "https://a",
        "title": "",
        "content": "words",
    }
    assert [source["url"] for source in sources] == ["https://a", "https://b", "https://b"]
    numbers = [
        event["annotation_index"] for event in find(payloads, "output_text.annotation.added")
    ]
    assert numbers == [0, 1, 2]
    assert find(payloads, "content_part.done")[0]["part"]["annotations"] == sources


def test_file_citation_has_only_the_fields_of_its_type() -> None:
    extra = {"file_id": "file-1", "filename": "a.txt", "index": 4}
    payloads = encode(
        BlockStart(0, Text()), CitationDelta(0, Citation("file_citation", extra=extra))
    )
    assert payloads[-1]["annotation"] == {"type": "file_citation", **extra}


def test_citation_of_another_vendor_is_written_if_it_has_a_url() -> None:
    source = Citation("web_search_result_location", "https://w", extra={"encrypted_index": "i"})
    page = Citation("page_location", cited_text="p")
    events = [
        MESSAGE_START,
        BlockStart(0, Text()),
        CitationDelta(0, source),
        CitationDelta(0, page),
    ]
    payloads, writer = write([*events, BlockStop(0)])
    (event,) = find(payloads, "output_text.annotation.added")
    assert event["annotation"] == {
        "type": "url_citation",
        "start_index": 0,
        "end_index": 0,
        "url": "https://w",
        "title": "",
    }
    assert writer.losses == (
        Loss("citations", "web_search_result_location", 1, "written as url_citation"),
        Loss("citations", "page_location", 1, "dropped"),
    )
