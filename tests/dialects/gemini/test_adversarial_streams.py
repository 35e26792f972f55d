"""Streams that a broken or hostile server may send, and what every client must see of them.

A stream is either clean in every target dialect, as strict
clients that share no code with the package read it, or it is not `Completed`; a call whose
arguments never ended is noted, and no target gets it as JSON that could run.
"""

from __future__ import annotations

import json

import pytest
from support.bodies.json_values import is_json
from support.gemini.adversarial import BROKEN, CLEAN, UNFINISHED
from support.streams.pieces import transcode_each_line_end
from support.streams.seen import DIALECTS, see

from streamnorm import Completed, Transcoder, Usage

STREAMS = {**CLEAN, **UNFINISHED}
STOPS = {
    "openai_chat": {
        "end_turn": "stop",
        "tool_use": "tool_calls",
        "max_tokens": "length",
        "refusal": "content_filter",
    },
    "openai_responses": {"max_tokens": "max_output_tokens", "refusal": "content_filter"},
    "gemini": {"max_tokens": "MAX_TOKENS", "refusal": "SAFETY"},
    "gemini_interactions": {"max_tokens": "incomplete", "tool_use": "requires_action"},
}

each_target = pytest.mark.parametrize("target", DIALECTS)


@each_target
@pytest.mark.parametrize("name", STREAMS)
def test_stream_is_clean_or_noted(name: str, target: str) -> None:
    stream, truth = STREAMS[name]
    for data, transcoder in transcode_each_line_end(stream, "gemini", target):
        got = see(target, data, extras=True)
        notes = {note.kind: note.count for note in transcoder.notes}
        assert notes.get("unfinished_arguments", 0) == truth.unfinished
        if truth.unfinished and got.failed:  # Gemini has no place for half a call
            assert not isinstance(transcoder.outcome, Completed)
            assert target == "gemini"
            continue
        assert isinstance(transcoder.outcome, Completed)
        assert transcoder.outcome.reason == truth.stop
        assert not got.failed
        assert (got.text, got.thoughts) == (truth.text, truth.thoughts)
        finished = [(name, json.loads(args)) for name, args in got.calls if is_json(args)]
        assert finished == truth.calls
        assert len(got.calls) - len(finished) <= truth.unfinished
        default = {"gemini": "STOP", "gemini_interactions": "completed"}.get(target)
        stops = STOPS.get(target)
        if not (truth.unfinished and target != "anthropic"):  # how they are written is theirs
            assert got.stop == (truth.stop if stops is None else stops.get(truth.stop, default))
        if truth.usage is not None:
            assert got.usage == truth.usage
            assert transcoder.usage == Usage(*truth.usage, reasoning_tokens=truth.usage[1])


@each_target
@pytest.mark.parametrize("name", BROKEN)
def test_broken_stream_is_not_completed(name: str, target: str) -> None:
    for data, transcoder in transcode_each_line_end(BROKEN[name], "gemini", target):
        got = see(target, data, extras=True)
        assert transcoder.outcome is not None
        assert not isinstance(transcoder.outcome, Completed)
        assert got.failed


def test_verbatim_output_shows_a_contradiction_as_an_error() -> None:
    """The original bytes before it are passed on; nothing behind it is."""
    for name in ("second answer spliced in", "one id for two arguments", "value within a string"):
        whole = b"".join(BROKEN[name])
        transcoder = Transcoder("gemini", "gemini")
        out = b"".join([*transcoder.feed(whole), *transcoder.close()])
        last = json.loads(out.removesuffix(b":").rstrip().splitlines()[-1].removeprefix(b"data: "))
        assert last["error"]["code"] == 500


def test_there_are_thirty_streams_and_more() -> None:
    assert len(STREAMS) + len(BROKEN) >= 30
