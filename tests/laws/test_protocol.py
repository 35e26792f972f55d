"""Every output passes the strict validator of its dialect, whatever server the source is from.

`validate` shares nothing with decoders and encoders.  The excused violations come from the
source; each must still occur.
"""

from __future__ import annotations

import re
from functools import cache

import pytest
from support.streams.content import DIRECTIONS
from support.streams.corpus import corpus, needs_corpus, recordings
from support.streams.violations import EXCUSED, is_excused

from streamnorm import Completed, Transcoder
from streamnorm.validation import validate

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
    return {message: name for message, name in found.items() if not is_excused(message)}


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
