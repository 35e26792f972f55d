"""Whatever a part of a stream stores counts against a bound that ends the stream.

A stream that never ends grows in one place: a text, the arguments of a call, citations, events
of an unknown type, a field.  Either nothing is stored of it, or it ends in `too_large`; the peak
of the memory says which.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.operation_counts import KIB, peak
from support.streams.content import DIALECTS, PAGES
from support.streams.endless import ENDLESS_STREAMS, endless_stream
from support.streams.run_comparison import every_frame_in_full

from streamnorm import Completed, Failed, Limits, Outcome, Transcoder
from streamnorm.codec import decoder

BOUND = 32 * KIB
LIMITS = Limits(
    max_event_bytes=8 * KIB,
    max_blocks=32,
    max_tool_calls=32,
    max_choices=4,
    max_id_chars=64,
    max_held_bytes=BOUND,
    max_accumulated_bytes=BOUND,
    max_error_body_bytes=4 * KIB,
)
# Decoder, sequencer, encoder and message store a text once each, and twice while they join it.
# The rest is the objects of the largest events, and what coverage traces.
MOST = 10 * BOUND + 256 * KIB
# Of each text so much is read that what stores it would have more than `MOST`.
READ_BYTES = 2 * MOST
MOST_EVENTS = 20_000

TEXTS = ("ab", "a" * 60, "a" * 3000, "é" * 500)
JOINED = (1, 2, 7)


class Case(NamedTuple):
    """How an endless stream is read and written."""

    source: str
    name: str
    text: str
    target: str | None
    joined: int
    with_run: bool
    options: dict[str, Any]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Draw a stream, a target, and the options of both."""
    source, name = draw(st.sampled_from(sorted(ENDLESS_STREAMS)))
    others = ("gemini_interactions", "bedrock_converse", *PAGES)
    target = draw(st.sampled_from([None, *DIALECTS, *others]))
    options: dict[str, Any] = {}
    if target is not None:
        options = {
            "keep_message": draw(st.booleans()),
            "verbatim": draw(st.booleans()),
            "ordering": draw(st.sampled_from(["sequential", "interleaved"])),
            "reasoning": draw(st.sampled_from(["reasoning_content", "reasoning_details", None])),
        }
    options["think_tags"] = draw(st.booleans())
    text, joined = draw(st.sampled_from(TEXTS)), draw(st.sampled_from(JOINED))
    return Case(source, name, text, target, joined, draw(st.booleans()), options)


def reads(case: Case) -> Iterator[bytes]:
    """Yield the reads of an endless stream, as long as they are worth something."""
    events = endless_stream(case.source, case.name, case.text)
    size = 0
    for _ in range(MOST_EVENTS // case.joined):
        data = b"".join(islice(events, case.joined))
        yield data
        size += len(data)
        if size > READ_BYTES and len(case.text) > 2:
            return


def outcome_of(case: Case) -> tuple[Outcome | None, int]:
    """Return how a stream ended, None if it has not, and the peak of the memory that it took."""
    limited = {**case.options, "limits": LIMITS}
    run: Any
    if case.target is None:
        run = decoder(case.source, **limited)
    else:
        run = Transcoder(case.source, case.target, **limited)
    data = reads(case)
    for first in islice(data, 8):
        run.feed(first)

    def feed() -> None:
        for later in data:
            run.feed(later)
            if run.outcome is not None:
                return

    size = peak(feed)
    return run.outcome, size


def check(case: Case) -> None:
    """Check that a stream is stored within its bounds."""
    if case.with_run:
        outcome, size = outcome_of(case)
    else:
        with every_frame_in_full():
            outcome, size = outcome_of(case)
    assert size < MOST, f"{size // KIB} KiB of {case}"
    if case.name == "after_the_end":  # of which nothing is read
        assert isinstance(outcome, Completed), case
    elif outcome is not None:
        assert isinstance(outcome, Failed), case
        assert outcome.error.kind == "too_large", (outcome, case)


# One example feeds thousands of events, and each allocation of them is traced.
@settings(max_examples=max(8, settings().max_examples // 5))
@given(cases())
def test_what_is_stored_of_an_endless_stream_is_bounded(case: Case) -> None:
    check(case)


STORED_WITHOUT_A_MESSAGE = [
    *((source, "arguments", None) for source in ("anthropic", "openai_chat", "openai_responses")),
    *(("gemini_interactions", name, None) for name in ("arguments", "server_arguments")),
    *((source, "texts", "openai_responses") for source in DIALECTS),
    *((source, "texts", "gemini") for source in DIALECTS),
    *((source, "white_space", "anthropic") for source in DIALECTS),
    *(("anthropic", "citations", target) for target in ("openai_chat", "openai_responses")),
    ("anthropic", "held_compactions", None),
    *(("bedrock_converse", name, None) for name in ("results", "images", "redacted_pieces")),
    *(("bedrock_converse", name, None) for name in ("unknown_blocks", "metadata_before_the_stop")),
    *((source, "white_space", "bedrock_converse") for source in (*DIALECTS, "bedrock_converse")),
    ("openai_chat", "drifting_arguments", None),
    ("openai_chat", "signatures_of_calls", None),
    ("openai_responses", "events_of_an_unknown_item", None),
    ("gemini", "keys_of_arguments", None),
    ("gemini", "arguments", "gemini"),
]


@pytest.mark.parametrize(("source", "name", "target"), STORED_WITHOUT_A_MESSAGE)
def test_endless_stream_of_what_is_stored_ends_without_keep_message(
    source: str, name: str, target: str | None
) -> None:
    options = {} if target is None else {"keep_message": False, "verbatim": False}
    for text in ("a" * 60, "é" * 500):
        case = Case(source, name, text, target, 1, True, options)
        outcome, size = outcome_of(case)
        assert isinstance(outcome, Failed), case
        assert outcome.error.kind == "too_large"
        assert size < MOST


def test_comments_before_a_dialect_is_detected_are_bounded() -> None:
    """They are held, since they may have to be passed on."""
    run = Transcoder(None, "openai_chat", limits=LIMITS, keep_message=False)

    def feed() -> None:
        while run.outcome is None:
            run.feed(b": comment\n\n" * 100)

    assert peak(feed) < MOST
    assert isinstance(run.outcome, Failed)
    assert run.outcome.error.code == "max_held_bytes"


def test_white_space_of_a_body_is_bounded() -> None:
    """Which may yet be a stream in another format."""
    run = decoder("gemini", limits=LIMITS)

    def feed() -> None:
        run.feed(b"[")
        while run.outcome is None:
            run.feed(b" " * KIB)

    assert peak(feed) < MOST
    assert isinstance(run.outcome, Failed)
    assert run.outcome.error.code == "max_event_bytes"


@pytest.mark.parametrize("target", DIALECTS)
@pytest.mark.parametrize("source", DIALECTS)
def test_comment_that_never_ends_is_bounded(source: str, target: str) -> None:
    run = Transcoder(source, target, limits=LIMITS, keep_message=False)

    def feed() -> None:
        run.feed(b":")
        while run.outcome is None:
            run.feed(b"p" * KIB)

    assert peak(feed) < MOST
    assert isinstance(run.outcome, Failed)
    assert run.outcome.error.code == "max_event_bytes"
