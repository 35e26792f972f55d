"""The laws of streams for AG-UI, which has no recordings of its own."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
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

from streamnorm import Completed, StreamError

AG_UI = "ag_ui"
NAMELESS_CALLS = ("openai/shell-and-unknown-item",)
"""Recordings with a result of an unknown call, before which a call is written."""


@pytest.mark.parametrize("source", [*DIALECTS, "bedrock_converse"])
def test_recordings_come_back_as_they_were_projected(source: str) -> None:
    for recording in recordings(source):
        there = decode([recording.body], source, server=recording.server)
        out, run = transcode([recording.body], source, AG_UI, server=recording.server)
        passed, losses = projected(there.events, AG_UI)
        ours = {loss for loss in run.losses if loss.where != "failed stream"}
        assert ours == set(losses), recording.name
        back = decode([out], AG_UI)
        if recording.name in NAMELESS_CALLS:
            continue
        assert isinstance(back.outcome, Completed) == isinstance(run.outcome, Completed)
        if isinstance(run.outcome, Completed):
            got, wanted = (
                with_sorted_blocks(content_of(events, AG_UI)) for events in (back.events, passed)
            )
            assert got == wanted, recording.name
        else:
            assert b'"type":"RUN_ERROR"' in out.split(b"\n\n")[-2]
            assert b'"type":"RUN_FINISHED"' not in out


def runs() -> list[bytes]:
    return [
        transcode([recording.body], source, AG_UI, server=recording.server)[0]
        for source in DIALECTS
        for recording in recordings(source)[::4]
    ]


def test_run_is_read_the_same_in_any_chunking_and_in_full() -> None:
    for body in runs():
        whole = decode([body], AG_UI)
        for size in (1, 3, 64):
            assert decode(chunked(body, size), AG_UI) == whole
        with every_frame_in_full():
            assert decode([body], AG_UI) == whole


def test_no_cut_is_a_success() -> None:
    for body in runs():
        frames = body.split(b"\n\n")[:-1]
        for at in range(0, len(frames), 3):
            cut = b"".join(frame + b"\n\n" for frame in frames[:at])
            assert not isinstance(decode([cut], AG_UI).outcome, Completed)
            half = decode([cut + frames[at][:-2]], AG_UI).outcome
            assert not isinstance(half, Completed)


_VALUES = ("", "0", "c", "sn1.a.b", "sn1-redacted.a.b", None, 1, True, {}, {"a": 1}, [], [{}])
_KEYS = (
    *("messageId", "delta", "toolCallId", "toolCallName", "role", "content", "metadata", "usage"),
    *("entityId", "encryptedValue", "subtype", "outcome", "threadId", "runId", "message", "code"),
)
_TYPES = (
    *("RUN_STARTED", "RUN_STARTED", "RUN_FINISHED", "RUN_ERROR", "RAW", "STATE_DELTA", "X", ""),
    *("TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END", "TEXT_MESSAGE_CHUNK"),
    *("TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END", "TOOL_CALL_CHUNK", "TOOL_CALL_RESULT"),
    *("REASONING_START", "REASONING_MESSAGE_START", "REASONING_MESSAGE_CONTENT"),
    *("REASONING_MESSAGE_END", "REASONING_END", "REASONING_MESSAGE_CHUNK"),
    *("REASONING_ENCRYPTED_VALUE", "THINKING_START", "THINKING_TEXT_MESSAGE_CONTENT"),
)


def any_body(d: Draws) -> bytes:
    events = [
        {"type": d.pick(_TYPES), **{d.pick(_KEYS): d.pick(_VALUES) for _ in range(d.below(5))}}
        for _ in range(d.below(12))
    ]
    events.insert(0, {"type": "RUN_STARTED"})
    return b"".join(b"data: %b\n\n" % json.dumps(event).encode() for event in events)


@given(draws(400))
def test_any_chunks_end_in_one_outcome(d: Draws) -> None:
    body = any_body(d)
    whole = decode([body], AG_UI)
    assert whole.outcome is not None
    errors = [event for event in whole.events if isinstance(event, StreamError)]
    assert len(errors) <= 1
    assert decode(cut_anywhere(d, body), AG_UI) == whole
