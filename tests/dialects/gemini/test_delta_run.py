"""Delta runs: chunks that only extend the text or the thought of candidate 0."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.gemini.frames import candidate, chunk, parts, text, thought
from support.streams.delta_runs import offer, read_chunks, read_each_way

from streamnorm import (
    Event,
    MessageStart,
    ReasoningDelta,
    StreamError,
    TextDelta,
    Transcoder,
    Usage,
    UsageUpdate,
)
from streamnorm._core.codec import Decoder
from streamnorm.dialects.gemini.decode import GeminiDecoder

DETAILS = {"promptTokensDetails": [{"modality": "TEXT", "tokenCount": 9}]}
COUNTS = {"promptTokenCount": 9, "candidatesTokenCount": 1, **DETAILS}


def counted(words: str, **counts: Any) -> bytes:
    """Return a chunk of text that reports tokens."""
    return chunk(candidate({"text": words}), usageMetadata={**COUNTS, **counts})


# The first chunk of a stream, and the first that reports counts, are read in full.
BEGUN = [counted("a"), counted("b"), counted("b", candidatesTokenCount=2)]


def begin(*chunks: bytes) -> Decoder:
    """Return a decoder amid a text, or amid what the chunks make of it."""
    reader = GeminiDecoder()
    for data in (*BEGUN, *chunks):
        reader.feed(data)
    return reader


def offer_each(reader: Decoder, *chunks: bytes) -> list[str | None]:
    """Return what the run makes of chunks that are one event each, until it refuses one."""
    texts: list[str | None] = []
    for data in chunks:
        (raw,) = reader.split(data)
        assert reader.run is not None
        assert isinstance(raw, bytes)
        texts.append(reader.run.text_of(raw))
        if texts[-1] is None:
            break
    return texts


ON_RUN = {
    "text": (text("c"), "c"),
    "empty": (text(""), ""),
    "escaped": (text('\n"é😀\\\u2028'), '\n"é😀\\\u2028'),
    "LF": (text("c").replace(b"\r\n", b"\n"), "c"),
    "counts": (counted("c", candidatesTokenCount=3), "c"),
    "same counts": (counted("c", candidatesTokenCount=2), "c"),
}


@pytest.mark.parametrize("name", ON_RUN)
def test_consecutive_text_stays_on_the_run(name: str) -> None:
    data, words = ON_RUN[name]
    reading = read_chunks("gemini", *BEGUN, data, data, text("d"))
    assert reading.on_run[-3:] == [1, 1, 1]
    deltas = [event for event in reading.events[3] if isinstance(event, TextDelta)]
    assert deltas == ([TextDelta(0, words)] if words else [])
    assert reading.decoder.frames == 6


def test_run_names_the_block_that_a_text_extends() -> None:
    reader = begin()
    assert reader.run is not None
    assert offer_each(reader, text("c")) == ["c"]
    assert type(reader.run.delta) is TextDelta
    assert reader.run.delta.index == 0
    reader = begin(thought("c"))
    assert reader.run is not None
    assert offer_each(reader, thought("d")) == ["d"]
    assert type(reader.run.delta) is ReasoningDelta
    assert reader.run.delta.index == 1


def test_consecutive_thoughts_stay_on_the_run() -> None:
    reading = read_chunks("gemini", *BEGUN, thought("c"), thought("d"), thought("e"), text("f"))
    assert reading.events[4:6] == [[ReasoningDelta(1, "d")], [ReasoningDelta(1, "e")]]
    assert reading.on_run[3:] == [0, 1, 1, 0]


REFUSED = {
    "thought": thought("c"),
    "signature": text("c", thoughtSignature="c2ln"),
    "finish": text("c", "STOP"),
    "another candidate": parts({"text": "c"}, index=1),
    "two candidates": chunk(candidate({"text": "c"}), candidate({"text": "d"}, index=1)),
    "no candidate": chunk(),
    "two parts": parts({"text": "c"}, {"text": "d"}),
    "call": parts({"functionCall": {"name": "f"}}),
    "half a character": text("\ud83d"),
    "other details": counted("c", promptTokensDetails=[]),
    "an unknown count": counted("c", oddTokenCount=1),
    "a count that is no number": counted("c", candidatesTokenCount="many"),
    "a count below zero": counted("c", candidatesTokenCount=-1),
    "counts that are no object": chunk(candidate({"text": "c"}), usageMetadata=7),
    "an unknown field": chunk(candidate({"text": "c"}), turnToken="v1"),
    "a new creation time": chunk(candidate({"text": "c"}), createTime="2026-01-01"),
    "error": chunk(candidate({"text": "c"}), error={"code": 500}),
    "block reason": chunk(candidate({"text": "c"}), promptFeedback={"blockReason": "OTHER"}),
    "named": b"event: x\n" + text("c"),
    "named as an error": b"event: error\n" + text("c"),
    "an id": b"id: 7\n" + text("c"),
    "two data lines": text("c").replace(b', "index"', b',\r\ndata: "index"'),
    "a line of its own": text("c").replace(b"\r\n\r\n", b"\r\nodd\r\n\r\n"),
    "a CR before the text": text("c").replace(b': "c"', b':\r"c"'),
    "a LF before the text": text("c").replace(b': "c"', b':\n"c"'),
    "a CR in the text": text("c").replace(b'"c"', b'"c\r"'),
    "a text that is not UTF-8": text("c").replace(b'"c"', b'"\xff"'),
    "junk behind the payload": text("c").replace(b"\r\n\r\n", b"}\r\n\r\n"),
    "comment": b": c\n\n",
    "no JSON": b"data: {\r\n\r\n",
}


@pytest.mark.parametrize("name", REFUSED)
def test_chunk_with_other_fields_is_read_in_full(name: str) -> None:
    """And the chunks around it are read as they would be without the run."""
    chunks = [*BEGUN, text("c"), text("c"), REFUSED[name], text("c"), text("c"), counted("c")]
    reading = read_chunks("gemini", *chunks)
    assert reading.on_run[3:6] == [1, 1, 0]
    if reading.decoder.outcome is None:
        read_each_way("gemini", *chunks)


@pytest.mark.parametrize("name", REFUSED)
def test_refused_chunk_leaves_the_run_unchanged(name: str) -> None:
    reader = begin()
    offered = [raw for raw in reader.split(REFUSED[name]) if isinstance(raw, bytes)]
    run = reader.run
    assert run is not None
    if offered:
        assert run.text_of(offered[0]) is None
    assert run.pending_usage() is None
    assert run.text_of(text("c")[:-4]) == "c"


@pytest.mark.parametrize(
    "data",
    [
        parts({"functionCall": {"name": "f"}}),
        text("c", thoughtSignature="c2ln"),
        text("c \ud83d"),
        text("c", "MALFORMED_FUNCTION_CALL"),
    ],
    ids=["call", "signature", "half a character", "failure"],
)
def test_run_ends_with_a_block_that_cannot_be_extended(data: bytes) -> None:
    reading = read_chunks("gemini", *BEGUN, data, text("c"), text("d"))
    assert reading.on_run[3:5] == [0, 0]


def test_first_text_of_a_stream_is_read_in_full() -> None:
    reading = read_chunks("gemini", text("a"), text("b"))
    assert isinstance(reading.events[0][0], MessageStart)
    assert reading.on_run == [0, 1]


def test_another_candidate_is_read_in_full_and_leaves_the_text_open() -> None:
    other = parts({"text": "c"}, index=1)
    reading = read_chunks("gemini", *BEGUN, other, text("d"), other, text("e"))
    assert reading.on_run[3:] == [0, 1, 0, 1]
    assert reading.events[4] == [TextDelta(0, "d")]


def test_high_surrogate_waits_for_its_pair() -> None:
    reading = read_chunks("gemini", *BEGUN, text("c \ud83d"), text("\ude00 d"), text("e"))
    assert reading.events[3:] == [[TextDelta(0, "c ")], [TextDelta(0, "😀 d")], [TextDelta(0, "e")]]
    reading = read_chunks("gemini", *BEGUN, text("c \ud83d"), text("d"))
    assert reading.events[4] == [TextDelta(0, "\ufffdd")]


def test_creation_time_that_is_repeated_stays_on_the_run() -> None:
    def timed(words: str, time: str) -> bytes:
        return chunk(candidate({"text": words}), createTime=time)

    chunks = [timed("a", "1"), timed("b", "1"), timed("c", "1"), timed("d", "2"), timed("e", "2")]
    reading = read_chunks("gemini", *chunks)
    assert reading.on_run == [0, 1, 1, 0, 1]
    last = reading.decoder.feed(text("", "STOP")) + reading.decoder.close()
    assert getattr(last[-1], "extra", None) == {"createTime": "2"}


# Tokens


def test_tokens_are_pending_until_they_are_asked_for() -> None:
    reader = begin()
    run = reader.run
    assert run is not None
    assert run.reports_usage
    chunks = [counted("c", candidatesTokenCount=number) for number in (3, 4)]
    assert offer_each(reader, *chunks) == ["c", "c"]
    assert run.pending_usage() == UsageUpdate(Usage(9, 4, extra=DETAILS))
    assert run.pending_usage() is None
    assert reader.feed(counted("c", candidatesTokenCount=4)) == [TextDelta(0, "c")]


def test_tokens_are_reported_with_the_chunk_that_changes_them() -> None:
    numbers = [3, 3, 4, 12, 345, 4, 0]
    chunks = [counted("c", candidatesTokenCount=number) for number in numbers]
    reading = read_chunks("gemini", *BEGUN, *chunks)
    delta = TextDelta(0, "c")
    expected: list[list[Event]] = [
        [delta, UsageUpdate(Usage(9, number, extra=DETAILS))] if number != before else [delta]
        for before, number in zip([2, *numbers[:-1]], numbers, strict=True)
    ]
    assert reading.events[3:] == expected
    assert reading.on_run[3:] == [1] * len(numbers)


def test_missing_count_is_none_of_an_earlier_chunk() -> None:
    more = {"thoughtsTokenCount": 5, "totalTokenCount": 16}
    partial = chunk(candidate({"text": "c"}), usageMetadata={"totalTokenCount": 20})
    chunks = [counted("c", **more), counted("c", **more), partial, partial, counted("c")]
    reading = read_chunks("gemini", *BEGUN, *chunks)
    usage = [events[-1].usage for events in reading.events if isinstance(events[-1], UsageUpdate)]
    assert usage[-3:] == [
        Usage(9, 6, reasoning_tokens=5, extra={**DETAILS, "totalTokenCount": 16}),
        Usage(extra={"totalTokenCount": 20}),
        Usage(9, 1, extra=DETAILS),
    ]


@pytest.mark.parametrize(
    "odd",
    [
        chunk(candidate({"text": "c"}), usageMetadata={**COUNTS, "serviceTier": "x"}),
        counted("c", promptTokensDetails=[{"modality": "TEXT", "tokenCount": 8}]),
        counted("c", candidatesTokenCount=None),
        counted("c", candidatesTokenCount=1.5),
        counted("c", candidatesTokenCount=10**30),
        counted("c").replace(
            b'"promptTokenCount": 9', b'"promptTokenCount": 9, "promptTokenCount": 8'
        ),
        counted("c").replace(b'"promptTokenCount"', b'"candidatesTokenCount"'),
        counted("c").replace(b'"candidatesTokenCount": 1', b'"candidatesTokenCount": 01'),
        counted("c").replace(b'"candidatesTokenCount": 1', b'"candidatesTokenCount": '),
        chunk(candidate({"text": "c"}), usageMetadata=None),
        chunk(candidate({"text": "c"}), usageMetadata={}),
    ],
)
def test_invalid_counts_read_as_without_the_run(odd: bytes) -> None:
    plain = [counted("c", candidatesTokenCount=number) for number in (3, 4, 5)]
    reading = read_chunks("gemini", *BEGUN, *plain, odd, *plain, odd, *plain)
    if reading.decoder.outcome is None:
        assert reading.on_run[-1] == 1


@pytest.mark.parametrize("target", ["anthropic", "gemini", "gemini_interactions"])
@pytest.mark.parametrize("source", ["gemini", None])
def test_transcoder_knows_the_tokens_at_any_time(source: str | None, target: str) -> None:
    transcoder = Transcoder(source, target)
    for number in range(1, 9):
        transcoder.feed(counted("a", candidatesTokenCount=number))
        assert transcoder.usage.output_tokens == transcoder.message.usage.output_tokens == number
    transcoder.feed(counted("a", candidatesTokenCount=10))
    out = b"".join(transcoder.feed(text("", "STOP")) + transcoder.close())
    assert transcoder.usage.output_tokens == 10
    if target == "anthropic":
        assert b'"output_tokens":10' in out


def test_tokens_of_the_last_chunk_count_where_the_stream_breaks_off() -> None:
    transcoder = Transcoder("gemini", "anthropic")
    for number in range(1, 5):
        transcoder.feed(counted("a", candidatesTokenCount=number))
    transcoder.abort(ConnectionError())
    assert transcoder.usage.output_tokens == 4


# Any chunks


def test_error_is_an_error_whatever_its_payload() -> None:
    (error,) = begin().feed(b"event: error\n" + text("c"))
    assert isinstance(error, StreamError)


CHUNKS = [
    *(text("c"), thought("c"), text("")),
    *(data for data, _ in ON_RUN.values()),
    *REFUSED.values(),
    *(text("c") + text("d"), text("c")[:-2], counted("c") + counted("d", candidatesTokenCount=7)),
]


@given(st.lists(st.sampled_from(CHUNKS), max_size=12))
def test_any_chunks_read_the_same_without_the_run(chunks: list[bytes]) -> None:
    read_chunks("gemini", *BEGUN, *chunks)


def test_body_that_is_an_array_has_a_run_too() -> None:
    elements = [data.split(b"data: ")[1].rstrip() for data in (*BEGUN, counted("c"), text("d"))]
    chunks = [b"[" + elements[0], *(b",\r\n" + element for element in elements[1:]), b"]"]
    reader = GeminiDecoder()
    offers = [offer(reader, data) for data in chunks]
    # The first counts have been merged when they are expected for the first time.
    assert [count for _, count in offers] == [0, 0, 1, 1, 1, 0]
    assert [event.text for events, _ in offers for event in events if isinstance(event, TextDelta)]
    assert offers[-2].events == [TextDelta(0, "d")]
