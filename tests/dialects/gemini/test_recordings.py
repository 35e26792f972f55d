"""Every recording gives the events that were written down beside it."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.recordings import assert_outcome, comparable, decode

from streamnorm import (
    Failed,
    MessageStop,
    Recording,
    Truncated,
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
    "interactions/agent-over-its-budget": {"missing_block_stop"},
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
    assert_outcome(recording, LENIENT.get(recording.name, ()))


@pytest.mark.parametrize("recording", RECORDINGS, ids=str)
def test_notes_name_what_was_forgiven(recording: Recording) -> None:
    _, source = decode(recording)
    assert {note.kind for note in source.notes} == NOTES.get(recording.name, set())


@pytest.mark.parametrize("recording", RECORDINGS, ids=str)
def test_companion_marks_the_recording_as_written(recording: Recording) -> None:
    assert (recording.provenance, recording.dialect) == ("written", "gemini")
    assert recording.path is not None
    assert recording.server == recording.path.parent.name


SUCCESSES = [
    recording
    for recording in RECORDINGS
    if isinstance(recording.expected[-1], MessageStop) and recording.name not in FINISHES_EARLY
]


@pytest.mark.parametrize("recording", SUCCESSES, ids=str)
def test_cut_stream_is_never_completed(recording: Recording) -> None:
    body = recording.body
    ends = (b'"finishReason"', b'"blockReason"', b"event: interaction.complete")
    finish = max(map(body.rfind, ends))
    assert finish > 0
    for end in range(0, finish, 7):
        source = GeminiDecoder()
        source.feed(body[:end])
        source.close()
        assert isinstance(source.outcome, Truncated | Failed)
