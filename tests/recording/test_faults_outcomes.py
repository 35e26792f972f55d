"""Outcomes of recordings of every dialect with injected faults."""

from __future__ import annotations

import pytest
from support.streams.content import DIALECTS
from support.streams.corpus import recordings
from support.streams.terminal_rules import terminal_was_read

from streamnorm import Completed, Event, Failed, Outcome, Truncated
from streamnorm._core.gate import Gate
from streamnorm.codec import decoder
from streamnorm.recording import Recording, faults
from streamnorm.recording.faults import Fault
from streamnorm.recording.format import Playback

COMPLETE = [
    recording
    for recording in recordings(*DIALECTS)
    if isinstance(recording.outcome, Completed) and recording.response.end == "eof"
]

whole = pytest.mark.parametrize("recording", COMPLETE, ids=lambda recording: recording.name)


def read(playback: Playback, server: str | None) -> tuple[list[Event], Outcome | None]:
    """Read an answer, as one who waits for ten minutes."""
    reader = decoder(playback.dialect, server=server)
    events: list[Event] = []
    for step in playback.steps:
        if step.stall_s > 600:
            return events + reader.abort(TimeoutError()), reader.outcome
        events += reader.feed(step.data)
    match playback.end:
        case "eof":
            events += reader.close()
        case "reset":
            events += reader.abort(ConnectionResetError())
        case "timeout":
            events += reader.abort(TimeoutError())
    return events, reader.outcome


def of_kind(recording: Recording, *kinds: str) -> list[Fault]:
    found = [fault for fault in faults.every(recording) if str(fault).partition("(")[0] in kinds]
    assert {str(fault).partition("(")[0] for fault in found} <= {*kinds}
    return found


@whole
def test_break_before_the_terminal_is_a_truncated_stream(recording: Recording) -> None:
    found = of_kind(recording, "cut", "stall")
    assert len(found) >= 4
    for fault in found:
        _, outcome = read(fault(recording.playback()), recording.server)
        assert isinstance(outcome, Truncated), fault
        kind = "transport" if str(fault).startswith("cut") else "stalled"
        assert outcome.error.kind == kind


@whole
def test_truncate_completes_only_after_the_terminal(recording: Recording) -> None:
    for fault in of_kind(recording, "truncate", "drop_terminal"):
        faulty = fault(recording.playback())
        _, outcome = read(faulty, recording.server)
        told = terminal_was_read(faulty.body, str(recording.dialect))
        assert isinstance(outcome, Completed if told else Truncated), fault
        if isinstance(outcome, Truncated):
            assert outcome.error.kind == "truncated"


@whole
def test_stream_without_its_terminal_is_never_complete_without_leniency(
    recording: Recording,
) -> None:
    for fault in of_kind(recording, "drop_terminal"):
        _, outcome = read(fault(recording.playback()), recording.server)
        assert not isinstance(outcome, Completed) or outcome.lenient


@whole
def test_error_event_is_the_providers_failure(recording: Recording) -> None:
    found = of_kind(recording, "error_event")
    assert len(found) >= 2
    for fault in found:
        _, outcome = read(fault(recording.playback()), recording.server)
        assert isinstance(outcome, Failed), fault
        status = 529 if recording.dialect == "anthropic" else 503
        assert (outcome.error.kind, outcome.error.retryable) == ("upstream", True)
        # The type of Chat Completions says "server", its code "overloaded".
        assert outcome.error.status_hint in (status, 529)


@whole
def test_crlf_bom_and_delays_change_no_event(recording: Recording) -> None:
    for fault in of_kind(recording, "crlf", "bom", "slow_first_byte", "content_type"):
        for rechunk in ("event", "hostile"):
            faulty = fault(recording.playback(rechunk))
            events, outcome = read(faulty, recording.server)
            assert events == recording.events(), fault
            assert outcome == recording.outcome


@whole
def test_error_response_is_found_by_the_gate(recording: Recording) -> None:
    found = of_kind(recording, "http")
    assert len(found) >= 3
    for fault in found:
        faulty = fault(recording.playback())
        judge_body = decoder(recording.dialect).judge_body
        gate = Gate(faulty.status, faulty.headers["content-type"], judge_body=judge_body)
        assert gate.feed(faulty.body) == b""
        gate.close()
        assert gate.error is not None
        assert (gate.error.kind, gate.error.status_hint) == ("upstream", faulty.status)
        # AWS says the type of an error in a header.
        assert gate.error.code or "x-amzn-errortype" in faulty.headers
        assert gate.error.retryable is (faulty.status >= 429)


@whole
def test_damage_never_raises_and_gives_one_outcome(recording: Recording) -> None:
    for fault in of_kind(recording, "garbage", "drop", "duplicate", "reorder"):
        for rechunk in ("event", "hostile"):
            _, outcome = read(fault(recording.playback(rechunk)), recording.server)
            assert outcome is not None
