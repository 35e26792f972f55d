"""The laws of streams for Converse, whose events are messages of an AWS event stream.

Other laws walk dialects of server-sent events, whose bytes they damage by lines.
"""

from __future__ import annotations

import random
import re

import pytest
from hypothesis import given
from support.bedrock_converse.reader import message_of, read
from support.bedrock_converse.strategies import any_stream, make_converse_stream, text_stream
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
from support.streams.corpus import each_recording_of, recordings
from support.streams.event_strategies import event_streams
from support.streams.mutations import chunked, cut_anywhere
from support.streams.run_comparison import every_frame_in_full

from streamnorm import (
    Completed,
    Event,
    Failed,
    MessageStop,
    StreamError,
    Truncated,
    accumulate,
)
from streamnorm.recording import Recording
from streamnorm.validation import validate

CONVERSE = "bedrock_converse"
TARGETS = (*DIALECTS, CONVERSE)
COMPLETE = [
    each
    for each in recordings(CONVERSE)
    if isinstance(decode([each.body], CONVERSE).outcome, Completed)
]


def any_body(d: Draws) -> bytes:
    """Return a stream, legal or not, with damaged bytes or without."""
    body = b"".join(text_stream(d) if d.flag() else any_stream(d))
    if body and d.below(4) == 0:
        at = d.below(256) * 256 + d.below(256)
        at %= len(body)
        body = body[:at] + d.pick((b"", b"\x00", b"{", body[:40])) + body[at + d.below(3) :]
    return body


# Chunking, totality


@each_recording_of(CONVERSE)
def test_recording_decodes_the_same_in_any_chunking(recording: Recording) -> None:
    whole = decode([recording.body], CONVERSE)
    for size in (1, 2, 3, 5, 64):
        assert decode(chunked(recording.body, size), CONVERSE) == whole


@given(draws(600))
def test_any_stream_is_read_the_same_in_any_chunking(d: Draws) -> None:
    body = any_body(d)
    pieces = cut_anywhere(d, body)
    whole = decode([body], CONVERSE)
    assert decode(pieces, CONVERSE) == whole
    target = d.pick(TARGETS)
    verbatim = d.flag()
    out, run = transcode([body], CONVERSE, target, verbatim=verbatim)
    other, again = transcode(pieces, CONVERSE, target, verbatim=verbatim)
    assert other == out
    assert (again.outcome, again.losses, again.notes) == (run.outcome, run.losses, run.notes)


@given(draws(600))
def test_any_stream_gives_legal_events_and_one_outcome(d: Draws) -> None:
    events, outcome, _ = decode(cut_anywhere(d, any_body(d)), CONVERSE)
    errors = [number for number, each in enumerate(events) if isinstance(each, StreamError)]
    assert errors in ([], [len(events) - 1])
    assert isinstance(outcome, Failed | Truncated if errors else Completed)
    assert validate(events) == []


@given(draws(400))
def test_written_stream_ends_as_its_source_does(d: Draws) -> None:
    """A client takes the end of the bytes for success: a failure is an exception."""
    out, run = transcode([any_body(d)], CONVERSE, CONVERSE, verbatim=d.flag())
    assert (read_error(out) is None) == isinstance(run.outcome, Completed)


def read_error(data: bytes) -> str | None:
    found = decode([data], CONVERSE).outcome
    return None if isinstance(found, Completed) else "failed"


@given(draws(400))
def test_generated_stream_decodes_to_its_message(d: Draws) -> None:
    source = make_converse_stream(d)
    events, outcome, notes = decode(cut_anywhere(d, source.body), CONVERSE)
    assert isinstance(outcome, Completed)
    assert notes == ()
    found, (expected,) = accumulate(events), source.messages
    assert found.blocks == expected.blocks
    assert (found.stop_reason, found.raw_stop_reason) == (
        expected.stop_reason,
        expected.raw_stop_reason,
    )
    assert found.usage == source.usage
    assert message_of(read(source.body).events).stop_reason == expected.raw_stop_reason
    assert validate(source.body, CONVERSE) == []


# Fast and slow


@given(draws(600))
def test_fast_path_reads_what_the_slow_path_reads(d: Draws) -> None:
    pieces = cut_anywhere(d, any_body(d))
    target = d.pick(TARGETS)
    fast, fast_run = transcode(pieces, CONVERSE, target)
    events = decode(pieces, CONVERSE)
    with every_frame_in_full():
        slow, slow_run = transcode(pieces, CONVERSE, target)
        assert decode(pieces, CONVERSE) == events
    assert fast == slow
    assert fast_run.message == slow_run.message
    assert (fast_run.outcome, fast_run.losses) == (slow_run.outcome, slow_run.losses)


# Prefixes


@pytest.mark.parametrize("recording", COMPLETE, ids=lambda recording: recording.name)
def test_no_prefix_of_a_recording_completes_before_its_stop(recording: Recording) -> None:
    body = recording.body
    ends = recording.framing.layout.find_event_ends(body)
    stopped = next(
        at for at in ends if isinstance(decode([body[:at]], CONVERSE).outcome, Completed)
    )
    assert body[:stopped].count(b"messageStop") == 1
    for cut in range(0, len(body), 3):
        events, outcome, _ = decode([body[:cut]], CONVERSE)
        is_whole = cut == stopped or cut >= ends[-1]
        assert isinstance(outcome, Completed if is_whole else Truncated), cut
        assert any(isinstance(each, MessageStop) for each in events) == is_whole
        if not is_whole:
            out, _ = transcode([body[:cut]], CONVERSE, CONVERSE, verbatim=bool(cut % 2))
            assert read(out).error == "modelStreamErrorException", cut


# Damage


@each_recording_of(CONVERSE)
def test_changed_bit_is_found_and_nothing_behind_it_is_read(recording: Recording) -> None:
    """Every byte of a message is under a checksum; nobody reads a message whose byte is wrong."""
    body = recording.body
    ends = recording.framing.layout.find_event_ends(body)
    rng = random.Random(recording.name)  # noqa: S311 - a seed is the point
    for position in rng.sample(range(len(body)), 40):
        changed = bytearray(body)
        changed[position] ^= 1 << rng.randrange(8)
        before = max((end for end in ends if end <= position), default=0)
        expected = decode([body[:before]], CONVERSE)
        size = rng.choice((1, 50, 300, len(body)))
        events, outcome, _ = decode(chunked(bytes(changed), size), CONVERSE)
        if isinstance(expected.outcome, Failed):  # nothing is read behind an exception
            assert events == expected.events
            continue
        assert isinstance(outcome, Failed | Truncated), position
        kept = [each for each in expected.events if not isinstance(each, MessageStop | StreamError)]
        assert events[:-1] == kept, position
        for verbatim in (True, False):
            out, _ = transcode(chunked(bytes(changed), size), CONVERSE, CONVERSE, verbatim=verbatim)
            assert read(out).error == "modelStreamErrorException", position
            assert not verbatim or out.startswith(body[:before]), position


# Commutation with the projection


_NUMBER = re.compile(r'"contentBlockIndex": \d+')


def assert_commutes(pieces: list[bytes], source: str, target: str) -> None:
    events, outcome, _ = decode(pieces, source)
    out, run = transcode(pieces, source, target)
    passed, losses = projected(events, target, extras=source == target)
    assert run.outcome == expected_outcome(outcome, passed)
    assert {loss for loss in run.losses if loss.where != "failed stream"} == set(losses)
    if target == CONVERSE != source:  # which writes its own unknown blocks back, broken or not
        assert (read(out).error is None) == isinstance(run.outcome, Completed)
    if any(loss.feature == "held" for loss in run.losses):
        return
    back = decode([out], target)
    # Input of two objects passes as it came; a reader of Chat takes the second for another call's.
    if isinstance(back.outcome, Failed) and "second object" in back.outcome.error.message:
        return
    assert isinstance(back.outcome, Completed) == isinstance(run.outcome, Completed)
    got, wanted = content_of(back.events, target), content_of(passed, target)
    for content in (got, wanted):  # unknown deltas are numbered anew with their blocks
        content.opaques[:] = [_NUMBER.sub("", each) for each in content.opaques]
    # What waited for more of a block is gone where a stream failed; a text may overtake another.
    if isinstance(run.outcome, Completed) and not (overlaps(events) and target == "openai_chat"):
        assert with_sorted_blocks(got) == with_sorted_blocks(wanted)
        assert overlaps(events) or got == wanted


@each_recording_of(*DIALECTS, CONVERSE, arrays=True)
def test_recording_of_any_dialect_is_written(recording: Recording) -> None:
    assert_commutes([recording.body], str(recording.dialect), CONVERSE)


@pytest.mark.parametrize("target", DIALECTS)
@each_recording_of(CONVERSE)
def test_recording_is_written_in_any_dialect(recording: Recording, target: str) -> None:
    assert_commutes([recording.body], CONVERSE, target)


@pytest.mark.parametrize("target", TARGETS)
@given(d=draws(400))
def test_generated_stream_is_written_in_any_dialect(target: str, d: Draws) -> None:
    assert_commutes(any_stream(d) if d.flag() else text_stream(d), CONVERSE, target)


@given(event_streams())
def test_encoded_events_decode_to_the_projected_ones(events: list[Event]) -> None:
    passed, losses = projected(events, CONVERSE)
    out, counted = encode(events, CONVERSE)
    assert counted == losses
    back = decode([out], CONVERSE).events
    if not any(isinstance(each, StreamError) for each in passed):
        assert read(out).error is None
        got, wanted = content_of(back, CONVERSE), content_of(passed, CONVERSE)
        assert with_sorted_blocks(got) == with_sorted_blocks(wanted)
        assert overlaps(events) or got == wanted


# What real answers have, and what every encoder of a stream of arguments passes on.
_EXCUSED = re.compile(
    r"input of block \d+ in \d+ characters is no JSON object, expected one"
    # Of a message without a reason whose call was cut, or of a function that Google ran.
    r"|stopReason is end_turn with a toolUse of the client, expected tool_use"
)


@each_recording_of(*DIALECTS)
def test_written_stream_is_legal(recording: Recording) -> None:
    out, run = transcode([recording.body], str(recording.dialect), CONVERSE)
    if isinstance(run.outcome, Completed):
        found = [violation.message for violation in validate(out, CONVERSE)]
        assert [message for message in found if not _EXCUSED.fullmatch(message)] == []
