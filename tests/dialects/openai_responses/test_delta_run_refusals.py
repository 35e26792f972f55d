"""Chunks that look like one more piece of a known text, and may be anything."""

from __future__ import annotations

import re

import pytest
from corpus import CorpusStream, each_recording_of, each_stream_of, recordings
from dice import Dice, dice
from hypothesis import given
from mutations import damaged
from responses_frames import START, added, call, completed, done, event
from responses_pieces import (
    ARGUMENTS,
    OPENING,
    OTHER,
    SUMMARY,
    TEXT,
    each_kind,
    fed,
    numbered,
    piece,
)

from streamnorm import Recording, Transcoder


def odd(kind: str, at: int) -> list[bytes]:
    """Return chunks with number `at` that are no plain piece of the item `m`."""
    plain = piece(kind, "b", at)
    return [
        plain.replace(b'"b"', b'"\\ud83d"'),
        plain.replace(b'"b"', b'"\xff"'),
        plain.replace(b'"b"', b"null"),
        plain.replace(b'"b"', b"3"),
        plain.replace(b'"b"', b'"b\n"'),
        plain.replace(b'"b"', b'"b"\n'),
        plain.replace(b'"b"', b'"b"\r'),
        plain.replace(b'"b"', b'"b"\ndata: '),
        plain.replace(b"\n", b"\r\n"),
        plain.replace(b"event: r", b"event: R"),
        plain.replace(b"event: ", b"event:"),
        plain.replace(b"data: ", b"id: 7\ndata: "),
        plain.replace(b"event: ", b": hi\nevent: "),
        plain.replace(b'"type":"response.', b'"type":"response.odd_'),
        re.sub(rb"event: .*\n", b"", plain),
        re.sub(rb"event: .*\n", b"event: error\n", plain),
        re.sub(rb'"type":"[^"]*",', b"", plain),
        plain + plain,
        plain + plain[:40],
        plain + b": hi\n\n",
        plain[:-1] + b"data: \n\n",
        plain[:-2] + b"  ",
        plain[:-1] + b" ",
        plain[:-1],
        plain[:-2],
        plain[:40],
        b"",
        b": hi\n\n",
        b"data: [DONE]\n\n",
        event("keepalive", sequence_number=at),
        piece(kind, "b", at, item_id="other"),
        piece(kind, "b", at, item_id=None),
        piece(kind, "b", at, output_index=1),
        piece(kind, "b", at, output_index=None),
        piece(kind, "b", at, output_index="0"),
        piece(kind, "b", at, item_id=["m"]),
        piece(kind, "b", at, content_index=1, summary_index=1),
        piece(kind, "b", at, logprobs=[{"token": "b", "logprob": -0.5}]),
        piece(kind, "b", at, error={"message": "no"}),
        piece(kind, "b", at, obfuscation="x" * 5000),
        piece(kind, "x" * 5000, at),
        piece(kind, "b"),
        piece(kind, "b", 0),
        piece(kind, "a", at - 1),
        piece(kind, "b", at - 1),
        piece(kind, "b", at + 1),
        piece(kind, "b", at, sequence_number=str(at)),
        piece(kind, "b", at, sequence_number=float(at)),
    ]


@each_kind
@pytest.mark.parametrize("number", range(len(odd(TEXT, 0))))
def test_whatever_is_no_plain_piece_is_read_with_care(kind: str, number: int) -> None:
    start, strange = numbered(kind, "a", "a"), odd(kind, 2)[number]
    rest = [*numbered(kind, "c", "d", first=3), event("keepalive"), piece(kind, "e", 5)]
    _, reader = fed(START, OPENING[kind], *start, strange, *rest, completed())
    assert reader.short >= 1


@each_kind
@pytest.mark.parametrize("number", range(len(odd(TEXT, 0))))
def test_it_is_between_texts_in_turn_too(kind: str, number: int) -> None:
    other = OPENING[kind].replace(b'"m"', b'"n"').replace(b'output_index": 0', b'output_index": 1')
    turns = [piece(kind, "a", at, **(OTHER if at % 2 else {})) for at in range(9)]
    strange = odd(kind, 5)[number]
    chunks = [*turns[:5], strange, *turns[6:], event("keepalive"), piece(kind, "e", 9)]
    _, reader = fed(START, OPENING[kind], other, *chunks, completed())
    assert reader.short >= 3


@each_recording_of("openai_responses")
def test_recording_is_read_as_its_frames_are(recording: Recording) -> None:
    fed(*events_of(recording.body), server=recording.server)


@each_stream_of("openai_responses", one_in=5)
def test_stream_is_read_as_its_frames_are(stream: CorpusStream) -> None:
    fed(*events_of(stream.body))


@given(dice(400))
def test_damaged_stream_is_read_as_its_frames_are(d: Dice) -> None:
    body = damaged(d, d.pick(BODIES))
    fed(*events_of(body))


@given(dice(200))
def test_pieces_in_any_order_are_read_as_their_frames_are(d: Dice) -> None:
    """Chunks that are each plain, but come from texts in turn, twice, or not at all."""
    opening = [added(n, "function_call", **call(id=f"fc_{n}", call_id=f"c{n}")) for n in range(3)]
    chunks: list[bytes] = []
    number = 0
    for _ in range(40):
        number += d.pick((1, 1, 1, 1, 1, 1, 0, 2))
        which = d.pick((0, 0, 0, 1, 2))
        fields = {"item_id": f"fc_{which}", "output_index": d.pick((which, which, which, 1))}
        kind = d.pick((ARGUMENTS, ARGUMENTS, ARGUMENTS, ARGUMENTS, SUMMARY, TEXT))
        chunks.append(piece(kind, d.pick(("", "1", "x")), number, **fields))
        if d.flag(16):
            chunks.append(done(which, "function_call", **call("1", id=f"fc_{which}")))
    fed(START, *opening, *chunks, completed())


def test_what_goes_out_is_the_same_in_chunks_and_in_bytes() -> None:
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
