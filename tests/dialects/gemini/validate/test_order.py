"""Violations of frames, chunk order, token counts and the end."""

from __future__ import annotations

import json

import pytest
from support.gemini.violations import (
    COUNTS,
    ERROR,
    FINISH,
    Chunk,
    candidate,
    chunk,
    parts,
    sse,
    text,
)

from streamnorm.validation import Violation, validate

OTHER = parts({"text": "Ho"}, index=1)
BLOCKED = chunk(
    promptFeedback={"blockReason": "SAFETY"},
    usageMetadata={"promptTokenCount": 9, "totalTokenCount": 9},
)

LEGAL: dict[str, list[Chunk | str]] = {
    "text": [text(), text(" you"), FINISH],
    "one chunk": [chunk(candidate({"text": "Hi"}, finishReason="STOP"), usageMetadata=COUNTS)],
    "no index": [parts({"text": "Hi"}, index=None), parts(index=None, finishReason="STOP")],
    "no names": [{"candidates": [candidate({"text": "Hi"}, finishReason="STOP")]}],
    "finishReason in every chunk": [parts({"text": "Hi"}, finishReason="STOP"), FINISH, FINISH],
    "finishReason, then a candidate without content": [text(), FINISH, parts()],
    "text after finishReason, and another": [text(), FINISH, text(), FINISH],
    "candidates that interleave": [
        text(),
        OTHER,
        text(),
        OTHER,
        FINISH,
        parts(index=1, finishReason="STOP"),
    ],
    "candidates in one chunk": [
        chunk(candidate(finishReason="STOP"), candidate(index=1, finishReason="MAX_TOKENS"))
    ],
    "counts alone": [text(), FINISH, chunk(usageMetadata=COUNTS)],
    "no token cached, nothing made": [
        chunk(
            candidate(finishReason="STOP"),
            usageMetadata={"promptTokenCount": 9, "totalTokenCount": 9},
        )
    ],
    "blocked prompt": [BLOCKED],
    "ratings of the prompt": [
        chunk(candidate({"text": "Hi"}), promptFeedback={"safetyRatings": []}),
        FINISH,
    ],
    "error first": [ERROR],
    "error in the middle": [text(), ERROR],
    "line feeds alone": [sse(text(), FINISH).decode().replace("\r", "")],
    "payload of several lines": [sse(text(), FINISH).decode().replace(', "', ',\ndata: "')],
}


@pytest.mark.parametrize("chunks", LEGAL.values(), ids=LEGAL)
def test_legal_stream_has_no_violation(chunks: list[Chunk | str]) -> None:
    assert validate(sse(*chunks), "gemini") == []


BROKEN: dict[str, tuple[list[Chunk | str], int, str]] = {
    # Frames, of which google-genai takes `data: ` alone
    "comment": ([": ping\r\n\r\n", FINISH], 0, "comment of 6 bytes, expected data lines alone"),
    "comment in a frame": (
        [text(), ": ping\r\n" + sse(FINISH).decode()],
        *(1, "comment of 6 bytes, expected data lines alone"),
    ),
    "no space behind the colon": (
        [text(), sse(FINISH).decode().replace("data: ", "data:", 1)],
        *(1, "data line without a space, expected one behind the colon"),
    ),
    "event line": (
        [text(), f"event: chunk\ndata: {json.dumps(FINISH)}\n\n"],
        *(1, "event line, expected data lines alone"),
    ),
    "id line": (
        [f"id: 1\ndata: {json.dumps(FINISH)}\n\n"],
        *(0, "id line, expected data lines alone"),
    ),
    "[DONE]": ([FINISH, "data: [DONE]\r\n\r\n"], 1, "no JSON in 6 characters, expected an object"),
    "array for a chunk": (
        [f"data: [{json.dumps(FINISH)}]\r\n\r\n", FINISH],
        0,
        "payload is an array, expected an object",
    ),
    # Chunks
    "chunk that says nothing": (
        [text(), chunk(), FINISH],
        1,
        "chunk without candidates, promptFeedback, usageMetadata, expected one of them",
    ),
    "another id": (
        [text(), {**FINISH, "responseId": "resp-2"}],
        *(1, "responseId is not that of the chunk before, expected one throughout"),
    ),
    "another model": (
        [text(), {**FINISH, "modelVersion": "n"}, {**FINISH, "modelVersion": "n"}],
        *(1, "modelVersion is not that of the chunk before, expected one throughout"),
    ),
    "answer to a blocked prompt": (
        [BLOCKED, FINISH],
        *(1, "1 candidates with a blockReason, expected none"),
    ),
    "answer beside what blocks it": (
        [{**text(), **BLOCKED}],
        *(0, "1 candidates with a blockReason, expected none"),
    ),
    # Candidates
    "third candidate before the second": (
        [text(), parts({"text": "Ho"}, index=2), FINISH, parts(index=2, finishReason="STOP")],
        *(1, "candidate 2 begins, expected candidate 1"),
    ),
    "second candidate first": (
        [OTHER, FINISH, parts(index=1, finishReason="STOP")],
        *(0, "candidate 1 begins, expected candidate 0"),
    ),
    "same candidate twice in a chunk": (
        [chunk(candidate({"text": "Hi"}), candidate(finishReason="STOP"))],
        *(0, "candidates[1].index is 0 again, expected another"),
    ),
    # Counts
    "total that is no sum": (
        [chunk(candidate(finishReason="STOP"), usageMetadata={**COUNTS, "totalTokenCount": 12})],
        *(0, "usageMetadata.totalTokenCount is 12, expected 15"),
    ),
    "no total": (
        [chunk(candidate(finishReason="STOP"), usageMetadata={"candidatesTokenCount": 3})],
        *(0, "usageMetadata.totalTokenCount is 0, expected 3"),
    ),
    "more cached than prompted": (
        [
            chunk(
                candidate(finishReason="STOP"),
                usageMetadata={**COUNTS, "cachedContentTokenCount": 10},
            )
        ],
        *(0, "usageMetadata.cachedContentTokenCount is 10, expected at most 9"),
    ),
    # Ends
    "finishReason missing": ([text()], 1, "no finishReason of candidate 0, expected one"),
    "finishReason missing after more text": (
        [text(), FINISH, text()],
        *(3, "no finishReason of candidate 0, expected one"),
    ),
    "finishReason of one candidate missing": (
        [text(), OTHER, FINISH],
        *(3, "no finishReason of candidate 1, expected one"),
    ),
    "counts and nothing else": (
        [chunk(usageMetadata=COUNTS)],
        *(1, "no candidate, expected one"),
    ),
    "chunk after an error": ([ERROR, FINISH], 1, "frame after an error, expected nothing"),
    "error beside candidates": (
        [{**ERROR, **FINISH}],
        *(0, "error beside 4 fields, expected it alone"),
    ),
}


@pytest.mark.parametrize(("chunks", "position", "message"), BROKEN.values(), ids=BROKEN)
def test_violation_is_reported_once_at_its_frame(
    chunks: list[Chunk | str], position: int, message: str
) -> None:
    assert validate(sse(*chunks), "gemini") == [Violation(position, message)]


def test_stream_without_a_chunk_lacks_a_candidate() -> None:
    assert validate(b"", "google") == [Violation(0, "no candidate, expected one")]


def test_array_is_no_event_stream() -> None:
    """Which is what the API sends without `alt=sse`: each line is told."""
    body = b"[" + json.dumps(FINISH).encode() + b"\n]\n"
    assert [violation.message for violation in validate(body, "gemini")] == [
        f"line of {len(body) - 3} bytes that is no field, expected a data line",
        "line of 1 bytes that is no field, expected a data line",
        "no candidate, expected one",
    ]


@pytest.mark.parametrize(
    ("chunk", "message"),
    [
        ({"candidates": {}}, "candidates is an object, expected an array"),
        ({"candidates": [1]}, "candidates[0] is an integer, expected an object"),
        (parts(index=-1), "candidates[0].index is a negative integer, expected an integer from 0"),
        (
            {"candidates": [], "promptFeedback": 1},
            "promptFeedback is an integer, expected an object",
        ),
        (chunk(usageMetadata=[]), "usageMetadata is an array, expected an object"),
        (
            chunk(usageMetadata={"promptTokenCount": "9"}),
            "usageMetadata.promptTokenCount is a string of 1 characters, "
            "expected an integer from 0",
        ),
        (
            chunk(usageMetadata={**COUNTS, "totalTokenCount": None}),
            "usageMetadata.totalTokenCount is null, expected an integer from 0",
        ),
        (
            chunk(usageMetadata={**COUNTS, "cachedContentTokenCount": None}),
            "usageMetadata.cachedContentTokenCount is null, expected an integer from 0",
        ),
        ({**text(), "responseId": 1}, "responseId is an integer, expected a string"),
    ],
)
def test_value_of_another_type_is_one_violation(chunk: Chunk, message: str) -> None:
    assert validate(sse(chunk, FINISH), "gemini") == [Violation(0, message)]
