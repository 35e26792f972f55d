"""Recordings give the events that stand beside them."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.recordings import assert_outcome, comparable, decode

from streamnorm import (
    Recording,
    validate,
)
from streamnorm.dialects.openai_responses import DIALECT
from streamnorm.sse import SSEDecoder

FOLDER = Path(__file__).parents[3] / "recordings" / "openai_responses"
RECORDINGS = [Recording.load(path) for path in sorted(FOLDER.glob("*/*.sse"))]

LENIENT = {"openai/last-event-unterminated": ("unterminated",)}

NOTES = {
    "azure/incomplete-filter": {"missing_item_done"},
    "copilot/ids-rotate": set[str](),
    "llamacpp/no-numbers": set[str](),
    "openai/last-event-unterminated": {"unterminated"},
    "openrouter/overlap-and-done": {"no_event_line"},
    "proxy/constant-numbers": set[str](),
    "proxy/deltas-without-items": {"missing_item", "missing_item_done"},
    "proxy/gaps-and-resends": {"gap", "resent_event"},
}


def test_there_are_recordings() -> None:
    assert len(RECORDINGS) >= 35


@pytest.mark.parametrize("recording", RECORDINGS, ids=str)
@pytest.mark.parametrize("size", [1, 3, 64, 1 << 20], ids="{}-byte".format)
def test_decodes_as_expected(recording: Recording, size: int) -> None:
    events, _ = decode(recording, size)
    assert comparable(events) == comparable(recording.expected)
    assert validate(events) == []


@pytest.mark.parametrize("recording", RECORDINGS, ids=str)
def test_outcome_agrees_with_the_last_event(recording: Recording) -> None:
    assert_outcome(recording, LENIENT.get(recording.name, ()))


@pytest.mark.parametrize("recording", RECORDINGS, ids=str)
def test_notes_are_those_expected(recording: Recording) -> None:
    """A deviation of a compatible server leaves a note, the vendor's stream none."""
    _, source = decode(recording)
    assert {note.kind for note in source.notes} == NOTES.get(recording.name, set())


@pytest.mark.parametrize("recording", RECORDINGS, ids=str)
def test_dialect_is_detected(recording: Recording) -> None:
    frames = SSEDecoder().feed(recording.body + b"\n\n")
    named = [DIALECT.recognises(frame) for frame in frames]
    # An error before the start could be anybody's.
    assert any(named[:2]) or recording.name == "proxy/error-first"


@pytest.mark.parametrize("recording", RECORDINGS, ids=str)
def test_companion_says_that_nobody_sent_it(recording: Recording) -> None:
    assert (recording.provenance, recording.dialect) == ("written", "openai_responses")
    assert recording.path is not None
    assert recording.server == recording.path.parent.name
