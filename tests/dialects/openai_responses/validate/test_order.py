"""Strict validator of Responses streams: event order, names, sequence numbers, ends."""

from __future__ import annotations

import json

import pytest
from support.openai_responses.violations import (
    CALL,
    CREATED,
    ERROR,
    IN_PROGRESS,
    NESTED,
    QUEUED,
    REASONING,
    TEXT,
    USAGE,
    Event,
    answer,
    call,
    changed,
    cut,
    edited,
    event,
    failed,
    reasoning,
    sse,
    text,
    with_more,
    without,
)

from streamnorm.validation import Violation, validate

DONE = "data: [DONE]\n\n"
KEEPALIVE = {"type": "keepalive"}
RESUMED = [changed(value, "sequence_number", to=n) for n, value in enumerate(TEXT, 7)]

LEGAL: dict[str, list[Event | str]] = {
    "text": TEXT,
    "call": CALL,
    "reasoning": REASONING,
    "everything": answer(*reasoning(0, "A", "B"), *text(1), *call(2), *call(3)),
    "no item": answer(),
    "queued": with_more(TEXT, 1, QUEUED),
    "created while it waits": [QUEUED | {"type": "response.created"}, *TEXT[1:]],
    "no response.in_progress": edited(TEXT, 1),
    "[DONE] last": [*TEXT, DONE],
    "resumed, with its first event": RESUMED,
    "keepalives": with_more(with_more(TEXT, 5, KEEPALIVE), 1, KEEPALIVE),
    "keepalive without a number of its own": [
        *RESUMED[:6],
        {**KEEPALIVE, "sequence_number": 12},
        *RESUMED[6:],
    ],
    "audio": with_more(
        TEXT, 2, event("audio.delta", delta="AA=="), event("audio.transcript.delta", delta="a")
    ),
    "incomplete": cut(*text()),
    "no token cached": edited(
        TEXT,
        9,
        "response",
        "usage",
        "input_tokens_details",
        to={
            "cached_tokens": 0,
            "cache_write_tokens": 0,
        },
    ),
    "all tokens cached, all reasoned": edited(
        edited(TEXT, 9, "response", "usage", "input_tokens_details", "cached_tokens", to=7),
        *(9, "response", "usage", "output_tokens_details", "reasoning_tokens"),
        to=5,
    ),
    "failed": [CREATED, failed()],
    "failed with items open, and tokens": [*TEXT[:5], failed(usage=USAGE)],
    "error first": [ERROR],
    "error as the API sends it": [*TEXT[:5], NESTED],
    "error, then the failure": [*TEXT[:5], {**ERROR, **NESTED}, failed(), DONE],
    "error first, then the failure": [ERROR, failed()],
    "error, then [DONE]": [ERROR, DONE],
}


@pytest.mark.parametrize("events", LEGAL.values(), ids=LEGAL)
def test_legal_stream_has_no_violation(events: list[Event | str]) -> None:
    assert validate(sse(*events), "openai_responses") == []


BROKEN: dict[str, tuple[list[Event | str], int, str]] = {
    # Names
    "no event line": (
        [*TEXT[:-1], "data: " + json.dumps({**dict(TEXT[9]), "sequence_number": 9}) + "\n\n"],
        *(9, "no event line, or one that says message, expected response.completed"),
    ),
    "another event line": (
        [ERROR, sse(failed()).decode().replace("failed\n", "completed\n", 1).replace(": 0", ": 1")],
        *(1, "event line says response.completed, expected response.failed"),
    ),
    "no type": (
        with_more(TEXT, 9, "event: ping\ndata: {}\n\n"),
        *(9, "type is missing, expected a string"),
    ),
    "type of another kind": (
        with_more(TEXT, 9, 'event: ping\ndata: {"type": ["ping"]}\n\n'),
        *(9, "type is an array, expected a string"),
    ),
    "unknown event": (
        with_more(TEXT, 5, event("metadata")),
        *(5, "type is unknown in 17 characters, expected one of the protocol"),
    ),
    "no JSON": (
        with_more(TEXT, 9, "event: error\ndata: {\n\n"),
        *(9, "no JSON in 1 characters, expected an object"),
    ),
    # Numbers
    "no number": (
        with_more(TEXT, 5, 'event: keepalive\ndata: {"type": "keepalive"}\n\n'),
        *(5, "sequence_number is missing, expected an integer from 0"),
    ),
    "number of another kind": (
        with_more(
            TEXT, 5, 'event: keepalive\ndata: {"type": "keepalive", "sequence_number": "5"}\n\n'
        ),
        *(5, "sequence_number is a string of 1 characters, expected an integer from 0"),
    ),
    "gap in the numbers": (
        [
            *RESUMED[:3],
            *(changed(value, "sequence_number", to=n) for n, value in enumerate(RESUMED[3:], 20)),
        ],
        *(3, "sequence_number is 20, expected 10"),
    ),
    "same number twice": (
        [*RESUMED[:9], changed(RESUMED[9], "sequence_number", to=15)],
        *(9, "sequence_number is 15, expected 16"),
    ),
    # The start
    "response.created missing": (
        TEXT[1:],
        *(0, "response.in_progress comes first, expected response.created"),
    ),
    "response.created late": (
        [IN_PROGRESS, CREATED, *TEXT[2:]],
        *(0, "response.in_progress comes first, expected response.created"),
    ),
    "keepalive first": (
        [KEEPALIVE, *TEXT],
        *(0, "keepalive comes first, expected response.created"),
    ),
    "failure first": ([failed()], 0, "response.failed comes first, expected response.created"),
    "response.created twice": (
        with_more(TEXT, 1, CREATED),
        1,
        "second response.created, expected one",
    ),
    "response.in_progress twice": (
        with_more(TEXT, 9, IN_PROGRESS),
        *(9, "second response.in_progress, expected one"),
    ),
    "response.in_progress late": (
        [CREATED, *TEXT[2:9], IN_PROGRESS, TEXT[9]],
        *(8, "response.in_progress behind response.output_item.added, expected it before"),
    ),
    "response.queued late": (
        with_more(TEXT, 2, QUEUED),
        *(2, "response.queued behind response.in_progress, expected it before"),
    ),
    "another id": (
        edited(TEXT, 9, "response", "id", to="resp_2"),
        *(9, "response.id is not that of the event before, expected one throughout"),
    ),
    # Counts
    "total that is no sum": (
        edited(TEXT, 9, "response", "usage", "total_tokens", to=15),
        *(9, "response.usage.total_tokens is 15, expected 14"),
    ),
    "more cached than given": (
        edited(TEXT, 9, "response", "usage", "input_tokens_details", "cached_tokens", to=8),
        *(9, "response.usage.input_tokens_details has 10 tokens, expected at most 9"),
    ),
    "more reasoned than made": (
        edited(TEXT, 9, "response", "usage", "output_tokens_details", "reasoning_tokens", to=6),
        *(9, "response.usage.output_tokens_details has 6 tokens, expected at most 5"),
    ),
    # Ends
    "end missing": (
        [CREATED],
        1,
        "no response.completed, response.incomplete or response.failed, expected one last",
    ),
    "event after the end": (
        [*TEXT, KEEPALIVE],
        *(10, "frame after response.completed, expected nothing"),
    ),
    "event after [DONE]": ([*TEXT, DONE, KEEPALIVE], 11, "frame after [DONE], expected nothing"),
    "[DONE] twice": ([*TEXT, DONE, DONE], 11, "frame after [DONE], expected nothing"),
    "[DONE] for an end": (
        [*TEXT[:9], DONE],
        *(9, "[DONE] before the end of the response, expected it last"),
    ),
    "event after an error": (
        [ERROR, KEEPALIVE],
        *(1, "frame after error, expected response.failed or nothing"),
    ),
    "event after an error and the failure": (
        [ERROR, failed(), KEEPALIVE],
        *(2, "frame after response.failed, expected nothing"),
    ),
    "error without a message": (
        [without(ERROR, "message")],
        *(0, "message is missing, expected a string"),
    ),
    "nested error without a type": (
        [without(NESTED, "error", "type")],
        *(0, "error.type is missing, expected a string"),
    ),
}


@pytest.mark.parametrize(("events", "position", "message"), BROKEN.values(), ids=BROKEN)
def test_violation_is_reported_once_where_it_occurs(
    events: list[Event | str], position: int, message: str
) -> None:
    assert validate(sse(*events), "openai_responses") == [Violation(position, message)]


def test_empty_stream_lacks_the_first_event() -> None:
    assert validate(b": ping\n\n", "responses") == [
        Violation(0, "no response.created, expected it first")
    ]


def test_cut_stream_lacks_the_ends_of_its_items_and_its_own() -> None:
    assert validate(sse(*TEXT[:5], *call(1)[:1]), "openai_responses") == [
        *(
            Violation(
                6, f"the stream ends while item {n} is open, expected response.output_item.done"
            )
            for n in (0, 1)
        ),
        Violation(
            6, "no response.completed, response.incomplete or response.failed, expected one last"
        ),
    ]


def test_sequence_numbers_are_arbitrary_after_an_event_without_one() -> None:
    """A missing event is reported once: the next sequence number is no violation."""
    for unnumbered in ("{", '{"type": "keepalive"}'):
        frame = f"event: keepalive\ndata: {unnumbered}\n\n"
        body = sse(CREATED, frame, {**KEEPALIVE, "sequence_number": 2})
        assert [v.position for v in validate(body, "openai_responses")] == [1, 3]
