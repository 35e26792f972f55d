"""A JSON array of chunks is a stream: it is found out, decoded and transcoded as one."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.gemini.arrays import CHUNKS, TOLD, array, events_of
from support.streams.content import decode, transcode
from support.streams.mutations import chunked

from streamnorm import (
    Completed,
    Failed,
    MessageStart,
    StreamError,
    TextDelta,
    Transcoder,
    Truncated,
    accumulate,
)
from streamnorm.codec import decoder
from streamnorm.sse import Frame

WHOLE = array(*CHUNKS)
NAMES = ["gemini", None]
TARGETS = ["anthropic", "openai_chat", "openai_responses", "gemini", "gemini_interactions"]
each_name = pytest.mark.parametrize("source", NAMES)
each_size = pytest.mark.parametrize("size", [1, 7, 1 << 20])


def payloads(out: bytes) -> list[Any]:
    """Return what an event stream says of which each event has one line, as clients need it.

    Behind an error that we wrote, and only there, is an event that does not end.
    """
    *events, rest = out.replace(b"\r\n", b"\n").split(b"\n\n")
    assert rest == b"" or (rest == b":" and events[-1].startswith(b'data: {"error"'))
    assert all(event.startswith(b"data: ") and b"\n" not in event for event in events if event)
    return [json.loads(event[6:]) for event in events if event]


def run(body: bytes, source: str | None, size: int, **options: Any) -> tuple[bytes, Transcoder]:
    return transcode(chunked(body, size), source, "gemini", **{"verbatim": True, **options})


@each_name
@each_size
def test_array_gives_the_events_of_its_event_stream(source: str | None, size: int) -> None:
    expected = decode([events_of(*CHUNKS)], "gemini")
    assert decode(chunked(WHOLE, size), source) == expected
    assert isinstance(expected.outcome, Completed)


@each_name
def test_events_of_an_element_are_returned_at_its_last_byte(source: str | None) -> None:
    reader = decoder(source)
    at = 0
    seen: list[bool] = []
    for number in range(len(CHUNKS)):
        end = len(array(*CHUNKS[: number + 1], end=""))
        assert reader.feed(WHOLE[at : end - 1]) == []
        seen.append(bool(reader.feed(WHOLE[end - 1 : end])))
        at = end
    assert seen == [True] * 4


def test_array_is_detected_by_its_first_element() -> None:
    reader, first = decoder(), array(CHUNKS[0], end="")
    assert reader.feed(b" \n" + first[:-1]) == []
    assert (reader.dialect, reader.is_body) == ("", True)
    assert reader.feed(first[-1:])[0] == MessageStart("r1", "gemini-1")
    assert (reader.dialect, reader.is_body) == ("gemini", False)
    (delta,) = reader.feed(array(CHUNKS[1], end="").replace(b"[", b",", 1))
    assert delta == TextDelta(0, "twö.")


@each_name
@each_size
@pytest.mark.parametrize("target", TARGETS[:3])
def test_array_transcodes_like_its_event_stream(source: str | None, size: int, target: str) -> None:
    expected, _ = transcode([events_of(*CHUNKS)], "gemini", target)
    out, done = transcode(chunked(WHOLE, size), source, target)
    assert out == expected
    assert isinstance(done.outcome, Completed)
    assert done.dialect == "gemini"


@each_name
@each_size
@pytest.mark.parametrize("before", [b"", b" ", b"\r\n\t", b"\xef\xbb\xbf"])
def test_elements_pass_unchanged_as_events_to_the_same_dialect(
    source: str | None, size: int, before: bytes
) -> None:
    """The output is an event stream: an array could carry neither an error nor a ping."""
    out, done = run(before + WHOLE + b"more", source, size)
    assert payloads(out.lstrip(b" \r\n\t\xef\xbb\xbf")) == CHUNKS
    assert decode([out], "gemini").events == decode([WHOLE], "gemini").events
    assert isinstance(done.outcome, Completed)
    assert done.message == accumulate(decode([WHOLE], "gemini").events)


@each_name
def test_each_element_is_passed_at_once_to_the_same_dialect(source: str | None) -> None:
    transcoder = Transcoder(source, "gemini")
    first = array(CHUNKS[0], end="")
    assert transcoder.feed(first[:-1]) == []
    assert transcoder.ping() == b"\r\n"
    (out,) = transcoder.feed(first[-1:])
    assert payloads(out) == CHUNKS[:1]
    assert transcoder.ping() == b"\r\n"
    assert transcoder.feed(b',{"candidates":') == []
    assert transcoder.ping() == b"\r\n"
    (out,) = transcoder.feed(array(CHUNKS[1], end="").removeprefix(b'[{\n  "candidates":'))
    assert payloads(out) == CHUNKS[1:2]


@each_name
@each_size
def test_elements_behind_an_error_pass_to_the_same_dialect_however_they_are_cut(
    source: str | None, size: int
) -> None:
    told = [CHUNKS[0], TOLD, *CHUNKS[1:]]
    out, done = run(array(*told), source, size)
    assert payloads(out) == told
    assert isinstance(done.outcome, Failed)


@each_name
@each_size
@pytest.mark.parametrize("target", TARGETS)
def test_cut_array_is_truncated(source: str | None, size: int, target: str) -> None:
    for body in (array(*CHUNKS, end=""), WHOLE[: WHOLE.index(b"tw")], WHOLE[:20], b"["):
        out, done = transcode(chunked(body, size), source, target, verbatim=True)
        assert isinstance(done.outcome, Truncated)
        assert b"connection lost: the stream ended before" in out
        assert isinstance(decode([out], target).events[-1], StreamError)


@each_name
@each_size
def test_error_of_a_cut_array_follows_its_last_complete_element(
    source: str | None, size: int
) -> None:
    out, _ = run(array(*CHUNKS[:2], end=',\n{"candidates":'), source, size)
    *whole, told = payloads(out)
    assert whole == CHUNKS[:2]
    assert told["error"]["status"] == "INTERNAL"


@each_name
@each_size
@pytest.mark.parametrize("target", TARGETS)
def test_error_within_an_array_is_the_providers(source: str | None, size: int, target: str) -> None:
    for before in ([], CHUNKS[:2]):
        out, done = transcode(chunked(array(*before, TOLD), size), source, target, verbatim=True)
        assert isinstance(done.outcome, Failed)
        assert done.outcome.error == StreamError(
            "upstream", "Overloaded.", "UNAVAILABLE", 503, True
        )
        assert out.count(b"Overloaded.") >= 1
        if target == "gemini":
            assert payloads(out) == [*before, TOLD]


@each_name
def test_array_is_reencoded_without_verbatim(source: str | None) -> None:
    expected, _ = transcode([events_of(*CHUNKS)], "gemini", "gemini")
    assert transcode([WHOLE], source, "gemini")[0] == expected


@each_size
def test_other_arrays_are_no_stream(size: int) -> None:
    for body in (b"[]", b"[1]", b'[{"choices":[]}]', b'[{"a":"b"}]'):
        for source in (*NAMES, "openai_chat"):
            got = decode(chunked(body, size), source)
            (error,) = got.events
            assert isinstance(error, StreamError)
            assert error.code == "not_a_stream"


def test_frames_of_an_event_stream_are_unaffected() -> None:
    reader = decoder("gemini")
    events = reader.feed_frame(Frame("message", json.dumps(CHUNKS)))
    assert events[0] == MessageStart("r1", "gemini-1")
