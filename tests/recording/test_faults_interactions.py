"""Faults of the streams of Google's Interactions API, which end and fail in their own way."""

from __future__ import annotations

import json

import pytest
from support.recording.outcomes import outcome
from support.streams.corpus import recordings

from streamnorm import Completed, Failed, StreamError
from streamnorm.recording import Recording, faults
from streamnorm.recording.format import Companion

INTERACTIONS = recordings("gemini_interactions")
each_interaction = pytest.mark.parametrize("recording", INTERACTIONS, ids=str)
FIRST = b'event: interaction.created\ndata: {"event_type":"interaction.created"}\n\n'
BODY = FIRST + (
    b'event: interaction.completed\ndata: {"event_type":"interaction.completed"}\n\n'
    b"event: done\ndata: [DONE]\n\n"
)


def test_overload_is_an_error_event_of_the_interactions_api() -> None:
    faulty = faults.error_event(event=1)(Recording(BODY, Companion(1, "gemini")).playback())
    assert faulty.body.startswith(FIRST)
    name, data = faulty.body[len(FIRST) :].decode().rstrip("\n").split("\n")
    assert name == "event: error"
    assert json.loads(data.removeprefix("data: ")) == {
        "error": {"code": "service_unavailable", "message": "overloaded, injected as a fault"},
        "event_type": "error",
    }
    assert isinstance(end := outcome(faulty), Failed)
    assert (end.error.status_hint, end.error.retryable) == (503, True)


def test_drop_terminal_removes_interaction_end_and_done() -> None:
    faulty = faults.drop_terminal()(Recording(BODY, Companion(1, "gemini")).playback())
    assert faulty.body == FIRST


@each_interaction
def test_break_never_completes_a_broken_interaction(recording: Recording) -> None:
    breaks = {"cut", "truncate", "error_event", "drop_terminal"}
    found = [fault for fault in faults.every(recording) if fault.name in breaks]
    assert len(found) >= 8
    for fault in found:
        assert not isinstance(outcome(fault(recording.playback("hostile"))), Completed), fault
    assert isinstance(recording.expected[-1], StreamError) != isinstance(
        outcome(recording.playback()), Completed
    )
