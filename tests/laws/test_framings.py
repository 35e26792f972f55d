"""The laws of streams over recordings in another framing than that of their dialect."""

from __future__ import annotations

import pytest
from support.bedrock.chunks import invoked, sse_of
from support.bedrock.recorded import RECORDINGS, make_recording
from support.streams.corpus import recordings

from streamnorm import Completed, Failed, MessageStop, Truncated
from streamnorm._registry import DIALECTS
from streamnorm._transcoder import Transcoder
from streamnorm.codec import INVOKE_CHUNKS, decoder
from streamnorm.recording import Recording
from streamnorm.validation import validate

FRAMED = {
    each.name.partition("/")[2]: each
    for each in recordings("anthropic", framings=True)
    if each.framing is INVOKE_CHUNKS
}

each_framed = pytest.mark.parametrize("recording", FRAMED.values(), ids=FRAMED)


def test_recordings_are_those_of_the_script() -> None:
    assert FRAMED.keys() == RECORDINGS.keys()
    for name, found in FRAMED.items():
        made = make_recording(name)
        assert (found.body, found.reads) == (made.body, made.reads)
        assert (found.request, found.response) == (made.request, made.response)
        events = [item for item in RECORDINGS[name] if not isinstance(item, bytes)]
        assert invoked(found.body).events == events


@each_framed
def test_no_recording_breaks_a_rule(recording: Recording) -> None:
    assert validate(recording.body, "anthropic", framing=INVOKE_CHUNKS) == []


@each_framed
@pytest.mark.parametrize("how", ["recorded", "event", "byte", "hostile", "random:5"])
def test_chunks_do_not_matter(recording: Recording, how: str) -> None:
    reader = decoder("anthropic", framing=INVOKE_CHUNKS)
    events = [event for data in recording.chunks(how) for event in reader.feed(data)]
    assert events + reader.close() == recording.expected
    assert reader.outcome == recording.outcome


@each_framed
def test_no_prefix_passes_for_the_whole(recording: Recording) -> None:
    for cut in range(len(recording.body)):
        reader = decoder("anthropic", framing=INVOKE_CHUNKS)
        events = reader.feed(recording.body[:cut]) + reader.close()
        assert isinstance(reader.outcome, Truncated), cut
        assert not any(isinstance(event, MessageStop) for event in events)
    assert isinstance(recording.outcome, Completed | Failed)


@each_framed
@pytest.mark.parametrize("target", [name for name, known in DIALECTS.items() if known.encoder])
def test_framing_does_not_change_what_is_written(recording: Recording, target: str) -> None:
    lines = sse_of(invoked(recording.body).events)
    from_lines = Transcoder("anthropic", target, verbatim=False)
    from_chunks = Transcoder("anthropic", target, verbatim=False, framing=INVOKE_CHUNKS)
    expected = b"".join(from_lines.feed(lines))
    found = b"".join(from_chunks.feed(recording.body))
    assert found.startswith(expected)
    if isinstance(recording.outcome, Completed):
        assert found == expected
        assert from_chunks.losses == from_lines.losses
