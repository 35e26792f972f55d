"""Every output passes the strict validator of its dialect, whatever server the source is from.

`validate` shares nothing with decoders and encoders.  The excused violations come from the
source and no encoder may repair them; each is listed with its reason, and must still occur.
"""

from __future__ import annotations

import re
from functools import cache

import pytest
from support.streams.content import DIRECTIONS
from support.streams.corpus import corpus, needs_corpus, recordings

from streamnorm import Completed, Transcoder
from streamnorm.validation import validate

EXCUSED = {
    r"(input of block|arguments of [a-z ]+) \d+ in \d+ characters (is|are) no JSON .*": (
        "arguments pass byte for byte, those too that were cut or never were an object"
    ),
    r"(content_block\.|delta\.|step\.|event_|)type is unknown in \d+ characters, .*": (
        "events that the dialect does not know yet go out as they came"
    ),
    r"stop_reason is end_turn with a tool_use block, expected tool_use": (
        "a call whose arguments were cut, or that was answered at once, is not to be executed"
    ),
    r"status is completed with a call of the client, expected requires_action": (
        "a call whose arguments were cut, or that was answered at once, is not to be executed"
    ),
    r".*\.logprob is (missing|null), expected a number": "NaN, which JSON cannot have",
    r"(response\.)?usage\.(completion|output)_tokens_details has \d+ tokens, .*": (
        "some providers count more reasoning than output"
    ),
    r"item\.(action|role) is missing, expected .*": (
        "items of the provider's own go out as they came, those too that lack a field"
    ),
    r"item\.status is a string of 9 characters, expected completed or .*": (
        "a search that is done and still searches"
    ),
    r"(candidates|usageMetadata).* is an integer, expected (a string|MODALITY_UNSPECIFIED or .*)": (
        "numbers for words, as Google sends them to those who ask for that"
    ),
    r".*\.safetyRatings\[\d\]\.category is missing, expected a string": (
        "what Google says of safety goes out as it came"
    ),
    r"(usageMetadata\.totalTokenCount|usage\.total_tokens) is \d+, expected \d+": (
        "Google's own total, where it is another than the sum"
    ),
}


ONE_IN = {"openai_chat": 8, "anthropic": 4}
"""Sampling of the real streams of a dialect with many of one kind: one in so many."""


@cache
def violations(source: str, target: str, *, real: bool) -> dict[str, str]:
    """Return the violations in the output, each with a stream that shows it."""
    found: dict[str, str] = {}
    streams = corpus(source)[:: ONE_IN.get(source, 1)] if real else recordings(source)
    for stream in streams:
        transcoder = Transcoder(source, target, verbatim=False)
        out = b"".join(transcoder.feed(stream.body) + transcoder.close())
        if isinstance(transcoder.outcome, Completed):
            found |= {violation.message: stream.name for violation in validate(out, target)}
    return found


def unexplained(found: dict[str, str]) -> dict[str, str]:
    return {
        message: name
        for message, name in found.items()
        if not any(re.fullmatch(pattern, message) for pattern in EXCUSED)
    }


@pytest.mark.parametrize(("source", "target"), DIRECTIONS)
def test_output_for_recordings_passes_the_strict_validator(source: str, target: str) -> None:
    assert unexplained(violations(source, target, real=False)) == {}


@needs_corpus
@pytest.mark.parametrize(("source", "target"), DIRECTIONS)
def test_output_for_real_streams_passes_the_strict_validator(source: str, target: str) -> None:
    assert unexplained(violations(source, target, real=True)) == {}


@needs_corpus
def test_every_excused_violation_still_occurs() -> None:
    found = [
        message
        for direction in DIRECTIONS
        for real in (False, True)
        for message in violations(*direction, real=real)
    ]
    stale = [
        pattern
        for pattern in EXCUSED
        if not any(re.fullmatch(pattern, message) for message in found)
    ]
    assert stale == []
