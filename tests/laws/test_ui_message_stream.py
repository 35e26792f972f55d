"""The laws of streams for the UI message stream, which has no recordings of its own."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from msgspec import structs
from support.draws import Draws, draws
from support.streams.content import (
    DIALECTS,
    content_of,
    decode,
    projected,
    transcode,
    with_sorted_blocks,
)
from support.streams.corpus import recordings
from support.streams.mutations import chunked, cut_anywhere
from support.streams.run_comparison import every_frame_in_full

from streamnorm import (
    BlockStart,
    Completed,
    Event,
    ServerToolCall,
    ServerToolResult,
    StreamError,
)

UI = "ui_message_stream"
NAMELESS_CALLS = ("openai/shell-and-unknown-item",)
"""Recordings with a result of an unknown call, before which a call is written."""


def without_kinds(events: list[Event]) -> list[Event]:
    """Return events whose server tools have no kind: a page knows the name of the tool alone."""
    return [
        structs.replace(event, block=structs.replace(event.block, kind=""))
        if isinstance(event, BlockStart)
        and isinstance(event.block, ServerToolCall | ServerToolResult)
        else event
        for event in events
    ]


@pytest.mark.parametrize("source", [*DIALECTS, "bedrock_converse"])
def test_recordings_come_back_as_they_were_projected(source: str) -> None:
    for recording in recordings(source):
        there = decode([recording.body], source, server=recording.server)
        out, run = transcode([recording.body], source, UI, server=recording.server)
        passed, losses = projected(there.events, UI)
        ours = {loss for loss in run.losses if loss.where != "failed stream"}
        assert ours == set(losses), recording.name
        back = decode([out], UI)
        if recording.name in NAMELESS_CALLS:
            continue
        assert isinstance(back.outcome, Completed) == isinstance(run.outcome, Completed)
        if isinstance(run.outcome, Completed):
            got, wanted = (
                with_sorted_blocks(content_of(without_kinds(events), UI))
                for events in (back.events, passed)
            )
            assert got == wanted, recording.name
        else:
            assert out.endswith(b"data: [DONE]\n\n")
            assert b'"type":"finish"' not in out


def ui_streams() -> list[bytes]:
    return [
        transcode([recording.body], source, UI, server=recording.server)[0]
        for source in DIALECTS
        for recording in recordings(source)[::4]
    ]


def test_stream_is_read_the_same_in_any_chunking_and_in_full() -> None:
    for body in ui_streams():
        whole = decode([body], UI)
        for size in (1, 3, 64):
            assert decode(chunked(body, size), UI) == whole
        with every_frame_in_full():
            assert decode([body], UI) == whole


def test_no_cut_is_a_success() -> None:
    for body in ui_streams():
        frames = body.split(b"\n\n")[:-1]
        end = next((at for at, each in enumerate(frames) if b'"type":"finish"' in each), None)
        for at in range(0, len(frames) if end is None else end, 3):
            cut = b"".join(frame + b"\n\n" for frame in frames[:at])
            assert not isinstance(decode([cut], UI).outcome, Completed)
            half = decode([cut + frames[at][:-2]], UI).outcome
            assert not isinstance(half, Completed)


_VALUES = ("", "0", "x", "c", None, 1, True, {}, {"a": 1}, [], "data:image/png;base64,AA==")
_KEYS = (
    *("id", "delta", "toolCallId", "toolName", "input", "inputTextDelta", "output", "errorText"),
    *("url", "mediaType", "messageId", "providerMetadata", "finishReason", "providerExecuted"),
)
_TYPES = (
    *("start", "start-step", "finish-step", "text-start", "text-delta", "text-end", "data-x"),
    *("reasoning-start", "reasoning-delta", "reasoning-end", "tool-input-start", "file", "abort"),
    *("tool-input-delta", "tool-input-available", "tool-output-available", "source-url", "finish"),
    *("tool-input-error", "tool-output-error", "reset-step", "message-metadata", "custom", "error"),
)


def any_body(d: Draws) -> bytes:
    chunks = [
        {"type": d.pick(_TYPES), **{d.pick(_KEYS): d.pick(_VALUES) for _ in range(d.below(5))}}
        for _ in range(d.below(12))
    ]
    return b"".join(b"data: %b\n\n" % json.dumps(chunk).encode() for chunk in chunks)


@given(draws(400))
def test_any_chunks_end_in_one_outcome(d: Draws) -> None:
    body = any_body(d)
    whole = decode([body], UI)
    assert whole.outcome is not None
    errors = [event for event in whole.events if isinstance(event, StreamError)]
    assert len(errors) <= 1
    assert decode(cut_anywhere(d, body), UI) == whole
