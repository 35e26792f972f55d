"""Recordings whose body is a JSON array of chunks: played, rechunked and with faults."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest
from support.recording.comparison import comparable
from support.recording.outcomes import outcome

from streamnorm import Completed, iter_events
from streamnorm.codec import decoder
from streamnorm.recording import Recording, faults
from streamnorm.transports.httpx import ReplayTransport

FOLDER = Path(__file__).parents[2] / "recordings" / "gemini" / "google"
ARRAYS = [Recording.load(path) for path in sorted(FOLDER.glob("*.body.json"))]
each_array = pytest.mark.parametrize("recording", ARRAYS, ids=str)


@each_array
@pytest.mark.parametrize("how", ["recorded", "event", "byte", "hostile", "random:1", 7])
def test_array_is_played_in_any_chunks(recording: Recording, how: str | int) -> None:
    answer = recording.playback(how)
    reader = decoder("gemini")
    events = [event for step in answer.steps for event in reader.feed(step.data)]
    assert comparable(events + reader.close()) == comparable(recording.expected)


@each_array
def test_replayed_array_is_a_stream(recording: Recording) -> None:
    assert recording.request is not None
    assert recording.path is not None
    with (
        httpx.Client(transport=ReplayTransport(recording.path)) as client,
        client.stream("POST", recording.request.url, json=recording.request.body) as response,
    ):
        events = list(iter_events(response, errors="yield"))
    assert comparable(events) == comparable(recording.expected)


@each_array
def test_fault_never_completes_a_broken_array(recording: Recording) -> None:
    whole = isinstance(outcome(recording.playback()), Completed)
    found = list(faults.every(recording))
    assert {type(fault) for fault in found} >= {type(faults.cut(byte=0))}
    for fault in found:
        for how in ("recorded", "hostile"):
            spoilt = fault(recording.playback(how))
            if spoilt.body != recording.body:
                assert not isinstance(outcome(spoilt), Completed), fault
            elif spoilt.end == "eof":
                assert isinstance(outcome(spoilt), Completed) == whole


@each_array
def test_event_faults_do_not_fit_an_array(recording: Recording) -> None:
    for fault in (
        faults.error_event(event=0),
        faults.drop(event=0),
        faults.duplicate(event=0),
        faults.reorder(event=0),
        faults.drop_terminal(),
        faults.cut(event=0),
    ):
        with pytest.raises(ValueError, match=r"body|no terminal in 0 events"):
            fault(recording.playback())
