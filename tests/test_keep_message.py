"""Streams whose message is not kept: outcome, usage and bytes alone."""

from __future__ import annotations

import pytest
from support.operation_counts import KIB, peak
from support.streams.chunkings import CHUNKINGS
from support.streams.content import DIALECTS
from support.streams.delta_streams import DELTA_STREAMS, delta_stream

from streamnorm import (
    BlockStart,
    Completed,
    Failed,
    Limits,
    LocalProtocolError,
    MessageStart,
    StreamError,
    Text,
    TextDelta,
    Transcoder,
    Truncated,
    Usage,
    UsageUpdate,
)
from streamnorm._core.messages import UsageAccumulator

each_stream = pytest.mark.parametrize("name", DELTA_STREAMS)
each_target = pytest.mark.parametrize("target", DIALECTS)


@pytest.mark.parametrize("reads", ["one event", "two events", "halves of events", "whole"])
@each_target
@each_stream
def test_bytes_outcome_and_usage_do_not_depend_on_keep_message(
    name: str, target: str, reads: str
) -> None:
    stream = delta_stream(name)
    chunks = CHUNKINGS[reads](stream.events)
    kept = Transcoder(stream.dialect, target, **stream.options)
    left = Transcoder(stream.dialect, target, keep_message=False, **stream.options)
    for chunk in chunks:
        assert left.feed(chunk) == kept.feed(chunk)
        assert left.usage == kept.usage
        assert left.is_empty == kept.is_empty
        assert left.has_blocks == kept.has_blocks
    assert left.close() == kept.close()
    assert isinstance(left.outcome, Completed)
    assert (left.outcome, left.usage) == (kept.outcome, kept.usage)
    assert (left.losses, left.notes, left.frames) == (kept.losses, kept.notes, kept.frames)


@each_target
@each_stream
def test_message_without_keep_message_raises_local_protocol_error(name: str, target: str) -> None:
    stream = delta_stream(name)
    run = Transcoder(stream.dialect, target, keep_message=False, **stream.options)
    for event in (b"", *stream.events):
        run.feed(event)
        with pytest.raises(LocalProtocolError, match="keep_message=False"):
            run.message  # noqa: B018 - the access is the test


@each_target
def test_other_bounds_apply_without_keep_message(target: str) -> None:
    stream = delta_stream("chat text", 20)
    largest = max(len(event) - 1 for event in stream.events)  # the blank line left out
    limits = Limits(max_event_bytes=largest - 1)
    run = Transcoder("openai_chat", target, limits=limits, keep_message=False)
    out = b"".join(data for event in stream.events for data in run.feed(event))
    assert isinstance(run.outcome, Failed)
    assert run.outcome.error.code == "max_event_bytes"
    assert b"max_event_bytes" in out


@each_target
@each_stream
def test_cut_stream_is_truncated_without_keep_message(name: str, target: str) -> None:
    stream = delta_stream(name)
    kept = Transcoder(stream.dialect, target, **stream.options)
    left = Transcoder(stream.dialect, target, keep_message=False, **stream.options)
    for event in [*stream.opening, *stream.deltas]:
        assert left.feed(event) == kept.feed(event)
    assert left.close() == kept.close()
    assert isinstance(left.outcome, Truncated)
    assert left.usage == kept.usage


def test_text_is_not_stored_without_keep_message() -> None:
    text = b"x" * KIB
    delta = b'data: {"choices":[{"index":0,"delta":{"content":"%b"}}]}\n\n' % text
    for target in DIALECTS:
        run = Transcoder("openai_chat", target, keep_message=False)
        for _ in range(8):
            run.feed(delta)

        def feed() -> None:
            for _ in range(500):
                run.feed(delta)  # noqa: B023 - called at once

        # Gemini's encoders keep the text of a block for the sources that it may cite.  Half a
        # megabyte was read; what coverage traces takes some of the rest.
        stores = target in ("gemini", "gemini_interactions", "openai_responses")
        assert peak(feed) < (600 if stores else 60) * KIB


def test_usage_accumulator_stores_only_start_and_usage() -> None:
    accumulator = UsageAccumulator()
    assert accumulator.is_empty
    start, usage = MessageStart("m", "gpt"), Usage(9, 4)
    events = [start, BlockStart(0, Text()), TextDelta(0, "a"), StreamError("upstream", "no")]
    assert accumulator.take(events) is events
    assert not accumulator.is_empty
    assert (accumulator.start, accumulator.usage) == (start, Usage())
    accumulator.take([UsageUpdate(usage)])
    assert accumulator.usage == usage
    accumulator.text_sinks(0)[0]("a")
    with pytest.raises(LocalProtocolError):
        accumulator.message()
