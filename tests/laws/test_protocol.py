"""What is written is legal by the letter of its protocol, whatever server it came from.

The judge is `validate`, which shares nothing with decoders and encoders.  What it finds all
the same is what the source said and no encoder may mend; each kind stands here with its
reason, and one that no stream shows any more is stale.
"""

from __future__ import annotations

import re
from functools import cache

import pytest
from corpus import corpus, needs_corpus, recordings

from streamnorm import Completed, Transcoder, validate

SAID_BY_THE_SOURCE = {
    r"(input of block|arguments of tool call) \d+ in \d+ characters (is|are) no JSON object, .*": (
        "arguments pass byte for byte, those too that were cut or never were an object"
    ),
    r"(content_block\.|delta\.|)type is unknown in \d+ characters, .*": (
        "events that the dialect does not know yet go out as they came"
    ),
    r"stop_reason is end_turn with a tool_use block, expected tool_use": (
        "a call whose arguments were cut is not to be executed"
    ),
    r".*\.logprob is (missing|null), expected a number": "NaN, which JSON cannot have",
    r"usage\.completion_tokens_details has \d+ tokens, expected at most \d+": (
        "some providers count more reasoning than output"
    ),
}


WAYS = [
    (source, target)
    for source in ("anthropic", "openai_chat")
    for target in ("anthropic", "openai_chat")
]


@cache
def departures(source: str, target: str, *, real: bool) -> dict[str, str]:
    """Return each departure of what is written, and a stream that it was written for."""
    found: dict[str, str] = {}
    for stream in corpus(source) if real else recordings(source):
        transcoder = Transcoder(source, target, verbatim=False)
        out = b"".join(transcoder.feed(stream.body) + transcoder.close())
        if isinstance(transcoder.outcome, Completed):
            found |= {violation.message: stream.name for violation in validate(out, target)}
    return found


def unexplained(found: dict[str, str]) -> dict[str, str]:
    return {
        message: name
        for message, name in found.items()
        if not any(re.fullmatch(pattern, message) for pattern in SAID_BY_THE_SOURCE)
    }


@pytest.mark.parametrize(("source", "target"), WAYS)
def test_what_is_written_of_recordings_is_legal(source: str, target: str) -> None:
    assert unexplained(departures(source, target, real=False)) == {}


@needs_corpus
@pytest.mark.parametrize(("source", "target"), WAYS)
def test_what_is_written_of_real_streams_is_legal(source: str, target: str) -> None:
    assert unexplained(departures(source, target, real=True)) == {}


@needs_corpus
def test_no_reason_is_stale() -> None:
    found = [
        message for way in WAYS for real in (False, True) for message in departures(*way, real=real)
    ]
    stale = [
        pattern
        for pattern in SAID_BY_THE_SOURCE
        if not any(re.fullmatch(pattern, message) for message in found)
    ]
    assert stale == []
