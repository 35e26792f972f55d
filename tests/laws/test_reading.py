"""Laws of decoders: chunking, totality, grammar.

And the law of every generator: a generated stream decodes to its message.
"""

from __future__ import annotations

import pytest
from hypothesis import example, given
from support.bodies.samples import any_body, make_source
from support.draws import Draws, draws, with_half_the_examples
from support.openai_chat.strategies import agrees
from support.streams.content import DIALECTS, Decoded, decode
from support.streams.corpus import each_recording_of
from support.streams.generated import has_same_messages
from support.streams.mutations import chunked, cut_anywhere

from streamnorm import Completed, Failed, StreamError, Truncated, accumulate, message_events
from streamnorm.recording import Recording
from streamnorm.validation import validate

SIZES = (1, 2, 3, 5, 64)

each_dialect = pytest.mark.parametrize("dialect", DIALECTS)


def assert_total(decoded: Decoded) -> None:
    events, outcome, _ = decoded
    errors = [number for number, event in enumerate(events) if isinstance(event, StreamError)]
    assert errors in ([], [len(events) - 1])
    assert isinstance(outcome, Failed | Truncated if errors else Completed)
    assert validate(events) == []


@each_recording_of(*DIALECTS, arrays=True)
def test_recording_decodes_the_same_in_any_chunking(recording: Recording) -> None:
    whole = decode([recording.body], recording.dialect)
    for size in SIZES:
        assert decode(chunked(recording.body, size), recording.dialect) == whole


@each_dialect
@with_half_the_examples
@given(d=draws(500))
def test_any_stream_decodes_the_same_in_any_chunking(dialect: str, d: Draws) -> None:
    body = any_body(d, dialect)
    pieces = cut_anywhere(d, body)
    assert decode(pieces, dialect) == decode([body], dialect)
    assert decode(pieces, None) == decode([body], None)


@each_dialect
@with_half_the_examples
@given(d=draws(500))
@example(d=Draws(b""))
def test_any_bytes_give_legal_events_and_one_outcome(dialect: str, d: Draws) -> None:
    body = any_body(d, dialect)
    for named in (*DIALECTS, None):
        assert_total(decode(cut_anywhere(d, body), named))


@each_recording_of(*DIALECTS, arrays=True)
def test_decoded_events_are_legal(recording: Recording) -> None:
    assert_total(decode([recording.body], recording.dialect))


@each_recording_of(*DIALECTS, arrays=True)
def test_message_of_a_recording_equals_that_of_its_message_events(recording: Recording) -> None:
    """Law 7; its generated messages are in `core/test_accumulate.py`."""
    message = accumulate(decode([recording.body], recording.dialect).events)
    assert accumulate(message_events(message)) == message


@each_dialect
@with_half_the_examples
@given(d=draws(320))
def test_generated_stream_decodes_to_its_message(dialect: str, d: Draws) -> None:
    source = make_source(d, dialect)
    decoded = decode([source.body], dialect)
    assert_total(decoded)
    # Servers of Chat Completions may name a call too late.
    same = agrees if dialect == "openai_chat" else has_same_messages
    assert same(source, decoded.events)
    outcome = decoded.outcome
    assert isinstance(outcome, Completed)
    assert outcome.reason == source.messages[0].stop_reason
    assert outcome.usage == source.usage
    assert set(outcome.lenient) == set(source.lenient)
    assert decode(source.frames, dialect) == decode([source.body], None) == decoded
