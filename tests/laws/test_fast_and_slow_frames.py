"""The delta run does not accept frames that are nearly deltas.

One delta amid others is spelt in another route or damaged.  What then must come by the
protocol is written down by hand where servers or networks do it; for all else the frames,
each read in full, are the judge.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest
from support.anthropic.frames import STOP, block, end, start, stop
from support.recording.comparison import comparable
from support.streams.chunkings import CHUNKINGS
from support.streams.delta_mutations import damaged_bytes, other_payloads, other_spellings
from support.streams.delta_streams import DELTA_STREAMS, DeltaStream, delta_stream
from support.streams.mutations import chunked
from support.streams.run_comparison import (
    Route,
    assert_same_without_run,
    seeded_choice,
    seeded_sample,
    stream_routes,
)

from streamnorm import (
    BlockStart,
    Completed,
    Event,
    Failed,
    MessageStart,
    Note,
    Outcome,
    StreamError,
    Text,
    TextDelta,
    Truncated,
)
from streamnorm.codec import decoder

SMALL_BYTES = 1_000  # of an event that is read byte by byte

each_delta_stream = pytest.mark.parametrize("name", DELTA_STREAMS)
Mutations = Callable[[bytes], Iterator[tuple[str, list[bytes]]]]


def with_chunks(stream: DeltaStream, at: int, chunks: list[bytes]) -> list[bytes]:
    """Return a stream, an event a chunk, with other chunks for one delta."""
    before, behind = stream.opening + stream.deltas[:at], stream.deltas[at + 1 :] + stream.closing
    return [*before, *chunks, *behind]


def cut_differently(stream: DeltaStream, at: int, chunks: list[bytes], seed: str) -> list[bytes]:
    """Return the same bytes in other chunks: the changed event in single bytes, or all cut anew."""
    step = max(1, sum(map(len, chunks)) // SMALL_BYTES)
    small = [piece for chunk in chunks for piece in chunked(chunk, step)]
    events = with_chunks(stream, at, chunks)
    cuts = [cut(events) for name, cut in CHUNKINGS.items() if name not in ("one event", "bytes")]
    return seeded_choice([with_chunks(stream, at, small), *cuts], seed)


def assert_mutation_reads_the_same(
    stream: DeltaStream, at: int, chunks: list[bytes], seed: str, routes: list[Route]
) -> None:
    """Check that with other chunks for one delta the stream is the same, however it is cut."""
    for route in routes:
        whole = assert_same_without_run(with_chunks(stream, at, chunks), route).whole
        other = cut_differently(stream, at, chunks, f"{seed} {route}")
        assert assert_same_without_run(other, route).whole == whole, (seed, str(route))


@pytest.mark.parametrize(
    ("mutations", "count"),
    [(other_spellings, 11), (other_payloads, 8), (damaged_bytes, 6)],
    ids=["spelling", "payload", "byte"],
)
@each_delta_stream
def test_mutated_delta_reads_the_same_without_the_run(
    name: str, mutations: Mutations, count: int
) -> None:
    stream = delta_stream(name, 5)
    at = stream.middle
    for what, chunks in seeded_sample(list(mutations(stream.deltas[at])), name, count):
        seed = f"{name}, {what}"
        route = seeded_choice(stream_routes(stream), seed)
        assert_mutation_reads_the_same(stream, at, chunks, seed, [route])


@each_delta_stream
def test_first_and_last_delta_read_the_same_without_the_run(name: str) -> None:
    """Where the delta run begins and ends."""
    stream = delta_stream(name, 5)
    for at in (0, 1, len(stream.deltas) - 1):
        mutations = [*other_spellings(stream.deltas[at]), *other_payloads(stream.deltas[at])]
        for what, chunks in seeded_sample(mutations, f"{name}, {at}", 3):
            seed = f"{name}, {at}, {what}"
            route = seeded_choice(stream_routes(stream), seed)
            assert_mutation_reads_the_same(stream, at, chunks, seed, [route])


BESIDE_A_DELTA = [
    ("chat text", b'"model":"gpt"', b'"model":5'),
    ("chat text", b'"model":"gpt"', b'"model":[]'),
    ("chat text", b'"id":"chatcmpl-1"', b'"id":1.5'),
    ("chat call", b'"id":"chatcmpl-1"', b'"id":["x"]'),
    ("chat calls, interleaved", b'"created":1', b'"created":"x"'),
    ("gemini text", b'"modelVersion"', b'"turnToken":"v1","modelVersion"'),
    ("gemini thought", b'"modelVersion"', b'"odd"'),
    ("gemini text", b'"responseId":"resp-1"', b'"responseId":5'),
    ("responses text", b'"delta":', b'"odd":[1],"delta":'),
    ("anthropic text", b'"index":0,', b'"index":0,"odd":{},'),
]


@pytest.mark.parametrize(("name", "old", "new"), BESIDE_A_DELTA)
def test_unusual_field_beside_a_delta_reads_the_same_without_the_run(
    name: str, old: bytes, new: bytes
) -> None:
    stream = delta_stream(name)
    at = stream.middle
    odd = stream.deltas[at].replace(old, new)
    assert odd != stream.deltas[at]
    assert_mutation_reads_the_same(stream, at, [odd], name, stream_routes(stream))


# By hand

OPENING = [start(), block(0, "text", text="")]
OPENED = [MessageStart("msg_1", "claude-1"), BlockStart(0, Text())]
CLOSING = [stop(0), end(), STOP]


def delta(text: str, behind: bytes = b"") -> bytes:
    """Return a text delta as the API writes it, with something behind its JSON."""
    data = json.dumps({"type": "text_delta", "text": text}, separators=(",", ":")).encode()
    head = b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":'
    return head + data + b"}" + behind + b"\n\n"


def deltas(*texts: str) -> list[Event]:
    return [TextDelta(0, text) for text in texts]


def assert_gives(events: list[bytes], expected: list[Event], outcome: type[Outcome]) -> None:
    """Check what comes of a stream of Anthropic, whatever the chunking."""
    for name, cut in CHUNKINGS.items():
        reader = decoder("anthropic")
        given = [event for chunk in cut(events) for event in reader.feed(chunk)]
        assert comparable(given + reader.close()) == comparable(expected), name
        assert isinstance(reader.outcome, outcome)


@pytest.mark.parametrize("line_end", [b"\r", b"\n", b"\r\n"])
def test_line_end_before_the_text_ends_the_data_line(line_end: bytes) -> None:
    """JSON allows it there as white space; the data that it cuts off is no JSON."""
    broken = delta("b").replace(b'"b"', line_end + b'"b"')
    expected = [*OPENED, *deltas("a", "a"), StreamError("malformed", "no JSON")]
    assert_gives([*OPENING, delta("a"), delta("a"), broken, delta("c")], expected, Failed)


@pytest.mark.parametrize("junk", [b"}", b"}}", b"x", b",", b'"c"', b"{}", b"\0", b"\xff", b"\x0c"])
def test_bytes_after_the_payload_make_it_invalid_json(junk: bytes) -> None:
    broken = delta("b", junk)
    expected = [*OPENED, *deltas("a", "a"), StreamError("malformed", "no JSON")]
    assert_gives([*OPENING, delta("a"), delta("a"), broken, delta("c")], expected, Failed)


@pytest.mark.parametrize("line", [b" ", b"\t", b"  ", b"\0", b"x"])
def test_line_of_spaces_ends_no_event(line: bytes) -> None:
    unended = delta("b")[:-1] + line + b"\n"
    cut = [*OPENED, *deltas("a", "a"), StreamError("truncated", "no end")]
    assert_gives([*OPENING, delta("a"), delta("a"), unended], cut, Truncated)
    reader = decoder("anthropic")
    given = [
        reader.feed(chunk) for chunk in (*OPENING, delta("a"), delta("a"), unended, delta("c"))
    ]
    assert given[-2:] == [[], deltas("b", "c")]
    assert Note("joined_frames", "frame", 1) in reader.notes


def test_space_after_an_event_belongs_to_the_next_event() -> None:
    """Its first line is then no `event` field, but a stray line."""
    for name, cut in CHUNKINGS.items():
        reader = decoder("anthropic")
        events = [*OPENING, delta("a"), delta("a"), delta("b") + b" ", delta("c"), *CLOSING]
        given = [event for chunk in cut(events) for event in reader.feed(chunk)]
        assert given[2:6] == deltas("a", "a", "b", "c"), name
        assert reader.notes == (Note("stray_line", "frame"), Note("no_event_line", "frame"))
        assert isinstance(reader.outcome, Completed)


def test_surrogate_halves_of_two_deltas_are_joined() -> None:
    halves = [delta("?").replace(b"?", half) for half in (b"\\ud83d", b"\\ude00")]
    expected = [*OPENED, *deltas("a", "a", "😀", "b"), StreamError("truncated", "no end")]
    assert_gives([*OPENING, delta("a"), delta("a"), *halves, delta("b")], expected, Truncated)


def test_invalid_bytes_within_a_text_become_replacement_characters() -> None:
    """As UTF-8 decoding of event streams demands."""
    broken = delta("?").replace(b"?", b"x\xff\xc3y")
    expected = [
        *OPENED,
        *deltas("a", "a", "x\ufffd\ufffdy", "b"),
        StreamError("truncated", "no end"),
    ]
    assert_gives([*OPENING, delta("a"), delta("a"), broken, delta("b")], expected, Truncated)


def test_comments_and_unknown_fields_between_deltas_are_ignored() -> None:
    beside = [b": hi\n\n", b"retry: 3\n\n", b"id: 7\n\n", b"\n", b"data\n\n", b"event: error\n\n"]
    events = [*OPENING, delta("a"), delta("a")]
    for each in beside:
        events += [each, delta("b")]
    expected = [*OPENED, *deltas("a", "a", *"b" * len(beside)), StreamError("truncated", "no end")]
    assert_gives(events, expected, Truncated)
