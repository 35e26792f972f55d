"""Chunks that only continue a block: read the short way, or with care, and to the same end."""

from __future__ import annotations

from typing import Any

import pytest
from gemini_frames import candidate, chunk, parts, text, thought
from hypothesis import given
from hypothesis import strategies as st

from streamnorm import (
    Event,
    ReasoningDelta,
    StreamError,
    TextDelta,
    Transcoder,
    Usage,
    UsageUpdate,
    accumulate,
    decoder,
)
from streamnorm.codec import Decoder

DETAILS = {"promptTokensDetails": [{"modality": "TEXT", "tokenCount": 9}]}
TOLD = {"promptTokenCount": 9, "candidatesTokenCount": 1, **DETAILS}


def counted(words: str, **counts: Any) -> bytes:
    """Return a chunk of text that tells tokens."""
    return chunk(candidate({"text": words}), usageMetadata={**TOLD, **counts})


# The first of a stream, and the first that tells such counts, are read with care.
BEGUN = [counted("a"), counted("b"), counted("b", candidatesTokenCount=2)]


def opened(*chunks: bytes) -> Decoder:
    """Return a reader in the middle of a text, or of what the chunks make of it."""
    reader = decoder("gemini")
    for data in (*BEGUN, *chunks):
        reader.feed(data)
    return reader


SHORT = {
    "text": (text("c"), "c"),
    "empty": (text(""), ""),
    "escaped": (text('\n"é😀\\\u2028'), '\n"é😀\\\u2028'),
    "LF": (text("c").replace(b"\r\n", b"\n"), "c"),
    "counts": (counted("c", candidatesTokenCount=3), "c"),
    "same counts": (counted("c", candidatesTokenCount=2), "c"),
    "fields nobody knows": (chunk(candidate({"text": "c"}), turnToken="v1"), "c"),
}


@pytest.mark.parametrize("name", SHORT)
def test_more_text_is_read_the_short_way(name: str) -> None:
    data, words = SHORT[name]
    reader = opened()
    assert isinstance(reader.continued, TextDelta)
    assert reader.continued.index == 0
    assert reader.more(data) == words
    assert reader.frames == 4


def test_more_of_a_thought_is_read_the_short_way() -> None:
    reader = opened(thought("c"))
    assert isinstance(reader.continued, ReasoningDelta)
    assert reader.continued.index == 1
    assert reader.more(thought("d")) == "d"


LONG = {
    "thought": thought("c"),
    "signature": text("c", thoughtSignature="c2ln"),
    "finish": text("c", "STOP"),
    "other answer": parts({"text": "c"}, index=1),
    "two parts": parts({"text": "c"}, {"text": "d"}),
    "call": parts({"functionCall": {"name": "f"}}),
    "half a character": text("\ud83d"),
    "other details": counted("c", promptTokensDetails=[]),
    "a count that nobody knows": counted("c", oddTokenCount=1),
    "a count that is none": counted("c", candidatesTokenCount="many"),
    "error": chunk(candidate({"text": "c"}), error={"code": 500}),
    "named": b"event: x\n" + text("c"),
    "named as an error": b"event: error\n" + text("c"),
    "two events": text("c") + text("d"),
    "half an event": text("c")[:-2],
    "comment": b": c\n\n",
    "no JSON": b"data: {\r\n\r\n",
}


@pytest.mark.parametrize("name", LONG)
def test_whatever_else_there_may_be_is_left_to_the_long_way(name: str) -> None:
    reader = opened()
    assert reader.more(LONG[name]) is None
    assert reader.frames == 3
    assert reader.counted() is None


@pytest.mark.parametrize(
    "data",
    [
        parts({"functionCall": {"name": "f"}}),
        text("c", thoughtSignature="c2ln"),
        text("c \ud83d"),
        text("c", "MALFORMED_FUNCTION_CALL"),
    ],
)
def test_nothing_is_short_behind_what_is_no_open_text(data: bytes) -> None:
    reader = opened(data)
    assert reader.continued is None
    assert reader.more(text("c")) is None


def test_other_answer_is_read_with_care_and_leaves_the_text_open() -> None:
    other = parts({"text": "c"}, index=1)
    reader = opened()
    assert reader.more(other) is None
    reader.feed(other)
    assert reader.more(text("d")) == "d"


def test_half_a_character_waits_for_the_other_half() -> None:
    reader = opened(text("c \ud83d"))
    assert reader.more(text("d")) is None
    assert reader.feed(text("\ude00 d")) == [TextDelta(0, "😀 d")]


def test_tokens_are_told_once_they_are_asked_for() -> None:
    reader = opened()
    for number in (3, 4):
        assert reader.more(counted("c", candidatesTokenCount=number)) == "c"
    assert reader.counted() == UsageUpdate(Usage(9, 4, extra=DETAILS))
    assert reader.counted() is None
    assert reader.feed(counted("c", candidatesTokenCount=4)) == [TextDelta(0, "c")]


@pytest.mark.parametrize("target", ["anthropic", "gemini"])
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


PIECES = [text("c"), thought("c"), text(""), *(data for data, _ in SHORT.values()), *LONG.values()]


def test_error_is_one_whatever_it_holds() -> None:
    (error,) = opened().feed(b"event: error\n" + text("c"))
    assert isinstance(error, StreamError)


@given(st.lists(st.sampled_from(PIECES), max_size=12))
def test_short_way_and_long_way_give_the_same_message(chunks: list[bytes]) -> None:
    short, long = decoder("gemini"), decoder("gemini")
    events: list[Event] = []
    for data in (*BEGUN, *chunks):
        last = short.continued
        words = short.more(data) if last is not None else None
        if words is None or last is None:
            told = short.counted()
            events += [told] if told is not None else []
            events += short.feed(data)
        elif words:
            events.append(type(last)(last.index, words))
    told = short.counted()
    events += [told] if told is not None else []
    expected = [event for data in (*BEGUN, *chunks) for event in long.feed(data)]
    for choice in (0, 1):
        assert accumulate(events, choice=choice) == accumulate(expected, choice=choice)
    assert (short.outcome, short.notes, short.frames) == (long.outcome, long.notes, long.frames)
    assert short.close()[-1:] == long.close()[-1:]
