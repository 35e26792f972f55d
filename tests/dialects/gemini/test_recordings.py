"""Every recording gives the events that were written down beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from streamnorm import (
    Completed,
    Event,
    Failed,
    MessageStop,
    Recording,
    StreamError,
    Truncated,
    Usage,
    UsageUpdate,
    validate,
)
from streamnorm.dialects.gemini.decode import GeminiDecoder

FOLDER = Path(__file__).parents[3] / "recordings" / "gemini"
PATHS = [*FOLDER.glob("*/*.sse"), *FOLDER.glob("*/*.body.json")]
RECORDINGS = [Recording.load(path) for path in sorted(PATHS)]

LENIENT = {"code-assist/wrapped": ("unterminated",)}

NOTES = {
    "code-assist/wrapped": {"unterminated"},
    "google/calls-without-arguments": {"minted_id"},
    "google/code-execution": {"minted_id"},
    "google/signed-call": {"minted_id"},
    "google/tools-of-the-server": {"minted_id"},
    "proxy/lf-and-done": {"stray_done"},
    "vertex/partial-arguments": {"minted_id"},
    "vertex/partial-arguments-in-one-chunk": {"minted_id"},
}

FINISHES_EARLY = {
    "google/code-execution",
    "google/tools-of-the-server",
    "vertex/finish-on-every-chunk",
}
"""What says that it ends, and goes on."""


def comparable(events: list[Event]) -> list[Any]:
    """Return events without what is ours to choose: the words of our own errors."""
    return [
        {"event": "stream_error", "kind": event.kind}
        if isinstance(event, StreamError) and event.kind != "upstream"
        else msgspec.to_builtins(event)
        for event in events
    ]


def decode(recording: Recording, size: int = 1 << 20) -> tuple[list[Event], GeminiDecoder]:
    """Return the events of a recording that is read `size` bytes at a time."""
    source = GeminiDecoder(server=recording.server)
    body = recording.body
    events = [e for at in range(0, len(body), size) for e in source.feed(body[at : at + size])]
    return events + source.close(), source


def test_there_are_recordings() -> None:
    assert len(RECORDINGS) >= 30


@pytest.mark.parametrize("recording", RECORDINGS, ids=str)
@pytest.mark.parametrize("size", [1, 3, 64, 1 << 20], ids="{}-byte".format)
def test_decodes_as_written_down(recording: Recording, size: int) -> None:
    events, _ = decode(recording, size)
    assert comparable(events) == comparable(recording.expected)
    assert validate(events) == []


@pytest.mark.parametrize("recording", RECORDINGS, ids=str)
def test_outcome_is_what_the_last_event_says(recording: Recording) -> None:
    _, source = decode(recording)
    expected = recording.expected
    stops = [event for event in expected if isinstance(event, MessageStop)]
    match expected[-1]:
        case MessageStop():
            usages = [event.usage for event in expected if isinstance(event, UsageUpdate)]
            usage = usages[-1] if usages else Usage()
            reason, lenient = stops[0].reason, LENIENT.get(recording.name, ())
            assert source.outcome == Completed(reason, usage, lenient)
        case StreamError("truncated"):
            assert isinstance(source.outcome, Truncated)
        case StreamError():
            assert isinstance(source.outcome, Failed)
        case last:
            pytest.fail(f"a stream ends in {last}")


@pytest.mark.parametrize("recording", RECORDINGS, ids=str)
def test_notes_tell_what_was_forgiven(recording: Recording) -> None:
    _, source = decode(recording)
    assert {note.kind for note in source.notes} == NOTES.get(recording.name, set())


@pytest.mark.parametrize("recording", RECORDINGS, ids=str)
def test_companion_says_that_nobody_sent_it(recording: Recording) -> None:
    assert (recording.provenance, recording.dialect) == ("written", "gemini")
    assert recording.path is not None
    assert recording.server == recording.path.parent.name


SUCCESSES = [
    recording
    for recording in RECORDINGS
    if isinstance(recording.expected[-1], MessageStop) and recording.name not in FINISHES_EARLY
]


@pytest.mark.parametrize("recording", SUCCESSES, ids=str)
def test_stream_that_is_cut_is_no_success(recording: Recording) -> None:
    body = recording.body
    finish = max(body.rfind(b'"finishReason"'), body.rfind(b'"blockReason"'))
    for end in range(0, finish, 7):
        source = GeminiDecoder()
        source.feed(body[:end])
        source.close()
        assert isinstance(source.outcome, Truncated | Failed)
