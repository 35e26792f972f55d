"""Strict validation of the order of chunks, of usage and of the end."""

from __future__ import annotations

import json

import pytest
from support.openai_chat.violations import (
    DONE,
    ERROR,
    FINISH,
    ROLE,
    Chunk,
    answer,
    chunk,
    finish,
    part,
    said,
    sse,
    usage,
    without,
)

from streamnorm.validation import Violation, validate

HI = said(content="hi")
OTHER = said(1, role="assistant", content="")

LEGAL: dict[str, list[Chunk | str]] = {
    "text": answer(HI),
    "usage": [{**ROLE, "usage": None}, FINISH, usage(), DONE],
    "usage in detail": [
        *(ROLE, FINISH),
        usage(
            prompt=8,
            completion=4,
            total=12,
            prompt_tokens_details={"cached_tokens": 6, "cache_write_tokens": 2},
            completion_tokens_details={"reasoning_tokens": 4, "audio_tokens": 9},
        ),
        DONE,
    ],
    "usage without detail": [
        *(ROLE, FINISH),
        usage(prompt_tokens_details=None, completion_tokens_details={"reasoning_tokens": None}),
        DONE,
    ],
    "choices that interleave": [
        *(ROLE, OTHER, HI, said(1, content="ho"), finish("length", 1), HI, FINISH, DONE)
    ],
    "two choices in one chunk": [
        chunk(part({"role": "assistant"}), part({"role": "assistant"}, choice=1)),
        chunk(part({}, "stop"), part({}, "stop", choice=1)),
        DONE,
    ],
    "moderation": answer(chunk(moderation={"input": {}})),
    "null error": answer({**HI, "error": None}),
    "error first": [ERROR],
    "error in mid-stream": [ROLE, HI, ERROR],
    "error with its event line": [ROLE, f"event: error\ndata: {json.dumps(ERROR)}\n\n"],
    "error, then the end": [ROLE, ERROR, DONE],
}


@pytest.mark.parametrize("chunks", LEGAL.values(), ids=LEGAL)
def test_legal_stream_has_no_violation(chunks: list[Chunk | str]) -> None:
    assert validate(sse(*chunks), "openai_chat") == []


BROKEN: dict[str, tuple[list[Chunk | str], int, str]] = {
    "no JSON": (answer("data: {\n\n"), 1, "no JSON in 1 characters, expected an object"),
    "no object": (answer("data: []\n\n"), 1, "payload is an array, expected an object"),
    "two chunks without a blank line between": (
        answer("data: {}\ndata: {}\n\n"),
        *(1, "no JSON in 5 characters, expected an object"),
    ),
    "half a character": (
        answer(said(content="a\ud83d")),
        *(1, "escape of a lone surrogate in the payload, expected pairs"),
    ),
    "NaN": (
        answer("data: " + json.dumps({**HI, "cost": float("nan")}) + "\n\n"),
        *(1, "NaN or Infinity in the payload, expected numbers"),
    ),
    "event line": (
        answer(f"event: chunk\ndata: {json.dumps(HI)}\n\n"),
        *(1, "event line, expected data lines alone"),
    ),
    "event line of an error that is none": (
        answer(f"event: error\ndata: {json.dumps(HI)}\n\n"),
        *(1, "event line, expected data lines alone"),
    ),
    # What is the same in all chunks
    "another id": (
        [ROLE, {**HI, "id": "chatcmpl-2"}, {**FINISH, "id": "chatcmpl-2"}, DONE],
        *(1, "id is not that of the chunk before, expected one throughout"),
    ),
    "another time": (
        [ROLE, {**FINISH, "created": 6}, {**usage(), "created": 6}, DONE],
        *(1, "created is not that of the chunk before, expected one throughout"),
    ),
    "another model": (
        [ROLE, FINISH, {**usage(), "model": "n"}, DONE],
        *(2, "model is not that of the chunk before, expected one throughout"),
    ),
    # Choices
    "second choice first": (
        [OTHER, ROLE, FINISH, finish(choice=1), DONE],
        *(0, "choice 1 begins, expected 0"),
    ),
    "gap between choices": (
        [ROLE, said(2, role="assistant"), FINISH, finish(choice=2), DONE],
        *(1, "choice 2 begins, expected 1"),
    ),
    "no choice and no usage": (
        answer(chunk()),
        *(1, "choices is empty without usage, expected a choice"),
    ),
    "finish_reason of a choice missing": (
        [ROLE, OTHER, finish(choice=1), DONE],
        *(3, "[DONE] before the finish_reason of choice 0, expected it after"),
    ),
    # Usage
    "usage beside a choice": (
        [ROLE, {**FINISH, "usage": usage()["usage"]}, DONE],
        *(1, "usage beside 1 choices, expected it in a last chunk without any"),
    ),
    "usage twice": (
        [ROLE, FINISH, usage(), usage(), DONE],
        *(3, "chunk after the usage chunk, expected [DONE]"),
    ),
    "choice after usage": (
        [ROLE, usage(), FINISH, DONE],
        *(2, "chunk after the usage chunk, expected [DONE]"),
    ),
    "usage without total": (
        [ROLE, FINISH, without(usage(), "usage", "total_tokens"), DONE],
        *(2, "usage.total_tokens is missing, expected an integer from 0"),
    ),
    "usage of another kind": (
        [ROLE, FINISH, chunk(usage=[]), DONE],
        *(2, "usage is an array, expected an object or null"),
    ),
    "total that is no sum": (
        [ROLE, FINISH, usage(total=6), DONE],
        *(2, "usage.total_tokens is 6, expected 5"),
    ),
    "count that nobody can read": (
        [ROLE, FINISH, usage(10**4299, 0, 0), DONE],
        2,
        "usage.prompt_tokens is an integer of more than 63 bits, expected an integer from 0",
    ),
    "more cached than prompted": (
        [
            *(ROLE, FINISH),
            usage(prompt_tokens_details={"cached_tokens": 2, "cache_write_tokens": 2}),
            DONE,
        ],
        *(2, "usage.prompt_tokens_details has 4 tokens, expected at most 3"),
    ),
    "more reasoned than completed": (
        [ROLE, FINISH, usage(completion_tokens_details={"reasoning_tokens": 3}), DONE],
        *(2, "usage.completion_tokens_details has 3 tokens, expected at most 2"),
    ),
    # Ends
    "[DONE] missing": ([ROLE, FINISH], 2, "no [DONE], expected it last"),
    "[DONE] twice": ([*answer(), DONE], 3, "second [DONE], expected one"),
    "[DONE] with more behind it": (
        [ROLE, FINISH, "data: [DONE] \n\n"],
        *(2, "7 characters that begin with [DONE], expected it alone"),
    ),
    "[DONE] first": ([DONE], 0, "[DONE] before any choice, expected one"),
    "chunk after [DONE]": ([*answer(), HI], 3, "frame after [DONE], expected nothing"),
    "chunk after an error": (
        [ROLE, ERROR, FINISH, DONE],
        *(2, "frame after an error, expected nothing"),
    ),
    "[DONE] twice after an error": ([ERROR, DONE, DONE], 2, "second [DONE], expected one"),
    "error beside choices": (
        [ROLE, {**HI, **ERROR}],
        *(1, "error beside choices, expected it alone"),
    ),
}


@pytest.mark.parametrize(("chunks", "position", "message"), BROKEN.values(), ids=BROKEN)
def test_violation_is_reported_once_at_its_frame(
    chunks: list[Chunk | str], position: int, message: str
) -> None:
    assert validate(sse(*chunks), "openai_chat") == [Violation(position, message)]


def test_stream_without_a_chunk_lacks_a_choice_and_done() -> None:
    assert validate(b": ping\n\n", "openai_chat") == [
        Violation(0, "the stream ends before any choice, expected one"),
        Violation(0, "no [DONE], expected it last"),
    ]


def test_cut_stream_lacks_the_finish_reason_of_every_choice_and_done() -> None:
    assert validate(sse(ROLE, OTHER), "openai_chat") == [
        Violation(2, "the stream ends before the finish_reason of choice 0, expected it after"),
        Violation(2, "the stream ends before the finish_reason of choice 1, expected it after"),
        Violation(2, "no [DONE], expected it last"),
    ]


def test_usage_in_every_chunk_is_reported_for_each() -> None:
    counts = usage()["usage"]
    body = sse({**ROLE, "usage": counts}, {**FINISH, "usage": counts}, DONE)
    assert [violation.position for violation in validate(body, "openai_chat")] == [0, 1]
