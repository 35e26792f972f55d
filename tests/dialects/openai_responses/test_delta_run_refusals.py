"""Frames that resemble a delta of the run and must be read in full."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from support.draws import Draws, draws
from support.openai_responses.frames import START, added, call, completed, done, event
from support.openai_responses.item_deltas import (
    ARGUMENTS,
    OPENING,
    OTHER,
    SUMMARY,
    TEXT,
    each_delta_type,
    item_delta,
    numbered,
    read,
)
from support.streams.corpus import CorpusStream, each_recording_of, each_stream_of, recordings
from support.streams.mutations import damaged

from streamnorm import Transcoder
from streamnorm.recording import Recording


def odd_frames(delta_type: str, at: int) -> dict[str, bytes]:
    """Return events in place of delta number `at` with other content."""
    plain = item_delta(delta_type, "b", at)
    return {
        "half a character": plain.replace(b'"b"', b'"\\ud83d"'),
        "a text that is not UTF-8": plain.replace(b'"b"', b'"\xff"'),
        "null": plain.replace(b'"b"', b"null"),
        "a number": plain.replace(b'"b"', b"3"),
        "a line end in the text": plain.replace(b'"b"', b'"b\n"'),
        "a line end behind the text": plain.replace(b'"b"', b'"b"\n'),
        "a CR before the text": plain.replace(b'"b"', b'\r"b"'),
        "a CR behind the text": plain.replace(b'"b"', b'"b"\r'),
        "two data lines": plain.replace(b'"b"', b'"b"\ndata: '),
        "a name in capitals": plain.replace(b"event: r", b"event: R"),
        "no space behind the colon of the name": plain.replace(b"event: ", b"event:"),
        "an id before the payload": plain.replace(b"data: ", b"id: 7\ndata: "),
        "a comment before the name": plain.replace(b"event: ", b": hi\nevent: "),
        "no name": re.sub(rb"event: .*\n", b"", plain),
        "the name of an error": re.sub(rb"event: .*\n", b"event: error\n", plain),
        "an empty data line behind": plain[:-1] + b"data: \n\n",
        "a line of a space behind": plain[:-1] + b" \n\n",
        "junk behind the payload": plain[:-2] + b"x\n\n",
        "a brace too many": plain[:-2] + b"}\n\n",
        "nothing": b"\n\n",
        "a comment": b": hi\n\n",
        "a stray terminal": b"data: [DONE]\n\n",
        "another event": event("keepalive", sequence_number=at),
        "an unknown item": item_delta(delta_type, "b", at, item_id="other"),
        "no item": item_delta(delta_type, "b", at, item_id=None),
        "another output index": item_delta(delta_type, "b", at, output_index=1),
        "no output index": item_delta(delta_type, "b", at, output_index=None),
        "an output index that is no number": item_delta(delta_type, "b", at, output_index="0"),
        "an item id that is no string": item_delta(delta_type, "b", at, item_id=["m"]),
        "no number": item_delta(delta_type, "b"),
        "the first number": item_delta(delta_type, "b", 0),
        "the event before": item_delta(delta_type, "a", at - 1),
        "the number before": item_delta(delta_type, "b", at - 1),
        "a number too high": item_delta(delta_type, "b", at + 1),
        "a number that is text": item_delta(delta_type, "b", sequence_number=str(at)),
        "a number that is a float": item_delta(delta_type, "b", sequence_number=float(at)),
    }


def unusual_chunks(delta_type: str, at: int) -> dict[str, bytes]:
    """Return chunks in place of delta number `at` that the run may read, or in part."""
    plain = item_delta(delta_type, "b", at)
    return {
        "CRLF": plain.replace(b"\n", b"\r\n"),
        "another type in the payload": plain.replace(b'"response.', b'"response.odd_'),
        "no type in the payload": re.sub(rb'"type":"[^"]*",', b"", plain),
        "two events": plain + plain,
        "an event and a part of one": plain + plain[:40],
        "an event and a comment": plain + b": hi\n\n",
        "spaces in place of a blank line": plain[:-2] + b"  ",
        "a space in place of a line end": plain[:-1] + b" ",
        "no blank line": plain[:-1],
        "no line end": plain[:-2],
        "a part of an event": plain[:40],
        "no byte": b"",
        "other parts": item_delta(delta_type, "b", at, content_index=1, summary_index=1),
        "log probabilities": item_delta(
            delta_type, "b", at, logprobs=[{"token": "b", "logprob": -1}]
        ),
        "an error": item_delta(delta_type, "b", at, error={"message": "no"}),
        "padding": item_delta(delta_type, "b", at, obfuscation="x" * 5000),
        "padding with a text": item_delta(delta_type, "b", at, obfuscation='"delta":"c"'),
        "a long text": item_delta(delta_type, "x" * 5000, at),
        "two texts": plain.replace(b'"delta"', b'"delta":"a","delta"'),
        "two item ids": plain.replace(b'"item_id"', b'"item_id":"n","item_id"'),
    }


@each_delta_type
@pytest.mark.parametrize("name", odd_frames(TEXT, 3))
def test_frame_with_other_content_is_read_in_full(delta_type: str, name: str) -> None:
    odd = odd_frames(delta_type, 3)[name]
    start, rest = numbered(delta_type, *"aaa"), numbered(delta_type, "c", "d", first=4)
    behind = [*rest, event("keepalive"), item_delta(delta_type, "e", 6), completed()]
    reading = read(START, OPENING[delta_type], *start, odd, *behind)
    assert reading.on_run[2:6] == [0, 1, 1, 0]


@each_delta_type
@pytest.mark.parametrize("name", odd_frames(TEXT, 5))
def test_frame_with_other_content_amid_interleaved_texts_is_read_in_full(
    delta_type: str, name: str
) -> None:
    odd = odd_frames(delta_type, 5)[name]
    other = OPENING[delta_type].replace(b'"m"', b'"n"')
    other = other.replace(b'output_index": 0', b'output_index": 1').replace(b"call_1", b"call_2")
    deltas = [item_delta(delta_type, "a", at, **(OTHER if at % 2 else {})) for at in range(9)]
    behind = [*deltas[6:], event("keepalive"), item_delta(delta_type, "e", 9), completed()]
    reading = read(START, OPENING[delta_type], other, *deltas[:5], odd, *behind)
    assert reading.on_run[3:9] == [0, 0, 1, 1, 1, 0]


@each_delta_type
@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("name", unusual_chunks(TEXT, 3))
def test_unusual_chunk_reads_as_without_the_run(
    delta_type: str, name: str, *, interleaved: bool
) -> None:
    odd = unusual_chunks(delta_type, 5)[name]
    other = OPENING[delta_type].replace(b'"m"', b'"n"')
    other = other.replace(b'output_index": 0', b'output_index": 1').replace(b"call_1", b"call_2")
    part_index = [OTHER if interleaved and at % 2 else {} for at in range(9)]
    deltas = [item_delta(delta_type, "a", at, **fields) for at, fields in enumerate(part_index)]
    behind = [*deltas[6:], event("keepalive"), item_delta(delta_type, "e", 9)]
    reading = read(START, OPENING[delta_type], other, *deltas[:5], odd, *behind, completed())
    assert sum(reading.on_run[3:8]) >= 3


@each_recording_of("openai_responses")
def test_recording_reads_the_same_without_the_run(recording: Recording) -> None:
    read(*events_of(recording.body), server=recording.server)


@each_stream_of("openai_responses", one_in=5)
def test_real_stream_reads_the_same_without_the_run(stream: CorpusStream) -> None:
    read(*events_of(stream.body))


@given(draws(400))
def test_damaged_stream_reads_the_same_without_the_run(d: Draws) -> None:
    body = damaged(d, d.pick(BODIES))
    read(*events_of(body))


@given(draws(200))
def test_deltas_in_any_order_read_the_same_without_the_run(d: Draws) -> None:
    """Each delta is plain, but texts interleave, and deltas are repeated or missing."""
    opening = [added(n, "function_call", **call(id=f"fc_{n}", call_id=f"c{n}")) for n in range(3)]
    chunks: list[bytes] = []
    number = 0
    for _ in range(40):
        number += d.pick((1, 1, 1, 1, 1, 1, 0, 2))
        which = d.pick((0, 0, 0, 1, 2))
        fields = {"item_id": f"fc_{which}", "output_index": d.pick((which, which, which, 1))}
        kind = d.pick((ARGUMENTS, ARGUMENTS, ARGUMENTS, ARGUMENTS, SUMMARY, TEXT))
        chunks.append(item_delta(kind, d.pick(("", "1", "x")), number, **fields))
        if d.flag(16):
            chunks.append(done(which, "function_call", **call("1", id=f"fc_{which}")))
    read(START, *opening, *chunks, completed())


def test_transcoded_bytes_are_the_same_in_chunks_and_in_single_bytes() -> None:
    for body in BODIES:
        written: list[list[list[bytes]]] = []
        for chunks in (events_of(body), [body[i : i + 1] for i in range(len(body))]):
            transcoder = Transcoder("openai_responses", "anthropic")
            written.append([*map(transcoder.feed, chunks), transcoder.close()])
        one, other = (b"".join(piece for part in parts for piece in part) for parts in written)
        assert one == other


def events_of(body: bytes) -> list[bytes]:
    """Return bytes cut behind each blank line."""
    return [chunk for chunk in re.findall(rb".*?(?:\n\n|\Z)", body, re.DOTALL) if chunk]


BODIES = [recording.body for recording in recordings("openai_responses")]
