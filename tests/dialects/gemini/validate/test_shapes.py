"""Violations of the fields of chunks and parts."""

from __future__ import annotations

from typing import Any

import pytest
from support.gemini.violations import COUNTS, ERROR, FINISH, Chunk, candidate, chunk, parts, sse

from streamnorm.validation import Violation, validate

STRING, NAME, OBJECT, ARRAY = "a string", "a string that is not empty", "an object", "an array"
COUNT, BASE64, BOOLEAN = "an integer from 0", "padded Base64", "a boolean"
TOOLS = (
    "GOOGLE_SEARCH_WEB or GOOGLE_SEARCH_IMAGE or URL_CONTEXT or GOOGLE_MAPS or FILE_SEARCH "
    "or MEDIA_PROCESSING"
)
OUTCOMES = "OUTCOME_OK or OUTCOME_FAILED or OUTCOME_DEADLINE_EXCEEDED"

# The fields of each kind of part: the required ones, then the others, and what is expected.
DATA: dict[str, tuple[Chunk, dict[str, str], dict[str, str]]] = {
    "functionCall": (
        {"name": "look", "args": {}, "id": "1", "partialArgs": [], "willContinue": False},
        {},
        {"name": NAME, "args": OBJECT, "id": STRING, "partialArgs": ARRAY, "willContinue": BOOLEAN},
    ),
    "functionResponse": (
        {"name": "look", "response": {}, "id": "1"},
        {"name": NAME, "response": OBJECT},
        {"id": STRING},
    ),
    "toolCall": (
        {"toolType": "URL_CONTEXT", "id": "1", "args": {}},
        {"toolType": TOOLS},
        {"id": STRING, "args": OBJECT},
    ),
    "toolResponse": (
        {"toolType": "FILE_SEARCH", "id": "1", "response": {}},
        {"toolType": TOOLS},
        {"id": STRING, "response": OBJECT},
    ),
    "executableCode": (
        {"language": "PYTHON", "code": "1", "id": "1"},
        {"language": "PYTHON", "code": STRING},
        {"id": STRING},
    ),
    "codeExecutionResult": (
        {"outcome": "OUTCOME_FAILED", "output": "1", "id": "1"},
        {"outcome": OUTCOMES},
        {"output": STRING, "id": STRING},
    ),
    "inlineData": (
        {"mimeType": "image/png", "data": "AA=="},
        {"mimeType": NAME, "data": BASE64},
        {},
    ),
    "fileData": (
        {"fileUri": "https://a.example/b", "mimeType": "image/png"},
        {"fileUri": NAME},
        {"mimeType": STRING},
    ),
}


@pytest.mark.parametrize("kind", DATA)
def test_part_must_have_its_fields_of_their_kinds(kind: str) -> None:
    value, required, optional = DATA[kind]
    where = f"candidates[0].content.parts[0].{kind}"
    assert validate(sse(parts({kind: value}), FINISH), "gemini") == []
    for name, expected in required.items():
        less = {other: field for other, field in value.items() if other != name}
        told = validate(sse(parts({kind: less}), FINISH), "gemini")
        assert told == [Violation(0, f"{where}.{name} is missing, expected {expected}")]
    for name, expected in {**required, **optional}.items():
        told = validate(sse(parts({kind: {**value, name: None}}), FINISH), "gemini")
        assert told == [Violation(0, f"{where}.{name} is null, expected {expected}")]


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("text", ["Hi"], f"an array, expected {STRING}"),
        ("thought", "yes", f"a string of 3 characters, expected {BOOLEAN}"),
        ("thoughtSignature", "c2lnbg", f"a string of 6 characters, expected {BASE64}"),
        ("thoughtSignature", "c2ln bg=", f"a string of 8 characters, expected {BASE64}"),
        ("thoughtSignature", "=c2l", f"a string of 4 characters, expected {BASE64}"),
        ("thoughtSignature", "c2lnb===", f"a string of 8 characters, expected {BASE64}"),
        # Bits behind the last byte, which strict readers refuse.
        ("thoughtSignature", "YR==", f"a string of 4 characters, expected {BASE64}"),
        ("thoughtSignature", "c2lnYWJ=", f"a string of 8 characters, expected {BASE64}"),
        ("thoughtSignature", "+_aa", f"a string of 4 characters, expected {BASE64}"),
        ("partMetadata", 1, f"an integer, expected {OBJECT}"),
        ("videoMetadata", 1, f"an integer, expected {OBJECT}"),
    ],
)
def test_field_of_a_text_must_be_of_its_kind(name: str, value: object, problem: str) -> None:
    told = validate(sse(parts({"text": "Hi", name: value}), FINISH), "gemini")
    assert told == [Violation(0, f"candidates[0].content.parts[0].{name} is {problem}")]


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("jsonPath", "", f"an empty string, expected {NAME}"),
        ("stringValue", 1, f"an integer, expected {STRING}"),
        ("numberValue", "1", "a string of 1 characters, expected a number"),
        ("boolValue", 1, f"an integer, expected {BOOLEAN}"),
        ("nullValue", None, "null, expected NULL_VALUE"),
        ("willContinue", 1, f"an integer, expected {BOOLEAN}"),
    ],
)
def test_field_of_a_piece_must_be_of_its_kind(name: str, value: object, problem: str) -> None:
    call = {"name": "look", "partialArgs": [{"jsonPath": "$.a", name: value}]}
    told = validate(sse(parts({"functionCall": call}), FINISH), "gemini")
    where = "candidates[0].content.parts[0].functionCall.partialArgs[0]"
    assert told == [Violation(0, f"{where}.{name} is {problem}")]


FULL: Chunk = chunk(
    candidate(
        {"text": "Hi", "partMetadata": {}, "videoMetadata": {}, "mediaResolution": "LOW"},
        finishReason="MAX_TOKENS",
        finishMessage="full",
        safetyRatings=[{"category": "C", "probability": "LOW", "blocked": False}],
        tokenCount=1,
        avgLogprobs=-0.5,
        logprobsResult={},
        continuationToken="AAAA",
        citationMetadata={
            "citations": [{"startIndex": 0, "endIndex": 1, "uri": "u", "title": "t"}]
        },
        groundingMetadata={"webSearchQueries": ["q"], "searchEntryPoint": {}},
        urlContextMetadata={},
        a_new_field={},
    ),
    usageMetadata={
        **COUNTS,
        "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 9}],
        "cacheTokensDetails": [{"modality": "VIDEO"}],
        "candidatesTokensDetails": [],
        "toolUsePromptTokensDetails": [],
        "trafficType": "ON_DEMAND",
    },
    promptFeedback={"safetyRatings": [], "blockReasonMessage": ""},
    createTime="2026-11-22T00:00:00Z",
    modelStatus={},
    a_new_field={},
)


def test_chunk_with_every_field_has_no_violation() -> None:
    assert validate(sse(FULL), "gemini") == []


CANDIDATE: dict[str, tuple[Any, str]] = {
    "finishMessage": (1, STRING),
    "safetyRatings": (1, ARRAY),
    "tokenCount": ("a", COUNT),
    "avgLogprobs": ("a", "a number"),
    "logprobsResult": (1, OBJECT),
    "continuationToken": ("a", BASE64),
    "citationMetadata": (1, OBJECT),
    "urlContextMetadata": (1, OBJECT),
}


@pytest.mark.parametrize("name", CANDIDATE)
def test_field_of_a_candidate_must_be_of_its_kind(name: str) -> None:
    value, expected = CANDIDATE[name]
    told = validate(sse(chunk(candidate(finishReason="STOP", **{name: value}))), "gemini")
    found = "an integer" if value == 1 else "a string of 1 characters"
    assert told == [Violation(0, f"candidates[0].{name} is {found}, expected {expected}")]


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"finishReason": "TIRED"}, "finishReason is a string of 5 characters, expected FINISH_"),
        ({"finishReason": 1}, "finishReason is an integer, expected FINISH_REASON_UNSPECIFIED or"),
        (
            {"content": {"role": "user", "parts": []}},
            "content.role is a string of 4 characters, expected model",
        ),
        ({"safetyRatings": [{}]}, f"safetyRatings[0].category is missing, expected {STRING}"),
        (
            {"safetyRatings": [{"category": "C", "probability": 1}]},
            f"safetyRatings[0].probability is an integer, expected {STRING}",
        ),
        (
            {"safetyRatings": [{"category": "C", "blocked": 1}]},
            f"safetyRatings[0].blocked is an integer, expected {BOOLEAN}",
        ),
        (
            {"citationMetadata": {"citations": [{"uri": 1}]}},
            f"citationMetadata.citations[0].uri is an integer, expected {STRING}",
        ),
        (
            {"citationMetadata": {"citations": [{"title": 1}]}},
            f"citationMetadata.citations[0].title is an integer, expected {STRING}",
        ),
        (
            {"groundingMetadata": {"webSearchQueries": [1]}},
            f"groundingMetadata.webSearchQueries[0] is an integer, expected {STRING}",
        ),
        (
            {"groundingMetadata": {"searchEntryPoint": 1}},
            f"groundingMetadata.searchEntryPoint is an integer, expected {OBJECT}",
        ),
        (
            {"groundingMetadata": {"groundingSupports": [{"confidenceScores": ["a"]}]}},
            "groundingMetadata.groundingSupports[0].confidenceScores[0] is a string of "
            "1 characters, expected a number",
        ),
        (
            {"groundingMetadata": {"groundingSupports": [{"segment": {"partIndex": "a"}}]}},
            "groundingMetadata.groundingSupports[0].segment.partIndex is a string of "
            f"1 characters, expected {COUNT}",
        ),
        (
            {"groundingMetadata": {"groundingSupports": [{"segment": {"text": 1}}]}},
            f"groundingMetadata.groundingSupports[0].segment.text is an integer, expected {STRING}",
        ),
        (
            {"citationMetadata": {"citations": [{"startIndex": -1}]}},
            f"citationMetadata.citations[0].startIndex is a negative integer, expected {COUNT}",
        ),
        (
            {"groundingMetadata": {"groundingSupports": [{"segment": {"endIndex": -1}}]}},
            "groundingMetadata.groundingSupports[0].segment.endIndex is a negative integer, "
            f"expected {COUNT}",
        ),
    ],
)
def test_enumeration_values_of_a_candidate_must_be_known(fields: Chunk, problem: str) -> None:
    told = validate(sse(chunk(candidate(**{"finishReason": "STOP", **fields}))), "gemini")
    assert len(told) == 1
    assert told[0].message.startswith(f"candidates[0].{problem}")


@pytest.mark.parametrize("name", COUNTS)
def test_counts_must_be_counts(name: str) -> None:
    told = validate(sse(chunk(usageMetadata={**COUNTS, name: -1}), FINISH), "gemini")
    problem = f"usageMetadata.{name} is a negative integer, expected {COUNT}"
    assert told == [Violation(0, problem)]


@pytest.mark.parametrize(
    "name",
    [
        "promptTokensDetails",
        "cacheTokensDetails",
        "candidatesTokensDetails",
        "toolUsePromptTokensDetails",
    ],
)
def test_details_of_counts_must_name_what_was_counted(name: str) -> None:
    told = validate(
        sse(chunk(usageMetadata={**COUNTS, name: [{"tokenCount": 1}]}), FINISH), "gemini"
    )
    expected = "MODALITY_UNSPECIFIED or TEXT or IMAGE or VIDEO or AUDIO or DOCUMENT"
    problem = f"usageMetadata.{name}[0].modality is missing, expected {expected}"
    assert told == [Violation(0, problem)]
    counted = [{"modality": "TEXT", "tokenCount": -1}]
    told = validate(sse(chunk(usageMetadata={**COUNTS, name: counted}), FINISH), "gemini")
    problem = f"usageMetadata.{name}[0].tokenCount is a negative integer, expected {COUNT}"
    assert told == [Violation(0, problem)]


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"modelVersion": None}, f"modelVersion is null, expected {STRING}"),
        ({"createTime": 1}, f"createTime is an integer, expected {STRING}"),
        ({"modelStatus": 1}, f"modelStatus is an integer, expected {OBJECT}"),
        (
            {"promptFeedback": {"blockReasonMessage": 1}},
            f"promptFeedback.blockReasonMessage is an integer, expected {STRING}",
        ),
        (
            {"promptFeedback": {"safetyRatings": 1}},
            f"promptFeedback.safetyRatings is an integer, expected {ARRAY}",
        ),
        (
            {"usageMetadata": {**COUNTS, "trafficType": 1}},
            f"usageMetadata.trafficType is an integer, expected {STRING}",
        ),
    ],
)
def test_field_of_a_chunk_must_be_of_its_kind(fields: Chunk, problem: str) -> None:
    assert validate(sse({**FINISH, **fields}), "gemini") == [Violation(0, problem)]


def test_block_reason_must_be_known() -> None:
    told = validate(sse(chunk(promptFeedback={"blockReason": "MOOD"})), "gemini")
    assert len(told) == 1
    assert told[0].message.startswith(
        "promptFeedback.blockReason is a string of 4 characters, expected BLOCKED_REASON_UNSPECI"
    )


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"code": "503"}, f"code is a string of 3 characters, expected {COUNT}"),
        ({"message": None}, f"message is null, expected {STRING}"),
        ({"status": "BUSY"}, "status is a string of 4 characters, expected INVALID_ARGUMENT or"),
        ({"details": {}}, f"details is an object, expected {ARRAY}"),
    ],
)
def test_error_must_be_of_its_kind(fields: Chunk, problem: str) -> None:
    assert validate(sse({"error": {**ERROR["error"], "details": [{}]}}), "gemini") == []
    told = validate(sse({"error": {**ERROR["error"], **fields}}), "gemini")
    assert len(told) == 1
    assert told[0].message.startswith(f"error.{problem}")


@pytest.mark.parametrize("name", ["code", "message", "status"])
def test_error_must_have_its_fields(name: str) -> None:
    error = {other: value for other, value in ERROR["error"].items() if other != name}
    told = validate(sse({"error": error}), "gemini")
    assert [v.message.partition(",")[0] for v in told] == [f"error.{name} is missing"]
