"""Hostile Chat Completions streams for clients of every dialect, which share none of our code.

Each stream is clean at its client, or told as failed; a call whose arguments never ended is
noted, and no client can take it for a whole one.
"""

from __future__ import annotations

import pytest
from support.bodies.json_values import value_or_text
from support.openai_chat.adversarial import BROKEN, CLEAN, UNFINISHED, Truth
from support.streams.mutations import chunked
from support.streams.seen import DIALECTS, Seen, see

from streamnorm import Completed, Transcoder

ENDS = {
    "anthropic": {"other": "end_turn"},
    "openai_chat": {
        "tool_use": "tool_calls",
        "end_turn": "stop",
        "other": "stop",
        "max_tokens": "length",
    },
    "openai_responses": {"max_tokens": "max_output_tokens"},
    "gemini": {"max_tokens": "MAX_TOKENS", "other": "OTHER"},
    "gemini_interactions": {"max_tokens": "incomplete", "tool_use": "requires_action"},
}
DEFAULT_ENDS: dict[str, str | None] = {
    "openai_responses": None,
    "gemini": "STOP",
    "gemini_interactions": "completed",
}


each_target = pytest.mark.parametrize("target", DIALECTS)
each_chunking = pytest.mark.parametrize("size", [None, 1], ids=["frames", "bytes"])
each_newline = pytest.mark.parametrize("newline", [b"\n", b"\r\n"], ids=["lf", "crlf"])


def run(
    frames: list[bytes], target: str, size: int | None, newline: bytes
) -> tuple[Seen, Transcoder]:
    transcoder = Transcoder("openai_chat", target, verbatim=False)
    frames = [frame.replace(b"\n", newline) for frame in frames]
    pieces = frames if size is None else chunked(b"".join(frames), size)
    out = [data for piece in pieces for data in transcoder.feed(piece)]
    data = b"".join(out + transcoder.close())
    return see(target, data, extras=target == "openai_chat"), transcoder


def assert_seen(seen: Seen, truth: Truth, target: str) -> None:
    assert (seen.text, seen.thoughts) == (truth.text, truth.thoughts)
    default = DEFAULT_ENDS.get(target, truth.stop)
    assert seen.stop == ENDS[target].get(truth.stop, default)
    assert not seen.failed


@each_target
@each_chunking
@each_newline
@pytest.mark.parametrize("name", CLEAN)
def test_stream_becomes_the_expected_message(
    name: str, newline: bytes, size: int | None, target: str
) -> None:
    frames, truth = CLEAN[name]
    seen, transcoder = run(frames, target, size, newline)
    assert_seen(seen, truth, target)
    assert [(name, value_or_text(text)) for name, text in seen.calls] == truth.calls
    assert isinstance(transcoder.outcome, Completed)
    assert "unfinished_arguments" not in {note.kind for note in transcoder.notes}


@each_target
@each_chunking
@each_newline
@pytest.mark.parametrize("name", BROKEN)
def test_stream_that_contradicts_itself_fails(
    name: str, newline: bytes, size: int | None, target: str
) -> None:
    seen, transcoder = run(BROKEN[name], target, size, newline)
    assert not isinstance(transcoder.outcome, Completed)
    assert seen.failed


@each_target
@each_chunking
@each_newline
@pytest.mark.parametrize("name", UNFINISHED)
def test_unfinished_call_is_noted_and_never_whole(
    name: str, newline: bytes, size: int | None, target: str
) -> None:
    frames, truth = UNFINISHED[name]
    seen, transcoder = run(frames, target, size, newline)
    unfinished = [note for note in transcoder.notes if note.kind == "unfinished_arguments"]
    assert [note.count for note in unfinished] == [len(truth.unfinished)]
    calls = [(name, value_or_text(text)) for name, text in seen.calls]
    assert [call for call in calls if not isinstance(call[1], str)] == truth.calls
    broken = [name for name, arguments in calls if isinstance(arguments, str)]
    assert broken in ([], truth.unfinished)
    if not seen.failed:  # Gemini has no place for such a call
        assert_seen(seen, truth, target)


def test_there_are_enough_streams() -> None:
    assert len(CLEAN) + len(BROKEN) + len(UNFINISHED) >= 50
