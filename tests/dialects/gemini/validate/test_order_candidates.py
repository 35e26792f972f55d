"""Violations within a candidate: parts, fragments of calls, sources."""

from __future__ import annotations

from typing import Any

import pytest
from support.gemini.violations import FINISH, Chunk, call, candidate, chunk, parts, sse, text

from streamnorm.validation import Violation, validate


def piece(path: str = "$.a", **fields: Any) -> Chunk:
    return {"jsonPath": path, **fields}


def more(*pieces: Any, **fields: Any) -> Chunk:
    return call(partialArgs=list(pieces), **fields)


BEGUN = call(name="look", id="1", willContinue=True)
END = call()
SOURCES = [{"web": {"uri": "https://a.example", "title": "A"}}]


def grounded(*indices: Any, chunks: Any = SOURCES) -> Chunk:
    support = {
        "segment": {"startIndex": 0, "endIndex": 2, "text": "Hi"},
        "groundingChunkIndices": list(indices),
        "confidenceScores": [0.5],
    }
    metadata = {"groundingChunks": chunks, "groundingSupports": [support]}
    return parts({"text": "Hi"}, groundingMetadata=metadata)


LEGAL: dict[str, list[Chunk]] = {
    "thought, then text": [text("Hm", thought=True, thoughtSignature="c2ln"), text()],
    "signature alone": [text(), text("", thoughtSignature="c2lnbg==")],
    "signature for addresses": [text("", thoughtSignature="-_-_-w==")],
    "signature with a byte less": [text("", thoughtSignature="c2lnYWE=")],
    "call": [call(name="look", args={"a": 1}, id="1")],
    "call without arguments": [call(name="look")],
    "calls in one chunk": [
        parts({"functionCall": {"name": "a", "args": {}}}, {"functionCall": {"name": "b"}})
    ],
    "arguments in pieces": [
        BEGUN,
        more(piece(stringValue="x", willContinue=True), willContinue=True),
        more(piece(numberValue=1.5), piece("$.b", boolValue=True), willContinue=True),
        more(piece("$.c", nullValue="NULL_VALUE"), piece("$.d"), willContinue=True),
        END,
    ],
    "pieces beside the name": [call(name="look", partialArgs=[piece(stringValue="x")])],
    "piece that goes on": [
        call(name="look", partialArgs=[piece(stringValue="x", willContinue=True)]),
        more(piece(stringValue="y")),
    ],
    "call after call in pieces": [BEGUN, END, BEGUN, END],
    "calls of two candidates": [
        BEGUN,
        parts({"functionCall": {"name": "b"}}, index=1),
        END,
        parts(index=1, finishReason="STOP"),
    ],
    "code": [
        parts(
            {"executableCode": {"language": "PYTHON", "code": "1"}, "thoughtSignature": "c2ln"},
            {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}},
        )
    ],
    "tools of the server": [
        parts(
            {"toolCall": {"id": "1", "toolType": "URL_CONTEXT", "args": {}}},
            {"toolResponse": {"id": "1", "toolType": "URL_CONTEXT", "response": {}}},
            {"functionResponse": {"name": "look", "response": {"output": 1}}},
        )
    ],
    "files": [
        parts(
            {"inlineData": {"mimeType": "image/png", "data": "AAAA"}, "thought": True},
            {"fileData": {"mimeType": "image/png", "fileUri": "https://a.example/b"}},
        )
    ],
    "part of a kind to come": [parts({"hologram": {}})],
    "part that is of no kind yet": [parts({"text": "Hi", "hologram": {}})],
    "sources": [grounded(0)],
    "metadata without sources": [parts(groundingMetadata={"webSearchQueries": ["q"]})],
    "supports without sources": [grounded(chunks=[])],
}


@pytest.mark.parametrize("chunks", LEGAL.values(), ids=LEGAL)
def test_legal_stream_has_no_violation(chunks: list[Chunk]) -> None:
    assert validate(sse(*chunks, FINISH), "gemini") == []


PART = "candidates[0].content.parts[0]"
CALL = f"{PART}.functionCall"

BROKEN: dict[str, tuple[list[Chunk], int, str]] = {
    "two fields of data": (
        [parts({"text": "Hi", "functionCall": {"name": "look"}})],
        *(0, f"{PART} holds text and functionCall, expected one of them"),
    ),
    "no field of data": ([parts({})], 0, f"{PART} holds no data, expected one field of it"),
    "all that says more of data, without it": (
        [
            parts(
                {
                    "thought": True,
                    "thoughtSignature": "c2ln",
                    "partMetadata": {},
                    "videoMetadata": {},
                    "mediaResolution": {},
                }
            )
        ],
        *(0, f"{PART} holds no data, expected one field of it"),
    ),
    "signature without data": (
        [parts({"thoughtSignature": "c2ln"})],
        *(0, f"{PART} holds no data, expected one field of it"),
    ),
    "call without a name": (
        [call(args={})],
        *(0, f"{CALL}.name is missing, expected one, since no call goes on"),
    ),
    "pieces of no call": (
        [more(piece(stringValue="x"))],
        *(0, f"{CALL}.name is missing, expected one, since no call goes on"),
    ),
    "pieces after the end of the call": (
        [BEGUN, END, more(piece(stringValue="x"))],
        *(2, f"{CALL}.name is missing, expected one, since no call goes on"),
    ),
    "end of a call twice": (
        [BEGUN, END, END],
        *(2, f"{CALL}.name is missing, expected one, since no call goes on"),
    ),
    "call while another goes on": (
        [BEGUN, call(name="find")],
        *(1, "another call while a call of candidate 0 goes on, expected its end"),
    ),
    "finish while a call goes on": (
        [BEGUN],
        *(1, "finishReason while a call of candidate 0 goes on, expected its end"),
    ),
    "two values in a piece": (
        [BEGUN, more(piece(stringValue="x", numberValue=1))],
        *(1, f"{CALL}.partialArgs[0] holds stringValue and numberValue, expected one of them"),
    ),
    "source that is not there": (
        [grounded(0, 1)],
        0,
        "candidates[0].groundingMetadata.groundingSupports[0] names groundingChunks[1], "
        "expected one of 1",
    ),
}


@pytest.mark.parametrize(("chunks", "position", "message"), BROKEN.values(), ids=BROKEN)
def test_violation_is_reported_once_at_its_frame(
    chunks: list[Chunk], position: int, message: str
) -> None:
    assert validate(sse(*chunks, FINISH), "gemini") == [Violation(position, message)]


def test_cut_stream_lacks_the_end_of_its_call_and_its_own() -> None:
    assert validate(sse(BEGUN), "gemini") == [
        Violation(1, "the stream ends while a call of candidate 0 goes on, expected its end"),
        Violation(1, "no finishReason of candidate 0, expected one"),
    ]


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (candidate() | {"content": 1}, "content is an integer, expected an object"),
        (candidate() | {"content": {"parts": 1}}, "content.parts is an integer, expected an array"),
        (candidate(1), "content.parts[0] is an integer, expected an object"),
        (
            candidate({"functionCall": 1}),
            "content.parts[0].functionCall is an integer, expected an object",
        ),
        (
            candidate({"functionCall": {"name": "a", "partialArgs": 1}}),
            "content.parts[0].functionCall.partialArgs is an integer, expected an array",
        ),
        (
            candidate({"functionCall": {"name": "a", "partialArgs": [1]}}),
            "content.parts[0].functionCall.partialArgs[0] is an integer, expected an object",
        ),
        (
            grounded(0, chunks=1)["candidates"][0],
            "groundingMetadata.groundingChunks is an integer, expected an array",
        ),
        (
            candidate(groundingMetadata={"groundingSupports": [1]}),
            "groundingMetadata.groundingSupports[0] is an integer, expected an object",
        ),
        (
            candidate(groundingMetadata={"groundingSupports": [{"groundingChunkIndices": 1}]}),
            "groundingMetadata.groundingSupports[0].groundingChunkIndices is an integer, "
            "expected an array",
        ),
        (
            grounded("0")["candidates"][0],
            "groundingMetadata.groundingSupports[0].groundingChunkIndices[0] is a string of "
            "1 characters, expected an integer from 0",
        ),
        (candidate(groundingMetadata=1), "groundingMetadata is an integer, expected an object"),
    ],
)
def test_value_of_another_type_is_one_violation(found: Chunk, message: str) -> None:
    assert validate(sse(chunk(found), FINISH), "gemini") == [
        Violation(0, f"candidates[0].{message}")
    ]
