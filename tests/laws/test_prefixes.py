"""No prefix of a stream passes for the whole."""

from __future__ import annotations

import pytest
from hypothesis import given
from support.bodies.samples import make_source
from support.draws import Draws, draws, with_half_the_examples
from support.streams.client_readings import ends_in_error
from support.streams.content import DIALECTS, PAGES, decode, transcode
from support.streams.corpus import recordings
from support.streams.terminal_rules import cuts, terminal_was_read

from streamnorm import Completed, MessageStart, MessageStop, Ping, Truncated
from streamnorm.codec import decoder
from streamnorm.recording import Recording

COMPLETE = [
    recording
    for recording in recordings(*DIALECTS, arrays=True)
    if isinstance(decode([recording.body], recording.dialect).outcome, Completed)
]


@pytest.mark.parametrize("recording", COMPLETE, ids=lambda recording: recording.name)
def test_prefix_of_a_recording_completes_only_after_its_terminal(recording: Recording) -> None:
    body, dialect = recording.body, str(recording.dialect)
    for cut in cuts(recording.name, body)[::4]:
        events, outcome, _ = decode([body[:cut]], dialect)
        whole = terminal_was_read(body[:cut], dialect)
        assert isinstance(outcome, Completed if whole else Truncated), cut
        assert any(isinstance(event, MessageStop) for event in events) == whole


@pytest.mark.parametrize("recording", COMPLETE, ids=lambda recording: recording.name)
def test_prefix_of_a_recording_is_never_written_as_complete(recording: Recording) -> None:
    body, source = recording.body, str(recording.dialect)
    ways = [*((target, False) for target in (*DIALECTS, *PAGES)), (source, True)]
    for number, cut in enumerate(cuts(recording.name, body, 0)[::7]):
        target, verbatim = ways[number % len(ways)]
        out, run = transcode([body[:cut]], source, target, verbatim=verbatim)
        if terminal_was_read(body[:cut], source):
            assert not isinstance(run.outcome, Truncated), (cut, target)
        else:
            assert isinstance(run.outcome, Truncated), (cut, target)
            assert ends_in_error(out, target, foreign=True), (cut, target)


@pytest.mark.parametrize("dialect", DIALECTS)
@with_half_the_examples
@given(d=draws(300))
def test_prefix_of_frames_gives_a_prefix_of_the_events(dialect: str, d: Draws) -> None:
    stream = make_source(d, dialect)
    whole = decode(stream.frames, dialect).events
    for count in range(len(stream.frames)):
        reader = decoder(dialect)
        events = [event for frame in stream.frames[:count] for event in reader.feed(frame)]
        assert events == whole[: len(events)]
        said = [event for event in events if not isinstance(event, Ping)]
        assert isinstance(said[0], MessageStart) if said else count < 2


@pytest.mark.parametrize("dialect", DIALECTS)
@with_half_the_examples
@given(d=draws(320))
def test_generated_stream_completes_only_after_its_terminal(dialect: str, d: Draws) -> None:
    stream = make_source(d, dialect)
    for count in range(len(stream.frames)):
        body = b"".join(stream.frames[:count])
        outcome = decode([body], dialect).outcome
        assert not isinstance(outcome, Completed) or terminal_was_read(body, dialect)
