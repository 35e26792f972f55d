"""Signatures survive a round trip through another dialect, and never look like its own.

Clients of a transcoded stream send its signatures back, and each must reach its issuer byte
for byte.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pytest
from support.streams.content import DIALECTS, decode, transcode
from support.streams.corpus import corpus, each_recording_of, needs_corpus
from support.streams.signatures import carried_back

from streamnorm import (
    BlockStart,
    Completed,
    Event,
    Reasoning,
    RedactedReasoning,
    Text,
    ToolCall,
    accumulate,
)
from streamnorm.recording import Recording

VENDORS = {
    "anthropic": "anthropic",
    "openai_chat": "",
    "openai_responses": "openai",
    "gemini": "google",
    "gemini_interactions": "google",
    "bedrock_converse": "anthropic",  # whose signatures pass from one platform to another
}

Signed = Counter[tuple[bool, str, str, str | None]]


def signatures(events: list[Event]) -> Signed:
    """Count by whether it is reasoning that may not be seen, id of a call, signature, issuer.

    Of text or reasoning before it is the same: OpenRouter has Gemini's of a text on reasoning.
    """
    choices = {event.choice for event in events if isinstance(event, BlockStart)}
    found: Signed = Counter()
    for choice in choices:
        for block in carried_back(accumulate(events, choice=choice)).blocks:
            match block:
                case Text() | Reasoning() | ToolCall() if block.signature is not None:
                    id = block.id if isinstance(block, ToolCall) else ""
                    found[False, id, block.signature, block.issuer] += 1
                case RedactedReasoning(data, issuer):
                    found[True, "", data, issuer] += 1
                case _:
                    pass
    return found


def assert_survives(body: bytes, source: str, through: str, server: str | None) -> bool:
    """Check a round trip, and return whether there was a signature."""
    there = decode([body], source, server=server)
    signed = signatures(there.events)
    if not signed or not isinstance(there.outcome, Completed):
        return False
    field = {"reasoning": "reasoning_details"}
    out, away = transcode([body], source, through, server=server, **field)
    again, back = transcode([out], through, source, **field)
    lost = count_lost((*away.losses, *back.losses))
    left = signed - signatures(decode([again], source, server=server).events)
    # Of the vendor whose dialect it goes through it comes back as what that vendor sends.
    left -= Counter({key: n for key, n in left.items() if is_own(key, through)})
    assert left.total() == lost, left
    for _, _, signature, issuer in signed:
        if issuer != VENDORS[through] and VENDORS[through]:
            assert f'"{signature}"'.encode() not in out
    return True


def is_own(key: tuple[bool, str, str, str | None], through: str) -> bool:
    return key[0] and key[3] == VENDORS[through]


def count_lost(losses: Iterable[object]) -> int:
    return sum(
        getattr(loss, "count", 0)
        for loss in losses
        if getattr(loss, "feature", "") in ("signature", "redacted_reasoning", "choices")
    )


TRIPS = [(source, through) for source in DIALECTS for through in VENDORS if source != through]


@each_recording_of(*VENDORS)
def test_signatures_of_a_recording_survive_a_round_trip(recording: Recording) -> None:
    source = recording.dialect
    assert source is not None
    for through in VENDORS:
        if through != source:
            assert_survives(recording.body, source, through, recording.server)


@needs_corpus
@pytest.mark.parametrize(("source", "through"), TRIPS)
def test_signatures_of_real_streams_survive_a_round_trip(source: str, through: str) -> None:
    carried = [
        assert_survives(stream.body, source, through, stream.provider)
        for stream in corpus(source)[::3]
    ]
    assert any(carried)
