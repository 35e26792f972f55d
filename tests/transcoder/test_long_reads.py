"""Reads of many events."""

from __future__ import annotations

from typing import Any

import pytest
from support.openai_chat.chunks import content
from support.streams.content import DIALECTS
from support.streams.delta_streams import DELTA_STREAMS, DeltaStream, delta_stream
from support.streams.replies import REPLY, answer

from streamnorm import Completed, Failed, Limits, Transcoder

COUNT = 400


def transcode(
    reads: list[bytes], source: str, target: str, **options: Any
) -> tuple[bytes, Transcoder]:
    """Return what is written of a stream, and its transcoder."""
    transcoder = Transcoder(source, target, **options)
    written = [piece for read in reads for piece in transcoder.feed(read)]
    return b"".join([*written, *transcoder.close()]), transcoder


def long_reads(stream: DeltaStream) -> list[bytes]:
    """Return the reads of a stream whose deltas arrive in two long ones, after the first two."""
    first, rest = stream.deltas[:2], stream.deltas[2:]
    halves = rest[: len(rest) // 2], rest[len(rest) // 2 :]
    return [*stream.opening, *first, *map(b"".join, halves), *stream.closing]


def assert_equal(
    reads: list[bytes], events: list[bytes], source: str, target: str, **options: Any
) -> Transcoder:
    """Check that long reads give what each event gives as a read of its own."""
    (written, long), (expected, single) = (
        transcode(each, source, target, **options) for each in (reads, events)
    )
    assert written == expected
    assert (long.outcome, long.losses, long.notes) == (single.outcome, single.losses, single.notes)
    if isinstance(long.outcome, Completed) and options.get("keep_message", True):
        assert long.message == single.message
    return long


@pytest.mark.parametrize("target", DIALECTS)
@pytest.mark.parametrize("name", DELTA_STREAMS)
def test_text_of_a_long_read_is_that_of_single_events(name: str, target: str) -> None:
    stream = delta_stream(name, COUNT)
    reads, source, options = long_reads(stream), stream.dialect, stream.options
    long = assert_equal(reads, stream.events, source, target, **options)
    assert isinstance(long.outcome, Completed)


@pytest.mark.parametrize("bound", [600, 2_000, 6_000, 20_000])
@pytest.mark.parametrize("name", DELTA_STREAMS)
def test_bound_ends_a_long_read_at_the_same_event(name: str, bound: int) -> None:
    stream = delta_stream(name, COUNT)
    reads, source, options = long_reads(stream), stream.dialect, stream.options
    target = "anthropic" if source == "openai_chat" else "openai_chat"
    limits = Limits(max_accumulated_bytes=bound)
    long = assert_equal(reads, stream.events, source, target, limits=limits, **options)
    if bound == 600:
        assert isinstance(long.outcome, Failed)
        assert long.outcome.error.code == "max_accumulated_bytes"


def test_long_reads_one_after_the_other_are_counted_together() -> None:
    stream = delta_stream("chat text", 3 * COUNT)
    reads = [b"".join(stream.deltas[start::3]) for start in range(3)]
    single = [*stream.deltas[::3], *stream.deltas[1::3], *stream.deltas[2::3]]
    size = sum(map(len, reads))
    outcomes = {
        type(
            assert_equal(
                [*stream.opening, *reads, *stream.closing],
                [*stream.opening, *single, *stream.closing],
                *("openai_chat", "anthropic"),
                limits=Limits(max_accumulated_bytes=bound),
            ).outcome
        )
        for bound in range(1_000, size, size // 12)
    }
    assert outcomes == {Completed, Failed}


def test_restored_and_other_calls_of_a_long_read() -> None:
    pieces = ["abc\\n"] * COUNT
    patch, other = ['{"input":"', *pieces, '"}'], ['{"t":"', *pieces, '"}']
    events = [*answer("openai_chat", ("apply_patch", patch), ("crm__get", other))]
    # The first three of each call by themselves: the rest of each is a long read.
    half = len(events) // 2
    reads = [*events[:4], b"".join(events[4:half]), *events[half : half + 4]]
    reads.append(b"".join(events[half + 4 :]))
    long = assert_equal(reads, events, "openai_chat", "openai_responses", reply=REPLY)
    assert [call.arguments for call in long.message.tool_calls] == [
        "abc\n" * COUNT,
        '{"t":"' + "abc\\n" * COUNT + '"}',
    ]


def test_message_that_is_not_kept() -> None:
    stream = delta_stream("chat text", COUNT)
    reads, events = long_reads(stream), stream.events
    assert_equal(reads, events, "openai_chat", "anthropic", keep_message=False)


def test_long_read_without_text() -> None:
    stream = delta_stream("chat text", COUNT)
    idle = [content("")] * COUNT
    events = [*stream.opening, *stream.deltas, *idle, *stream.closing]
    reads = [*stream.opening, *stream.deltas, b"".join(idle), *stream.closing]
    assert_equal(reads, events, "openai_chat", "anthropic")
