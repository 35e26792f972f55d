"""The delta run changes nothing but the time that reading takes.

With the run switched off every frame is read in full.  Whatever a stream holds and however
it is cut, events, bytes, message, usage, losses, notes and outcome are then the same, each
with the chunk that brought it.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, note
from msgspec.structs import replace
from support.bodies.samples import any_body, make_source
from support.draws import Draws, draws
from support.operation_counts import operations
from support.streams.chunkings import CHUNKINGS, events_of
from support.streams.content import DIALECTS, PAGES
from support.streams.corpus import CorpusStream, each_provider_of, each_recording_of, pieces
from support.streams.delta_streams import DELTA_STREAMS, delta_stream
from support.streams.encoded import make_encoded_stream
from support.streams.mutations import cut_anywhere
from support.streams.run_comparison import (
    Route,
    assert_same_without_run,
    every_frame_in_full,
    plain_routes,
    read,
    routes,
    seeded_choice,
    seeded_sample,
    stream_routes,
)
from support.streams.short import PINGS

from streamnorm import Event
from streamnorm.codec import decoder
from streamnorm.recording import Recording
from streamnorm.sse import SSEDecoder

SMALL_BYTES = 2_000  # of a stream that is also read byte by byte

each_dialect = pytest.mark.parametrize("dialect", DIALECTS)
each_delta_stream = pytest.mark.parametrize("name", DELTA_STREAMS)

AMID = ("one event", "two events", "halves of events")

FOREIGN = (
    *("anthropic text", "chat text", "responses text", "gemini text", "interactions text"),
    *("ui text", "ag-ui text"),
)

ON_THE_RUN = (
    *("anthropic text", "anthropic text, padded", "anthropic thinking", "anthropic call"),
    *("anthropic thinking, text and call", "anthropic calls, interleaved"),
    *("chat text", "chat text, spaced", "chat text, counted", "chat reasoning", "chat call"),
    *("chat reasoning details", "chat thinking blocks"),
    *("chat calls, interleaved", "chat calls, one by one"),
    *("responses text", "responses text, unnumbered", "responses reasoning", "responses summary"),
    *("responses summaries, interleaved", "responses call", "responses calls, interleaved"),
    *("gemini text", "gemini text, LF", "gemini thought"),
    *("interactions text", "interactions text, resumable", "interactions thought"),
    *("interactions call", "interactions calls, interleaved"),
    *("ui text", "ui reasoning", "ui call", "ui calls, interleaved", "ui texts, interleaved"),
    *("ag-ui text", "ag-ui reasoning", "ag-ui call", "ag-ui calls, interleaved"),
)
"""The streams whose deltas are the usual ones of servers."""


def chunkings_for(body: bytes) -> list[str]:
    """Return the names of the chunkings that a stream of this size is read in."""
    return [name for name in CHUNKINGS if name != "bytes" or len(body) <= SMALL_BYTES]


def assert_reads_the_same(
    body: bytes, dialect: str, seed: str, each: int, most: int, **options: Any
) -> None:
    """Check some routes of a stream, each in some chunkings."""
    events = events_of(body)
    for route in seeded_sample(routes(dialect, **options), seed, most):
        for name in seeded_sample(chunkings_for(body), f"{seed} {route}", each):
            assert_same_without_run(CHUNKINGS[name](events), route)


@each_recording_of(*DIALECTS, arrays=True)
def test_recording_reads_the_same_without_the_run(recording: Recording) -> None:
    assert recording.dialect is not None
    name, server = recording.name, recording.server
    assert_reads_the_same(recording.body, recording.dialect, name, each=1, most=5, server=server)


@each_recording_of(*DIALECTS)
def test_recording_reads_the_same_without_the_run_event_by_event(recording: Recording) -> None:
    assert recording.dialect is not None
    events = events_of(recording.body)
    for route in seeded_sample(plain_routes(recording.dialect), recording.name, 2):
        assert_same_without_run(events, route)


@each_provider_of(*DIALECTS, one_in=2)
def test_real_streams_read_the_same_without_the_run(streams: list[CorpusStream]) -> None:
    for stream in streams:
        assert_reads_the_same(stream.body, stream.dialect, stream.name, each=1, most=3)
        if stream.chunk_sizes:
            chunks = pieces(stream.body, stream.chunk_sizes)
            for route in seeded_sample(plain_routes(stream.dialect), stream.name, 1):
                assert_same_without_run(chunks, route)


def assert_generated_reads_the_same(d: Draws, events: list[bytes], dialect: str) -> None:
    """Check one route of a generated stream in three chunkings."""
    route = d.pick(routes(dialect))
    name = d.pick(chunkings_for(b"".join(events)))
    note(f"{route}, {name}")
    body = b"".join(events)
    for chunks in (events, CHUNKINGS[name](events), cut_anywhere(d, body)):
        assert_same_without_run(chunks, route)


@each_dialect
@given(d=draws(350))
def test_generated_stream_reads_the_same_without_the_run(dialect: str, d: Draws) -> None:
    assert_generated_reads_the_same(d, make_source(d, dialect).frames, dialect)


@each_dialect
@given(d=draws(600))
def test_encoded_stream_reads_the_same_without_the_run(dialect: str, d: Draws) -> None:
    assert_generated_reads_the_same(d, make_encoded_stream(d, dialect), dialect)


@each_dialect
@given(d=draws(500))
def test_damaged_stream_reads_the_same_without_the_run(dialect: str, d: Draws) -> None:
    assert_generated_reads_the_same(d, events_of(any_body(d, dialect)), dialect)


# Amid deltas


@each_delta_stream
def test_long_stream_reads_the_same_without_the_run(name: str) -> None:
    """Longer than any batch of deltas that is folded at once."""
    stream = delta_stream(name, 200)
    for route in seeded_sample(stream_routes(stream), name, 1):
        for cut in (
            "one event",
            seeded_choice(["two events", "1400 bytes", "random", "whole"], name),
        ):
            assert_same_without_run(CHUNKINGS[cut](stream.events), route)


@each_delta_stream
def test_other_event_amid_deltas_reads_the_same_without_the_run(name: str) -> None:
    """A misplaced start, stop or end, a ping, an event of another dialect."""
    stream = delta_stream(name, 5)
    at = stream.middle
    foreign = [delta_stream(other, 5).deltas[1] for other in FOREIGN]
    others = [*stream.opening, *stream.closing, *stream.deltas, *foreign, *PINGS.values()]
    for number, other in enumerate(seeded_sample([*dict.fromkeys(others)], name, 6)):
        deltas = [*stream.deltas[:at], other, *stream.deltas[at:]]
        route = seeded_choice(stream_routes(stream), f"{name} {number}")
        events = stream._replace(deltas=deltas).events
        for cut in ("one event", seeded_choice(AMID, f"{name} {number}")):
            assert_same_without_run(CHUNKINGS[cut](events), route)


@each_delta_stream
def test_deltas_read_the_same_without_the_run_in_every_chunking(name: str) -> None:
    """The chunking changes nothing either."""
    stream = delta_stream(name)
    for route in seeded_sample(stream_routes(stream), name, 3):
        expected = assert_same_without_run(stream.events, route).whole
        for cut in seeded_sample(list(CHUNKINGS), f"{name} {route}", 3):
            chunks = CHUNKINGS[cut](stream.events)
            assert assert_same_without_run(chunks, route).whole == expected, cut


@each_delta_stream
def test_state_read_amid_deltas_is_up_to_date(name: str) -> None:
    """Reading the state changes no later event."""
    stream = delta_stream(name)
    for route in seeded_sample(stream_routes(stream), name, 3):
        for cut in seeded_sample(AMID, f"{name} {route}", 1):
            chunks = CHUNKINGS[cut](stream.events)
            asked = assert_same_without_run(chunks, replace(route, asks=True))
            assert asked.outputs == read(chunks, route).outputs


@each_delta_stream
def test_pings_amid_deltas_are_the_same_without_the_run(name: str) -> None:
    stream = delta_stream(name)
    for target in seeded_sample((*DIALECTS, *PAGES), name, 2):
        for cut in seeded_sample(AMID, f"{name} {target}", 1):
            route = Route(stream.dialect, target, {**stream.options}, pings=True)
            assert_same_without_run(CHUNKINGS[cut](stream.events), route)


@each_delta_stream
def test_stream_that_ends_amid_deltas_reads_the_same_without_the_run(name: str) -> None:
    stream = delta_stream(name, 5)
    events = stream.events
    ends = [None, ConnectionResetError(), TimeoutError()]
    for at in range(len(stream.opening) + 1, len(events)):
        for failure in seeded_sample(ends, f"{name} {at}", 1):
            route = seeded_choice(stream_routes(stream), f"{name} {at}")
            route = replace(route, failure=failure)
            half = events[at][: len(events[at]) // 2]
            for chunks in (events[:at], [*events[:at], half], [b"".join(events[:at]) + half]):
                assert_same_without_run(chunks, route)


@each_delta_stream
def test_frames_fed_between_bytes_read_the_same_without_the_run(name: str) -> None:
    stream = delta_stream(name)

    def given(first: int) -> list[list[Event]]:
        reader = decoder(stream.dialect, **stream.options)
        events: list[list[Event]] = []
        for number, data in enumerate(stream.events, first):
            if number % 3:
                events.append(reader.feed(data))
            else:
                events += [reader.feed_frame(frame) for frame in SSEDecoder().feed(data)]
        return [*events, reader.close()]

    for first in range(3):
        fast = given(first)
        with every_frame_in_full():
            assert given(first) == fast


@pytest.mark.parametrize("name", ON_THE_RUN)
def test_consecutive_deltas_take_the_delta_run_in_every_chunking(name: str) -> None:
    """Fewer functions are called than where every frame is read in full."""
    stream = delta_stream(name, 50)
    for route in seeded_sample(stream_routes(stream), name, 2):
        for cut in ("one event", "two events", "1400 bytes", "whole"):
            chunks = CHUNKINGS[cut](stream.events)
            fast = operations(lambda chunks=chunks, route=route: read(chunks, route))
            with every_frame_in_full():
                slow = operations(lambda chunks=chunks, route=route: read(chunks, route))
            assert fast < 0.9 * slow, (str(route), cut)
