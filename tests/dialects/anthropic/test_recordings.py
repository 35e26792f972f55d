"""Every recording gives the events in its companion file."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.recordings import assert_outcome, comparable, decode

from streamnorm import Recording, decoder, validate

FOLDER = Path(__file__).parents[3] / "recordings" / "anthropic"
RECORDINGS = [Recording.load(path) for path in sorted(FOLDER.glob("*/*.sse"))]

GENUINE = frozenset({"anthropic", "bedrock", "vertex"})
"""Servers that run the vendor's own code: their streams give no notes."""

LENIENT = {
    "anthropic/last-event-unterminated": ("unterminated",),
    "proxy/missing-message-stop": ("no_message_stop",),
    "proxy/no-message-delta": ("no_finish",),
    "proxy/no-message-delta-in-arguments": ("no_finish",),
}

NOTES = {
    "minimax/text-repeated": "resent_text",
    "proxy/deltas-of-closed-and-unknown-blocks": "misplaced_delta",
    "proxy/index-reused": "reused_index",
    "proxy/missing-block-stops": "missing_block_stop",
    "sglang/text-at-the-index-of-a-tool": "misplaced_delta",
}


def test_there_are_recordings() -> None:
    assert len(RECORDINGS) >= 70


@pytest.mark.parametrize("recording", RECORDINGS, ids=str)
@pytest.mark.parametrize("size", [1, 3, 64, 1 << 20], ids="{}-byte".format)
def test_decodes_as_recorded(recording: Recording, size: int) -> None:
    events, _ = decode(recording, size)
    assert comparable(events) == comparable(recording.expected)
    assert validate(events) == []


@pytest.mark.parametrize("recording", RECORDINGS, ids=str)
def test_outcome_is_what_the_last_event_says(recording: Recording) -> None:
    assert_outcome(recording, LENIENT.get(recording.name, ()))


@pytest.mark.parametrize("recording", RECORDINGS, ids=str)
def test_deviation_leaves_a_note(recording: Recording) -> None:
    """Streams of compatible servers leave notes, those of the vendor none."""
    _, source = decode(recording)
    kinds = {note.kind for note in source.notes}
    if recording.server in GENUINE:
        assert kinds == set(LENIENT.get(recording.name, ()))
    elif recording.name in NOTES:
        assert NOTES[recording.name] in kinds


@pytest.mark.parametrize("recording", RECORDINGS, ids=str)
def test_dialect_is_detected(recording: Recording) -> None:
    named, unnamed = decoder(recording.dialect), decoder()
    events = unnamed.feed(recording.body) + unnamed.close()
    assert events == named.feed(recording.body) + named.close()
    assert unnamed.outcome == named.outcome
    assert unnamed.notes == named.notes
    assert unnamed.dialect == recording.dialect


@pytest.mark.parametrize("recording", RECORDINGS, ids=str)
def test_companion_declares_the_recording_as_written(recording: Recording) -> None:
    assert (recording.provenance, recording.dialect) == ("written", "anthropic")
    assert recording.server == recording.path.parent.name
