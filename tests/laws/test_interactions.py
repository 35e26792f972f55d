"""The real streams of Google's Interactions API, each in every dialect.

Other laws take a share of the real streams of a dialect, and these are few.
"""

from __future__ import annotations

import pytest
from msgspec import structs
from support.streams.content import (
    DIALECTS,
    PAGES,
    content_of,
    decode,
    expected_outcome,
    projected,
    transcode,
)
from support.streams.corpus import corpus, needs_corpus

from streamnorm import Block, Completed, Message, Reasoning, Text, ToolCall, accumulate
from streamnorm.validation import validate

OWN = "gemini_interactions"
TARGETS = (*DIALECTS, "bedrock_converse")


@needs_corpus
def test_there_are_real_streams() -> None:
    assert len(corpus(OWN)) >= 19


@needs_corpus
@pytest.mark.parametrize("target", TARGETS)
def test_real_streams_are_written_in_a_dialect(target: str) -> None:
    for stream in corpus(OWN):
        events, outcome, _ = decode([stream.body], OWN)
        passed, losses = projected(events, target, extras=target == OWN)
        out, run = transcode([stream.body], OWN, target)
        assert run.outcome == expected_outcome(outcome, passed), stream
        assert set(run.losses) == set(losses), stream
        back = decode([out], target)
        assert isinstance(back.outcome, Completed), stream
        assert content_of(back.events, target) == content_of(passed, target), stream
        assert validate(out, target) == [], stream


@needs_corpus
@pytest.mark.parametrize("through", [*(each for each in TARGETS if each != OWN), *PAGES])
def test_real_streams_come_back_from_a_dialect(through: str) -> None:
    """With texts, thoughts, their signatures, and calls byte for byte."""
    for stream in corpus(OWN):
        out, away = transcode([stream.body], OWN, through, reasoning="reasoning_details")
        again, back = transcode([out], through, OWN)
        assert isinstance(back.outcome, Completed), stream
        assert spoken(accumulate(decode([again], OWN).events)) == spoken(away.message), stream
        assert validate(again, OWN) == [], stream


def spoken(message: Message) -> list[Block]:
    """Return the blocks of a message that every dialect has, without citations."""
    return [
        structs.replace(block, citations=()) if isinstance(block, Text) else block
        for block in message.blocks
        if isinstance(block, Text | Reasoning | ToolCall)
    ]
