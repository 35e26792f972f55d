"""Laws of encoders: illegal events, and round trips.

The output is read twice: by our decoder, and by the independent clients.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from support.draws import Draws, draws, with_half_the_examples
from support.streams.client_readings import assert_client_has
from support.streams.content import (
    DIALECTS,
    ENCODER_OPTIONS,
    content_of,
    decode,
    encode,
    overlaps,
    projected,
    with_sorted_blocks,
)
from support.streams.corpus import each_recording_of
from support.streams.event_strategies import make_stream

from streamnorm import (
    BlockStart,
    Event,
    LocalProtocolError,
    Ping,
    RedactedReasoning,
    SignatureDelta,
)
from streamnorm._core.text import read_carrier
from streamnorm.codec import encoder
from streamnorm.recording import Recording
from streamnorm.validation import validate

each_dialect = pytest.mark.parametrize("dialect", DIALECTS)


@each_dialect
@with_half_the_examples
@given(d=draws())
def test_encoder_refuses_exactly_the_illegal_streams(dialect: str, d: Draws) -> None:
    events: list[Event] = make_stream(d, failing=True)
    for _ in range(d.below(3)):
        at = d.below(len(events) + 1)
        events[at : at + d.below(2)] = [d.pick([*events, Ping()])] if d.flag() else []
    legal = [violation for violation in validate(events) if violation.position < len(events)] == []
    writer = encoder(dialect)
    try:
        for event in events:
            writer.encode(event)
    except LocalProtocolError:
        assert not legal
    else:
        assert legal


def assert_comes_back(events: list[Event], dialect: str, options: dict[str, Any]) -> None:
    """Check law 4: the encoded events are the projected ones, with the same losses."""
    passed, losses = projected(events, dialect, **options)
    out, counted = encode(events, dialect, **options)
    assert tuple(loss for loss in counted if loss.where != "failed stream") == losses
    got, wanted = (
        content_of(each, dialect, **options) for each in (decode([out], dialect).events, passed)
    )
    if carries(passed) and overlaps(events):
        # Reasoning that carries the signature of a held block precedes all held blocks.
        assert with_sorted_blocks(got) == with_sorted_blocks(wanted)
        for choice, message in wanted.messages.items():
            assert got.messages[choice].tool_calls == message.tool_calls
        return
    assert got == wanted
    assert_client_has(out, passed, dialect, **options)


def carries(events: list[Event]) -> bool:
    """Return whether there are blocks that only carry the signatures of others."""
    signed = [event for event in events if isinstance(event, SignatureDelta)]
    return any(read_carrier(event.signature) is not None for event in signed)


def redacts(events: list[Event], issuer: str) -> bool:
    """Return whether there is reasoning that only one issuer can read."""
    blocks = [event.block for event in events if isinstance(event, BlockStart)]
    return any(isinstance(block, RedactedReasoning) and block.issuer == issuer for block in blocks)


@each_dialect
@with_half_the_examples
@given(d=draws(300))
def test_encoded_events_decode_to_the_projected_ones(dialect: str, d: Draws) -> None:
    choices = 1 + d.below(3)
    options = d.pick(ENCODER_OPTIONS[dialect])
    assert_comes_back(make_stream(d, choices, calls_only=True), dialect, options)


@each_recording_of(*DIALECTS)
def test_encoded_recording_decodes_to_the_projected_events(recording: Recording) -> None:
    events = decode([recording.body], recording.dialect).events
    for dialect in DIALECTS:
        for options in ENCODER_OPTIONS[dialect]:
            assert_comes_back(events, dialect, {**options, "extras": dialect == recording.dialect})


@each_dialect
@with_half_the_examples
@given(d=draws(300))
def test_events_without_losses_round_trip(dialect: str, d: Draws) -> None:
    events = make_stream(d, 1 + d.below(2), calls_only=True)
    out, losses = encode(events, dialect, reasoning="reasoning_details")
    passed, _ = projected(events, dialect, reasoning="reasoning_details")
    # What a vendor redacted is to itself reasoning without text, with a signature.
    vendor = {"gemini": "google", "openai_responses": "openai"}.get(dialect)
    is_signature = vendor is not None and redacts(events, vendor)
    if not (
        {loss.feature for loss in losses} - {"usage_unknown"} or carries(passed) or is_signature
    ):
        back = decode([out], dialect).events
        assert content_of(back, dialect) == content_of(events, dialect)


@given(draws(300))
def test_overlapping_texts_round_trip_in_any_order(d: Draws) -> None:
    """A text may overtake another that has only white space so far."""
    events = make_stream(d)
    out, counted = encode(events, "anthropic")
    passed, losses = projected(events, "anthropic")
    assert counted == losses
    back = decode([out], "anthropic").events
    assert with_sorted_blocks(content_of(back, "anthropic")) == with_sorted_blocks(
        content_of(passed, "anthropic")
    )
