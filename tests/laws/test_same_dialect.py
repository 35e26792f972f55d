"""The laws for transcoding to the same dialect: verbatim and re-encoded."""

from __future__ import annotations

import re
from itertools import accumulate as running_join
from typing import Any

import pytest
from hypothesis import given
from support.bodies.samples import any_body, make_source
from support.draws import Draws, draws, with_half_the_examples
from support.streams.chunkings import events_of
from support.streams.content import DIALECTS, content_of, decode, projected, transcode
from support.streams.corpus import each_recording_of
from support.streams.mutations import chunked, cut_anywhere

from streamnorm import Completed, Failed, Message, StreamError, accumulate
from streamnorm.codec import decoder
from streamnorm.recording import Recording

each_dialect = pytest.mark.parametrize("dialect", DIALECTS)

# Fields of a chunk or of its choice that are written only once.
MOVED = {"created", "service_tier"}

_BOM = b"\xef\xbb\xbf"
_EVENT_END = re.compile(rb"(\r\n|\r|\n)(\r\n|\r|\n)\Z")

ERRORS = {
    "anthropic": b"event: error\n",
    "openai_chat": b'data: {"error":',
    "openai_responses": b"event: error\n",
    "gemini": b'data: {"error":',
    "gemini_interactions": b"event: error\n",
}
"""First bytes of an appended error."""


def assert_verbatim(body: bytes, out: bytes, dialect: str) -> None:
    """Check that a stream is unchanged, or its whole events followed by an error where it broke."""
    body = body.decode(errors="replace").encode()
    reader = decoder(dialect)
    events = reader.feed(body) + reader.close()
    last = events[-1]
    is_upstream = isinstance(last, StreamError) and last.kind == "upstream"
    told_itself = is_upstream and not reader.error_outside_stream
    if not isinstance(last, StreamError) or told_itself:
        assert out == body
        return
    start = out.rindex(ERRORS[dialect])
    (told,) = decode([out[start:]], dialect).events
    assert isinstance(told, StreamError)
    assert told.message == last.message
    before = out[:start]
    if reader.is_body:
        assert not before.strip(b" \t\r\n\xef\xbb\xbf")  # nor what begins a byte order mark
        return
    assert body.startswith(before)
    # A client reads all of it, and then the error: what the decoder refuses is withheld.
    assert not any(isinstance(event, StreamError) for event in decoder(dialect).feed(before))
    # A CR ends its event before the LF behind it is known; blank lines are no events, nor is
    # a byte order mark.
    before = before.removeprefix(_BOM)
    *whole, _ = [b"", *running_join(events_of(body.removeprefix(_BOM) + b"x"))]
    kept = [events.rstrip(b"\r\n") for events in whole]
    assert before.rstrip(b"\r\n") in kept
    assert not before.strip(b"\r\n") or _EVENT_END.search(before)
    if last.kind == "truncated":
        assert before.rstrip(b"\r\n") == kept[-1]


@each_recording_of(*DIALECTS)
def test_recording_passes_unchanged_to_its_own_dialect(recording: Recording) -> None:
    dialect, body = str(recording.dialect), recording.body
    for named in (dialect, None):
        for size in (len(body), 3, 64):
            out, run = transcode(chunked(body, size), named, dialect, verbatim=True)
            if run.dialect != dialect:  # an error alone may be anybody's
                assert named is None
                assert isinstance(decode([out], dialect).outcome, Failed)
                continue
            assert_verbatim(body, out, dialect)
            assert run.outcome == decode([body], dialect).outcome
            assert run.message == accumulate(decode([body], dialect).events)
            assert run.losses == ()


@each_dialect
@with_half_the_examples
@given(d=draws(320))
def test_generated_stream_passes_unchanged_to_its_own_dialect(dialect: str, d: Draws) -> None:
    stream = make_source(d, dialect)
    out, _ = transcode(cut_anywhere(d, stream.body), dialect, dialect, verbatim=True)
    assert out == stream.body


@each_dialect
@with_half_the_examples
@given(d=draws(500))
def test_damaged_stream_passes_unchanged_with_an_error_appended(dialect: str, d: Draws) -> None:
    body = any_body(d, dialect)
    pieces = cut_anywhere(d, body)
    out, run = transcode(pieces, dialect, dialect, verbatim=True)
    assert_verbatim(body, out, dialect)
    assert run.outcome == decode(pieces, dialect).outcome


def beside(message: Message) -> list[Any]:
    """Return the vendor fields of the message that no other event holds."""
    kept = [
        {key: value for key, value in (extra or {}).items() if key not in MOVED}
        for extra in (message.extra, message.stop_extra, message.usage.extra)
    ]
    return [*kept, *message.block_extras]


def _of(got: dict[str, Any] | None, wanted: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return the wanted fields of those present."""
    return None if got is None or wanted is None else {key: got.get(key) for key in wanted}


@each_recording_of(*DIALECTS, arrays=True)
def test_reencoded_recording_has_the_same_content(recording: Recording) -> None:
    dialect = str(recording.dialect)
    events, outcome, _ = decode([recording.body], dialect)
    out, run = transcode([recording.body], dialect, dialect, reasoning="reasoning_details")
    passed, losses = projected(events, dialect, reasoning="reasoning_details", extras=True)
    back = decode([out], dialect)
    assert content_of(back.events, dialect) == content_of(passed, dialect)
    assert isinstance(back.outcome, Completed) == isinstance(outcome, Completed)
    assert set(losses) == {loss for loss in run.losses if loss.where != "failed stream"}
    if isinstance(outcome, Completed):
        assert back.outcome is not None
        assert getattr(back.outcome, "lenient", ()) == ()
        got, wanted = beside(accumulate(back.events)), beside(accumulate(passed))
        if dialect == "openai_responses":  # where items have ids, and responses all fields
            got = [_of(one, other) for one, other in zip(got, wanted, strict=True)]
        assert got == wanted


@each_dialect
@with_half_the_examples
@given(d=draws(320))
def test_reencoding_is_legal_and_idempotent(dialect: str, d: Draws) -> None:
    """No fault of the server is passed on, so that nothing is left to forgive."""
    stream = make_source(d, dialect)
    once, first = transcode(stream.frames, dialect, dialect, reasoning="reasoning_details")
    if dialect == "gemini" and isinstance(first.outcome, Failed):
        # Its server finished all the same, with arguments that are no object.
        assert first.outcome.error.code == "MALFORMED_FUNCTION_CALL"
        return
    events, outcome, notes = decode([once], dialect)
    # Gemini gives no names to what it runs itself.
    minted = {("minted_id", "server tool call")} if dialect == "gemini" else set()
    unfinished = {("unfinished_arguments", "tool call")}  # which the source left so
    assert {(note.kind, note.where) for note in notes} <= minted | unfinished
    assert isinstance(outcome, Completed)
    assert outcome.lenient == ()
    again, run = transcode([once], dialect, dialect, reasoning="reasoning_details")
    assert content_of(decode([again], dialect).events, dialect) == content_of(events, dialect)
    assert {loss.feature for loss in run.losses} <= {"usage_unknown"}
