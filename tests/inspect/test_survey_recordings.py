"""A survey of each recording: the same in any chunks, and what a transcoder loses and writes."""

from __future__ import annotations

from support.streams.corpus import each_recording
from support.streams.mutations import chunked
from support.streams.surveys import survey

from streamnorm import Transcoder
from streamnorm.inspect import Survey, list_writable_dialects
from streamnorm.inspect.report import Report
from streamnorm.recording import Recording


def report_of(recording: Recording, targets: list[str], chunks: list[bytes]) -> Report:
    return survey(*chunks, dialect=recording.dialect, targets=targets, server=recording.server)


@each_recording
def test_report_does_not_depend_on_the_chunks(recording: Recording) -> None:
    body, targets = recording.body, list_writable_dialects()
    whole = report_of(recording, targets, [body])
    assert whole == report_of(recording, targets, chunked(body, 5))
    assert whole.bytes == len(body)
    assert whole.outcome is not None


@each_recording
def test_losses_are_those_of_a_transcoder(recording: Recording) -> None:
    for target in list_writable_dialects():
        run = Transcoder(recording.dialect, target, server=recording.server)
        run.feed(recording.body)
        run.close()
        seen = report_of(recording, [target], [recording.body])
        assert seen.losses == {target: run.losses}


@each_recording
def test_written_bytes_are_those_of_a_transcoder(recording: Recording) -> None:
    target = "anthropic" if recording.dialect != "anthropic" else "openai_responses"
    framing = recording.framing
    run = Survey(recording.dialect, targets=[target], server=recording.server, framing=framing)
    events = [*run.feed(recording.body).events, *run.close().events]
    transcoder = Transcoder(recording.dialect, target, server=recording.server, framing=framing)
    expected = [*transcoder.feed(recording.body), *transcoder.close()]
    assert b"".join(event.written[target] for event in events) == b"".join(expected)
