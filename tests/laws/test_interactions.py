"""The laws of streams for Google's Interactions API, from every dialect and into every one.

Other laws walk the dialects that each have recordings of their own.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from support.bodies.samples import make_source
from support.draws import Draws, draws
from support.streams.content import (
    DIALECTS,
    content_of,
    decode,
    encode,
    expected_outcome,
    overlaps,
    projected,
    transcode,
    with_sorted_blocks,
)
from support.streams.corpus import needs_corpus, recordings
from support.streams.event_strategies import event_streams
from support.streams.mutations import chunked, cut_anywhere
from support.streams.run_comparison import every_frame_in_full

from streamnorm import Completed, Event, Failed, StreamError, Truncated, accumulate
from streamnorm.recording import Recording
from streamnorm.validation import validate

OWN = "gemini_interactions"
SOURCES = (*DIALECTS, "bedrock_converse")
INTERACTIONS = [
    each for each in recordings("gemini") if str(each.server).startswith("interactions")
]

# What real answers have, and what every encoder of a stream of arguments passes on.
_EXCUSED = {
    "anthropic/eager-input-is-no-json",
    "proxy/no-message-delta-in-arguments",
    "qianfan/cumulative-arguments",
    # A function that Google ran.
    "google/tools-of-the-server",
    # Steps and events of types that no client knows, on purpose.
    "interactions/agent-over-its-budget",
}


def corpus() -> dict[str, bytes]:
    """Return the real streams of the corpus by name."""
    folder = Path(os.environ["STREAMNORM_CORPUS"]) / "interactions"
    rows = map(json.loads, (folder / "INDEX.jsonl").read_text("utf-8").splitlines())
    return {row["file"]: (folder / row["file"]).read_bytes() for row in rows}


def assert_commutes(body: bytes, source: str, target: str, name: str) -> None:
    """Check that what is written reads as the projection of what was read."""
    events, outcome, _ = decode([body], source)
    out, run = transcode([body], source, target, verbatim=False)
    passed, losses = projected(events, target, extras=source == target)
    assert run.outcome == expected_outcome(outcome, passed), name
    assert {loss for loss in run.losses if loss.where != "failed stream"} == set(losses), name
    if any(loss.feature == "held" for loss in run.losses):
        return
    back = decode([out], target)
    assert isinstance(back.outcome, Completed) == isinstance(run.outcome, Completed), name
    got, wanted = content_of(back.events, target), content_of(passed, target)
    # What waited for more of a block is gone where a stream failed; a text may overtake another.
    if isinstance(run.outcome, Completed) and not (overlaps(events) and target == "openai_chat"):
        assert with_sorted_blocks(got) == with_sorted_blocks(wanted), name
        assert overlaps(events) or got == wanted, name


def test_there_are_interactions() -> None:
    assert len(INTERACTIONS) >= 9


@pytest.mark.parametrize("source", SOURCES)
def test_recordings_of_a_dialect_are_written(source: str) -> None:
    for recording in recordings(source):
        assert_commutes(recording.body, source, OWN, recording.name)


@pytest.mark.parametrize("target", [*SOURCES, OWN])
def test_recordings_are_written_in_a_dialect(target: str) -> None:
    for recording in INTERACTIONS:
        assert_commutes(recording.body, OWN, target, recording.name)


@needs_corpus
@pytest.mark.parametrize("target", [*SOURCES, OWN])
def test_real_streams_are_written_in_a_dialect(target: str) -> None:
    for name, body in corpus().items():
        assert_commutes(body, OWN, target, name)


@pytest.mark.parametrize("source", SOURCES)
def test_written_streams_are_legal(source: str) -> None:
    for recording in recordings(source):
        out, run = transcode([recording.body], source, OWN)
        if isinstance(run.outcome, Completed) and recording.name not in _EXCUSED:
            assert (recording.name, validate(out, OWN)) == (recording.name, [])


@pytest.mark.parametrize("source", DIALECTS)
def test_fast_path_writes_what_the_slow_path_writes(source: str) -> None:
    for recording in recordings(source):
        pieces = chunked(recording.body, 256)
        fast, run = transcode(pieces, source, OWN)
        with every_frame_in_full():
            slow, other = transcode(pieces, source, OWN)
        assert fast == slow, recording.name
        assert (run.outcome, run.losses) == (other.outcome, other.losses), recording.name


@given(draws(400))
def test_generated_stream_decodes_to_its_message(d: Draws) -> None:
    source = make_source(d, OWN)
    events, outcome, notes = decode(cut_anywhere(d, source.body), OWN)
    assert isinstance(outcome, Completed)
    assert notes == ()
    found, (expected,) = accumulate(events), source.messages
    assert (found.blocks, found.usage) == (expected.blocks, expected.usage)
    assert (found.stop_reason, found.raw_stop_reason) == (
        expected.stop_reason,
        expected.raw_stop_reason,
    )
    for target in (*SOURCES, OWN):
        assert_commutes(source.body, OWN, target, target)


@given(event_streams())
def test_encoded_events_decode_to_the_projected_ones(events: list[Event]) -> None:
    passed, losses = projected(events, OWN)
    out, counted = encode(events, OWN)
    assert counted == losses
    back = decode([out], OWN).events
    if not any(isinstance(each, StreamError) for each in passed):
        got, wanted = content_of(back, OWN), content_of(passed, OWN)
        assert with_sorted_blocks(got) == with_sorted_blocks(wanted)
        assert overlaps(events) or got == wanted


@pytest.mark.parametrize("recording", INTERACTIONS, ids=lambda recording: recording.name)
def test_no_prefix_of_a_written_stream_completes_before_its_end(recording: Recording) -> None:
    out, run = transcode([recording.body], OWN, OWN, verbatim=False)
    ends = [at for at in range(len(out)) if out.startswith(b"\n\n", at)]
    last = out.find(b"event: interaction.completed")
    for at in ends:
        outcome = decode([out[: at + 2]], OWN).outcome
        is_over = isinstance(run.outcome, Completed) and at > last
        kinds = (Completed,) if is_over else (Failed, Truncated)
        assert isinstance(outcome, kinds), at
