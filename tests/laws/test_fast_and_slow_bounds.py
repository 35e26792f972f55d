"""The delta run changes nothing where a stream ends amid deltas.

The error comes with the same event, with and without the delta run, in any chunking.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import Any

import pytest
from msgspec.structs import replace
from support.streams.chunkings import CHUNKINGS
from support.streams.content import DIALECTS
from support.streams.delta_streams import DELTA_STREAMS, MARK, DeltaStream, delta_stream
from support.streams.run_comparison import (
    Reading,
    Route,
    assert_same_without_run,
    seeded_choice,
    seeded_sample,
    stream_routes,
)

from streamnorm import Completed, Failed, Limits

CUTS = [name for name in CHUNKINGS if name not in ("one event", "bytes")]

CALLS = ("anthropic calls, interleaved", "chat calls, interleaved", "responses calls, interleaved")

each_delta_stream = pytest.mark.parametrize("name", DELTA_STREAMS)


def assert_same_under_bounds(
    stream: DeltaStream, routes: list[Route], limit: str, bounds: Iterable[int]
) -> list[Reading]:
    """Check a stream under each bound, and return its readings event by event."""
    readings: list[Reading] = []
    for number, bound in enumerate(bounds):
        seed = f"{number}: {limit}, {bound}"
        route = seeded_choice(routes, seed)
        route = replace(route, options={**route.options, "limits": Limits(**{limit: bound})})
        reading = assert_same_without_run(stream.events, route)
        for cut in seeded_sample(CUTS, seed, 1):
            other = assert_same_without_run(CHUNKINGS[cut](stream.events), route)
            # Of the chunk that breaks the stream more may have been read, but nothing given.
            assert other.joined == reading.joined, (str(route), cut)
            assert other.outcome == reading.outcome
        readings.append(reading)
    return readings


def assert_hit_amid_deltas(stream: DeltaStream, readings: list[Reading], limit: str) -> None:
    """Check that some bounds ended the stream at some of its deltas."""
    first, last = len(stream.opening), len(stream.opening) + len(stream.deltas)
    ended_at: set[int] = set()
    for reading in readings:
        match reading.outcome:
            case Failed(error):
                assert error.code == limit
                ended_at.add(max(index for index, given in enumerate(reading.outputs) if given))
            case outcome:
                assert isinstance(outcome, Completed)
    assert any(first < at < last for at in ended_at), ended_at


def writing(stream: DeltaStream) -> list[Route]:
    """Return the plain routes that write a stream."""
    routes = stream_routes(stream)
    return [route for route in routes if route.target is not None]


@each_delta_stream
def test_bound_of_the_message_is_hit_by_the_same_event(name: str) -> None:
    # These decoders count some 200 bytes for each part, and some 500 for the start of a call.
    large = name.startswith(("ui", "interactions"))
    count, bounds = (120, range(200, 2_000, 100)) if large else (24, range(80, 720, 40))
    stream = delta_stream(name, count)
    routes = writing(stream)
    readings = assert_same_under_bounds(stream, routes, "max_accumulated_bytes", bounds)
    assert_hit_amid_deltas(stream, readings, "max_accumulated_bytes")


@pytest.mark.parametrize("name", [*CALLS, "chat text beside a call"])
def test_bound_of_held_bytes_is_hit_by_the_same_event(name: str) -> None:
    stream = delta_stream(name, 6)
    bounds = seeded_sample(range(4, 260, 3), name, 14)
    sequential = [route for route in writing(stream) if route.target != "openai_chat"]
    encoded = [route for route in sequential if not route.options["verbatim"]]
    readings = assert_same_under_bounds(stream, encoded, "max_held_bytes", bounds)
    assert_hit_amid_deltas(stream, readings, "max_held_bytes")


@pytest.mark.parametrize("name", [name for name in DELTA_STREAMS if "array" not in name])
def test_bound_of_an_event_is_hit_by_the_same_event(name: str) -> None:
    """Its lines with their ends count, but for the blank line."""
    stream = delta_stream(name, 5)
    at = stream.middle
    large = stream.deltas[at].replace(MARK.encode(), b"x" * 1000)
    stream = stream._replace(deltas=[*stream.deltas[:at], large, *stream.deltas[at + 1 :]])
    end = 2 if large.endswith(b"\r\n") else 1
    # A CRLF is counted as one byte, and so is each of the others.
    size = len(large) - end - large.count(b"\r\n", 0, len(large) - end)
    readings = [
        assert_same_under_bounds(stream, stream_routes(stream), "max_event_bytes", [bound])[0]
        for bound in (size - 1, size, size + 1)
    ]
    assert_hit_amid_deltas(stream, readings[:1], "max_event_bytes")
    assert all(not is_too_large(reading) for reading in readings[1:])


def is_too_large(reading: Reading) -> bool:
    outcome = reading.outcome
    return isinstance(outcome, Failed) and outcome.error.kind == "too_large"


@pytest.mark.parametrize(
    ("first", "second"),
    [("chat text", "chat reasoning"), ("gemini text", "gemini thought")],
)
def test_bound_of_blocks_is_hit_by_the_same_event(first: str, second: str) -> None:
    one, other = delta_stream(first, 12), delta_stream(second, 12)
    turns = [one.deltas[at : at + 3] + other.deltas[at : at + 3] for at in range(0, 12, 3)]
    stream = one._replace(deltas=[*chain.from_iterable(turns)])
    routes = stream_routes(stream)
    readings = assert_same_under_bounds(stream, routes, "max_blocks", [*range(1, 10)] * 2)
    assert_hit_amid_deltas(stream, readings, "max_blocks")


def test_bound_of_calls_is_hit_by_the_same_event() -> None:
    stream = delta_stream("chat calls, one by one")
    routes = stream_routes(stream)
    readings = assert_same_under_bounds(stream, routes, "max_tool_calls", [*range(4)] * 5)
    assert_hit_amid_deltas(stream, readings, "max_tool_calls")


@each_delta_stream
def test_bound_of_nesting_is_hit_by_the_same_event(name: str) -> None:
    """Where a delta comes with a field that nests."""
    stream = delta_stream(name, 5)
    at = stream.middle
    for field in (b"odd", b"usage", b"usageMetadata", b"logprobs", b"error"):
        nested = b'{"%b":{"a":[[[[[[1]]]]]]},' % field
        odd = stream.deltas[at].replace(b"{", nested, 1)
        deltas = [*stream.deltas[:at], odd, *stream.deltas[at + 1 :]]
        bounds = seeded_sample(range(6, 12), f"{name} {field!r}", 2)
        routes = stream_routes(stream)
        assert_same_under_bounds(stream._replace(deltas=deltas), routes, "max_json_depth", bounds)


def strict(dialect: str, target: str, **options: Any) -> Route:
    """Return a route that ends at the first loss."""
    return Route(dialect, target, {"verbatim": False, "strict": True, **options})


@each_delta_stream
def test_first_loss_is_raised_by_the_same_event(name: str) -> None:
    stream = delta_stream(name, 6)
    options: list[dict[str, Any]] = [{}, {"reasoning": None}, {"ordering": "interleaved"}]
    every = [
        strict(stream.dialect, target, **stream.options, **each)
        for target in DIALECTS
        for each in options
    ]
    for route in seeded_sample(every, name, 4):
        for cut in ("one event", *seeded_sample(CUTS, f"{name} {route}", 1)):
            assert_same_without_run(CHUNKINGS[cut](stream.events), route)


@pytest.mark.parametrize("target", ["anthropic", "openai_chat", "gemini", "gemini_interactions"])
def test_second_part_of_a_summary_is_lost_with_its_first_delta(target: str) -> None:
    """No other dialect has parts."""
    stream = delta_stream("responses summary", 6)
    second = next(at for at, event in enumerate(stream.events) if b'"summary_index":1' in event)
    reading = assert_same_without_run(stream.events, strict(stream.dialect, target))
    assert reading.raised == f"reasoning_parts in block would be lost in chunk {second}"


@pytest.mark.parametrize(
    "target", ["anthropic", "openai_responses", "gemini", "gemini_interactions"]
)
def test_logprobs_amid_deltas_are_lost_with_theirs(target: str) -> None:
    stream = delta_stream("chat text", 6)
    at = stream.middle
    delta = stream.deltas[at].replace(b'"logprobs":null', b'"logprobs":{"content":[]}')
    stream = stream._replace(deltas=[*stream.deltas[:at], delta, *stream.deltas[at + 1 :]])
    reading = assert_same_without_run(stream.events, strict(stream.dialect, target))
    assert reading.raised is not None
    assert reading.raised.endswith(f"in chunk {len(stream.opening) + at}")
