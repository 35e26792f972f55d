"""Events on their way to the bytes of a dialect: blocks that wait, and what a failure drops."""

from __future__ import annotations

import json
from contextlib import nullcontext
from itertools import islice

import pytest
from support.streams.content import DIALECTS
from support.streams.endless import endless_stream
from support.streams.run_comparison import every_frame_in_full

from streamnorm import (
    BlockStart,
    BlockStop,
    Event,
    Failed,
    JSONDelta,
    LimitExceeded,
    Limits,
    MessageStart,
    StreamError,
    Text,
    TextDelta,
    ToolCall,
    Transcoder,
)
from streamnorm._core.codec import StreamWriter
from streamnorm.codec import encoder

TWO_CALLS: list[Event] = [
    MessageStart("m", "gpt"),
    BlockStart(0, ToolCall("t0", "f")),
    BlockStart(1, ToolCall("t1", "g")),
    JSONDelta(0, '{"a":'),
    JSONDelta(1, '{"b":2}'),
    BlockStop(1),
]


def test_calls_are_written_one_after_the_other() -> None:
    writer = StreamWriter(encoder("anthropic"))
    out = b"".join(writer.write([*TWO_CALLS, JSONDelta(0, "1}"), BlockStop(0)])).decode()
    events = [json.loads(line[6:]) for line in out.split("\n") if line.startswith("data: ")]
    indexes = [event["index"] for event in events if "index" in event]
    assert indexes == sorted(indexes)
    assert set(indexes) == {0, 1}


def test_calls_are_written_as_they_arrive_where_no_order_is_kept() -> None:
    writer = StreamWriter(encoder("openai_chat"), ordered=False)
    written = b"".join(writer.write(TWO_CALLS))
    assert b'{\\"b\\":2}' in written


def test_writer_names_the_blocks_that_wait_and_what_they_wait_for() -> None:
    writer = StreamWriter(encoder("anthropic"))
    writer.write(TWO_CALLS)
    assert writer.held_blocks == {1: 0}
    writer.write([JSONDelta(0, "1}"), BlockStop(0)])
    assert writer.held_blocks == {}
    assert StreamWriter(encoder("anthropic"), ordered=False).held_blocks == {}


@pytest.mark.parametrize("dialect", ["anthropic", "openai_responses"])
def test_text_that_waits_when_the_source_fails_is_a_loss(dialect: str) -> None:
    writing = encoder(dialect)
    writer = StreamWriter(writing)
    writer.write(TWO_CALLS)
    assert "held" not in [loss.feature for loss in writing.losses]
    writer.write([StreamError("transport", "reset")])
    assert [loss.count for loss in writing.losses if loss.feature == "held"] == [1]
    assert writer.failure is None


@pytest.mark.parametrize("dialect", DIALECTS)
def test_source_that_fails_while_nothing_waits_loses_nothing(dialect: str) -> None:
    writing = encoder(dialect)
    writer = StreamWriter(writing)
    writer.write([MessageStart("m", "gpt"), BlockStart(0, Text()), TextDelta(0, "a")])
    writer.write([StreamError("transport", "reset")])
    assert writing.losses == ()


def test_more_text_than_may_wait_ends_the_stream() -> None:
    writing = encoder("anthropic")
    writer = StreamWriter(writing, limits=Limits(max_held_bytes=200))
    writer.write(TWO_CALLS[:4])
    written = b"".join(writer.write([JSONDelta(1, " " * 201), BlockStop(0)]))
    assert writer.failure is not None
    assert writer.failure.code == "max_held_bytes"
    assert written.count(b"event: ") == written.count(b"event: error") == 1
    assert [loss.feature for loss in writing.losses] == ["held"]


@pytest.mark.parametrize("dialect", ["anthropic", "bedrock_converse"])
def test_sink_of_a_block_that_has_not_started_fails_as_its_limit_is_exceeded(dialect: str) -> None:
    """White space waits for text; a run would go on behind an error that is written here."""
    limits = Limits(max_accumulated_bytes=1_000)
    writer = StreamWriter(encoder(dialect, limits=limits), limits=limits)
    writer.write([MessageStart("m", "gpt"), BlockStart(0, Text()), TextDelta(0, " ")])
    sink = writer.delta_sink(TextDelta(0, ""))
    assert sink(" " * 500) == b""
    with pytest.raises(LimitExceeded) as caught:
        sink(" " * 500)
    assert writer.failure is None
    assert writer.fail(StreamError("too_large", str(caught.value), code=caught.value.limit))
    assert writer.failure is not None


@pytest.mark.parametrize("joined", [1, 2, 3, 7])
@pytest.mark.parametrize("source", [*DIALECTS, "bedrock_converse"])
def test_endless_white_space_ends_in_one_error(source: str, joined: int) -> None:
    limits = Limits(max_accumulated_bytes=3_000)
    outs = []
    for is_run_off in (False, True):
        frames = endless_stream(source, "white_space", "abc")
        run = Transcoder(source, "anthropic", verbatim=False, limits=limits, keep_message=False)
        with every_frame_in_full() if is_run_off else nullcontext():
            out = b""
            while run.outcome is None:
                out += b"".join(run.feed(b"".join(islice(frames, joined))))
        assert isinstance(run.outcome, Failed)
        assert out.count(b"event: error") == 1
        outs.append(out)
    assert outs[0] == outs[1]
