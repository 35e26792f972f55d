"""Recorded streams and their expected events."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from streamnorm import Event
from streamnorm.codec import decoder
from streamnorm.recording import Recording
from streamnorm.validation import validate

FOLDER = Path(__file__).parents[3] / "recordings" / "openai_chat"
RECORDINGS = [Recording.load(path) for path in sorted(FOLDER.glob("*/*.sse"))]


def comparable(events: list[Event], minted: frozenset[int] = frozenset()) -> list[Any]:
    """Return events without what is ours to choose: minted ids, and our own words."""
    plain = []
    for event in events:
        value = msgspec.to_builtins(event)
        if value["event"] == "block_start" and value["index"] in minted:
            value["block"]["id"] = "*"
        if value["event"] == "stream_error" and value["kind"] != "upstream":
            value = {"event": "stream_error", "kind": value["kind"]}
        plain.append(value)
    return plain


def minted(events: list[Event]) -> frozenset[int]:
    """Return the blocks whose id stands as `*`."""
    starts = [msgspec.to_builtins(event) for event in events]
    return frozenset(
        value["index"]
        for value in starts
        if value["event"] == "block_start" and value["block"].get("id") == "*"
    )


def test_there_are_recordings() -> None:
    assert len(RECORDINGS) >= 20


@pytest.mark.parametrize("recording", RECORDINGS, ids=str)
@pytest.mark.parametrize("size", [1, 3, 64, 1 << 20], ids="{}-byte".format)
def test_decodes_as_expected(recording: Recording, size: int) -> None:
    source = decoder(recording.dialect, server=recording.server)
    body = recording.body
    events = [e for at in range(0, len(body), size) for e in source.feed(body[at : at + size])]
    events += source.close()
    expected = recording.expected
    anonymous = minted(expected)
    assert comparable(events, anonymous) == comparable(expected, anonymous)
    assert validate(events) == []


@pytest.mark.parametrize("recording", RECORDINGS, ids=str)
def test_dialect_is_detected(recording: Recording) -> None:
    named, unnamed = decoder(recording.dialect), decoder()
    events = unnamed.feed(recording.body) + unnamed.close()
    assert events == named.feed(recording.body) + named.close()
    assert unnamed.outcome == named.outcome
    assert unnamed.notes == named.notes
    assert unnamed.dialect == recording.dialect


@pytest.mark.parametrize("recording", RECORDINGS, ids=str)
def test_companion_states_provenance_and_server(recording: Recording) -> None:
    assert (recording.provenance, recording.dialect) == ("written", "openai_chat")
    assert recording.server == recording.path.parent.name
