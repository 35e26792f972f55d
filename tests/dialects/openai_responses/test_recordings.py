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
from streamnorm.codec import Decoder
from streamnorm.dialects.openai_responses import DIALECT
from streamnorm.dialects.openai_responses.decode import ResponsesDecoder
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


def comparable(events: list[Event]) -> list[Any]:
    """Return events without what is ours to choose: the words of our own errors."""
    return [
        {"event": "stream_error", "kind": event.kind}
        if isinstance(event, StreamError) and event.kind != "upstream"
        else msgspec.to_builtins(event)
        for event in events
    ]


def decode(recording: Recording, size: int = 1 << 20) -> tuple[list[Event], Decoder]:
    """Return the events of a recording that is read `size` bytes at a time."""
    source = ResponsesDecoder(server=recording.server)
    body = recording.body
    events = [e for at in range(0, len(body), size) for e in source.feed(body[at : at + size])]
    return events + source.close(), source


def test_there_are_recordings() -> None:
    assert len(RECORDINGS) >= 35


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
    match expected[-1]:
        case MessageStop(reason):
            usages = [event.usage for event in expected if isinstance(event, UsageUpdate)]
            usage = usages[-1] if usages else Usage()
            assert source.outcome == Completed(reason, usage, LENIENT.get(recording.name, ()))
        case StreamError("truncated"):
            assert isinstance(source.outcome, Truncated)
        case StreamError():
            assert isinstance(source.outcome, Failed)
        case last:
            pytest.fail(f"a stream ends in {last}")


@pytest.mark.parametrize("recording", RECORDINGS, ids=str)
def test_notes_tell_what_was_forgiven(recording: Recording) -> None:
    """A fault of a compatible server leaves a note, and the vendor's own stream none."""
    _, source = decode(recording)
    assert {note.kind for note in source.notes} == NOTES.get(recording.name, set())


@pytest.mark.parametrize("recording", RECORDINGS, ids=str)
def test_dialect_is_found_out(recording: Recording) -> None:
    frames = SSEDecoder().feed(recording.body + b"\n\n")
    named = [DIALECT.recognises(frame) for frame in frames]
    # An error before the start could be anybody's.
    assert any(named[:2]) or recording.name == "proxy/error-first"


@pytest.mark.parametrize("recording", RECORDINGS, ids=str)
def test_companion_says_that_nobody_sent_it(recording: Recording) -> None:
    assert (recording.provenance, recording.dialect) == ("written", "openai_responses")
    assert recording.path is not None
    assert recording.server == recording.path.parent.name
