"""Streams that a broken or hostile server may send, and what every client must see of them.

A stream is either clean in every target dialect, as strict clients that share no code with the
package read it, or it is not `Completed`; a call whose arguments never ended is noted, and no
target gets it as JSON that could run.
"""

from __future__ import annotations

import json

import pytest
from support.bodies.json_values import is_json
from support.gemini_interactions.adversarial import BROKEN, CLEAN, UNFINISHED
from support.streams.pieces import transcode_each_line_end
from support.streams.seen import DIALECTS, see

from streamnorm import Completed, Transcoder

STREAMS = {**CLEAN, **UNFINISHED}
STOPS: dict[str, dict[str, str | None]] = {
    "anthropic": {},
    "openai_chat": {"end_turn": "stop", "tool_use": "tool_calls", "max_tokens": "length"},
    "openai_responses": {
        "end_turn": None,
        "tool_use": None,
        "max_tokens": "max_output_tokens",
    },
    "gemini": {"end_turn": "STOP", "tool_use": "STOP", "max_tokens": "MAX_TOKENS"},
    "gemini_interactions": {
        "end_turn": "completed",
        "tool_use": "requires_action",
        "max_tokens": "incomplete",
    },
}
"""The words of each target for a stop reason."""

each_target = pytest.mark.parametrize("target", DIALECTS)


@each_target
@pytest.mark.parametrize("name", STREAMS)
def test_stream_is_clean_or_noted(name: str, target: str) -> None:
    stream, truth = STREAMS[name]
    for data, transcoder in transcode_each_line_end(stream, "gemini_interactions", target):
        got = see(target, data, extras=True)
        notes = {note.kind: note.count for note in transcoder.notes}
        assert notes.get("unfinished_arguments", 0) == truth.unfinished
        if truth.unfinished and got.failed:
            assert not isinstance(transcoder.outcome, Completed)
            assert target == "gemini"  # where a call has an object or is none
            continue
        assert isinstance(transcoder.outcome, Completed)
        assert transcoder.outcome.reason == truth.stop
        assert not got.failed
        assert (got.text, got.thoughts) == (truth.text, truth.thoughts)
        finished = [(name, json.loads(args)) for name, args in got.calls if is_json(args)]
        assert finished == truth.calls
        unfinished = 0 if target == "gemini" else truth.unfinished
        assert len(got.calls) - len(finished) == unfinished
        assert got.stop == STOPS[target].get(truth.stop, truth.stop)
        if truth.usage is not None:
            assert got.usage == truth.usage


@each_target
@pytest.mark.parametrize("name", BROKEN)
def test_broken_stream_is_not_completed(name: str, target: str) -> None:
    for data, transcoder in transcode_each_line_end(BROKEN[name], "gemini_interactions", target):
        assert transcoder.outcome is not None
        assert not isinstance(transcoder.outcome, Completed)
        assert see(target, data, extras=True).failed
        assert b"evil" not in data


def test_verbatim_output_shows_a_contradiction_as_an_error() -> None:
    """The original bytes before it are passed on; nothing behind it is."""
    for name in ("arguments at the index of a text", "second interaction spliced in"):
        transcoder = Transcoder("gemini_interactions", "gemini_interactions")
        out = b"".join([*transcoder.feed(b"".join(BROKEN[name])), *transcoder.close()])
        error, payload = out.rstrip().splitlines()[-2:]
        assert error == b"event: error"
        assert json.loads(payload.removeprefix(b"data: "))["error"]["code"] == "internal_error"


def test_there_are_seventy_streams_and_more() -> None:
    assert len(STREAMS) + len(BROKEN) >= 70
