"""Strict validator of `streamGenerateContent` with `alt=sse`: chunks and candidates.

https://ai.google.dev/api/generate-content#method:-models.streamgeneratecontent (read
2026-11-22), and the rules of google-genai: it accepts `data: ` lines alone, raises at Base64
without padding and at arguments that are no object, and finds an error only in a payload
without other fields.

    stream      = chunk+ | chunk* error
    candidate n = part* finishReason, n dense from 0; candidates may interleave
    part        = one data field, and fields that modify it
    call        = {name, args} | {name, …, willContinue} {partialArgs, willContinue}* end

Older models repeat the finishReason in every chunk, and any model may send token counts after
it; content after a finishReason needs a new one.  A blocked prompt has no candidates.  In the
JSON array that the API sends without `alt=sse` every line is a violation, and so is every event
of the Interactions API.

The fields are those of https://ai.google.dev/api/generate-content and the types of the official SDK
(read 2026-11-22).  Other fields are allowed; empty fields are left out, never null.  Undocumented
enumeration values are violations: the vendor's client warns of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from streamnorm._core.codec import Checker
from streamnorm._core.json import is_array, is_object, objects_of
from streamnorm._core.shapes import (
    ANYTHING,
    BOOLEAN,
    COUNT,
    NAME,
    NUMBER,
    OBJECT,
    TEXT,
    Shape,
    array,
    changed_fields,
    is_count,
    object_of,
    parse_object,
    problems,
    word,
)
from streamnorm.dialects.gemini.outcome import finish_reason_of
from streamnorm.sse import Frame


def _base64(symbols: str) -> str:
    """Return a regular expression for padded Base64 in `symbols`, without surplus bits."""
    ends = f"{symbols}[AQgw]==|{symbols}{{2}}[AEIMQUYcgkosw048]="
    return f"(?:{symbols}{{4}})*(?:{ends})?"


_BASE64 = re.compile(f"{_base64('[A-Za-z0-9+/]')}|{_base64('[A-Za-z0-9_-]')}")
# google-genai decodes these fields and raises `ValidationError` where it cannot.
_BYTES = Shape(
    "padded Base64",
    lambda value: isinstance(value, str) and _BASE64.fullmatch(value) is not None,
)

_FINISH_REASON = word(
    *("FINISH_REASON_UNSPECIFIED", "STOP", "MAX_TOKENS", "CONTINUATION", "OTHER"),
    *("SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII"),
    *("MODEL_ARMOR", "ESCALATION", "PUP_LIMITED_DISABLED"),
    *("IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION", "IMAGE_OTHER", "NO_IMAGE"),
    *("MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS"),
    *("MISSING_THOUGHT_SIGNATURE", "MALFORMED_RESPONSE"),
)
_BLOCK_REASON = word(
    *("BLOCKED_REASON_UNSPECIFIED", "SAFETY", "OTHER", "BLOCKLIST", "PROHIBITED_CONTENT"),
    *("IMAGE_SAFETY", "MODEL_ARMOR", "JAILBREAK"),
)
_TOOL_TYPE = word(
    *("GOOGLE_SEARCH_WEB", "GOOGLE_SEARCH_IMAGE", "URL_CONTEXT", "GOOGLE_MAPS", "FILE_SEARCH"),
    "MEDIA_PROCESSING",
)
_STATUS = word(
    *("INVALID_ARGUMENT", "FAILED_PRECONDITION", "OUT_OF_RANGE", "UNAUTHENTICATED"),
    *("PERMISSION_DENIED", "NOT_FOUND", "ABORTED", "ALREADY_EXISTS", "RESOURCE_EXHAUSTED"),
    *("CANCELLED", "DATA_LOSS", "UNKNOWN", "INTERNAL", "UNIMPLEMENTED", "UNAVAILABLE"),
    "DEADLINE_EXCEEDED",
)
_MODALITY = word("MODALITY_UNSPECIFIED", "TEXT", "IMAGE", "VIDEO", "AUDIO", "DOCUMENT")
_OUTCOME = word("OUTCOME_OK", "OUTCOME_FAILED", "OUTCOME_DEADLINE_EXCEEDED")

VALUES: dict[str, Shape] = {
    "stringValue": TEXT,
    "numberValue": NUMBER,
    "boolValue": BOOLEAN,
    "nullValue": word("NULL_VALUE"),
}
"""Values of an entry of `partialArgs`, which has at most one."""

_ARGUMENT = object_of({"jsonPath": NAME}, {**VALUES, "willContinue": BOOLEAN})

DATA: dict[str, Shape] = {
    "text": TEXT,
    "functionCall": object_of(
        {},
        {
            "name": NAME,
            "args": OBJECT,
            "id": TEXT,
            "partialArgs": array(_ARGUMENT),
            "willContinue": BOOLEAN,
        },
    ),
    "functionResponse": object_of({"name": NAME, "response": OBJECT}, {"id": TEXT}),
    "toolCall": object_of({"toolType": _TOOL_TYPE}, {"id": TEXT, "args": OBJECT}),
    "toolResponse": object_of({"toolType": _TOOL_TYPE}, {"id": TEXT, "response": OBJECT}),
    "executableCode": object_of({"language": word("PYTHON"), "code": TEXT}, {"id": TEXT}),
    "codeExecutionResult": object_of({"outcome": _OUTCOME}, {"output": TEXT, "id": TEXT}),
    "inlineData": object_of({"mimeType": NAME, "data": _BYTES}),
    "fileData": object_of({"fileUri": NAME}, {"mimeType": TEXT}),
}
"""Data fields of a part, which has exactly one."""

MODIFIERS: dict[str, Shape] = {
    "thought": BOOLEAN,
    "thoughtSignature": _BYTES,
    "partMetadata": OBJECT,
    "videoMetadata": OBJECT,
    "mediaResolution": ANYTHING,
}
"""Fields of a part that modify its data."""

_RATINGS = array(object_of({"category": TEXT}, {"probability": TEXT, "blocked": BOOLEAN}))
_SPAN = {"startIndex": COUNT, "endIndex": COUNT}
_SUPPORT = object_of(
    {},
    {
        "segment": object_of({}, {**_SPAN, "partIndex": COUNT, "text": TEXT}),
        "groundingChunkIndices": array(COUNT),
        "confidenceScores": array(NUMBER),
    },
)

_CANDIDATE = object_of(
    {},
    {
        "index": COUNT,
        "content": object_of(
            {},
            {"role": word("model"), "parts": array(object_of({}, {**DATA, **MODIFIERS}))},
        ),
        "finishReason": _FINISH_REASON,
        "finishMessage": TEXT,
        "safetyRatings": _RATINGS,
        "tokenCount": COUNT,
        "avgLogprobs": NUMBER,
        "logprobsResult": OBJECT,
        "continuationToken": _BYTES,
        "citationMetadata": object_of(
            {},
            {"citations": array(object_of({}, {**_SPAN, "uri": TEXT, "title": TEXT}))},
        ),
        "groundingMetadata": object_of(
            {},
            {
                "groundingChunks": array(OBJECT),
                "groundingSupports": array(_SUPPORT),
                "webSearchQueries": array(TEXT),
                "searchEntryPoint": OBJECT,
            },
        ),
        "urlContextMetadata": OBJECT,
    },
)

_DETAILS = array(object_of({"modality": _MODALITY}, {"tokenCount": COUNT}))

CHUNK = object_of(
    {},
    {
        "candidates": array(_CANDIDATE),
        "promptFeedback": object_of(
            {},
            {
                "blockReason": _BLOCK_REASON,
                "blockReasonMessage": TEXT,
                "safetyRatings": _RATINGS,
            },
        ),
        "usageMetadata": object_of(
            {},
            {
                "promptTokenCount": COUNT,
                "cachedContentTokenCount": COUNT,
                "candidatesTokenCount": COUNT,
                "toolUsePromptTokenCount": COUNT,
                "thoughtsTokenCount": COUNT,
                "totalTokenCount": COUNT,
                "promptTokensDetails": _DETAILS,
                "cacheTokensDetails": _DETAILS,
                "candidatesTokensDetails": _DETAILS,
                "toolUsePromptTokensDetails": _DETAILS,
                "trafficType": TEXT,
            },
        ),
        "modelVersion": TEXT,
        "responseId": TEXT,
        "createTime": TEXT,
        "modelStatus": OBJECT,
    },
)
"""A chunk."""

ERROR = object_of(
    {
        "error": object_of(
            {"code": COUNT, "message": TEXT, "status": _STATUS}, {"details": array(OBJECT)}
        )
    }
)
"""Payload of a failed stream, in place of a chunk."""


_CONSTANT = {"responseId": str, "modelVersion": str}
_REQUIRED_ONE_OF = ("candidates", "promptFeedback", "usageMetadata")
_SUMMED = (
    "promptTokenCount",
    "candidatesTokenCount",
    "toolUsePromptTokenCount",
    "thoughtsTokenCount",
)


class GeminiChecker(Checker):
    """Strict validator of one Gemini stream."""

    rejects_id_and_retry = True
    rejects_comments = True

    def __init__(self) -> None:
        self._constants: dict[str, object] = {}  # fields that are equal in all chunks
        self._candidates: dict[int, CandidateChecker] = {}
        self._next = 0
        self._blocked = False
        self._failed = False  # an error was sent

    def read(self, frame: Frame) -> Iterator[str]:
        if self._failed:
            yield "frame after an error, expected nothing"
            return
        if frame.event != "message":
            yield "event line, expected data lines alone"
        chunk, wrong = parse_object(frame.data)
        yield from wrong
        if chunk is None:
            return
        if "error" in chunk:
            self._failed = True
            yield from problems(ERROR, chunk, "")
            if len(chunk) > 1:
                yield f"error beside {len(chunk) - 1} fields, expected it alone"
            return
        yield from problems(CHUNK, chunk, "")
        yield from self._check_chunk(chunk)

    def missing(self) -> list[str]:
        if self._failed or self._blocked:
            return []
        if not self._candidates:
            return ["no candidate, expected one"]
        lacking: list[str] = []
        for index, candidate in self._candidates.items():
            lacking += candidate.report_open("the stream ends")
            if not candidate.finished:
                lacking.append(f"no finishReason of candidate {index}, expected one")
        return lacking

    def _check_chunk(self, chunk: dict[str, Any]) -> Iterator[str]:
        if not any(name in chunk for name in _REQUIRED_ONE_OF):
            yield f"chunk without {', '.join(_REQUIRED_ONE_OF)}, expected one of them"
        yield from changed_fields(self._constants, chunk, _CONSTANT)
        feedback = chunk.get("promptFeedback")
        if is_object(feedback) and finish_reason_of(feedback.get("blockReason")):
            self._blocked = True
        found = chunk.get("candidates")
        candidates: list[object] = found if is_array(found) else []
        if candidates and self._blocked:
            yield f"{len(candidates)} candidates with a blockReason, expected none"
        seen: set[int] = set()
        for number, candidate in enumerate(candidates):
            if is_object(candidate) and is_count(index := candidate.get("index", 0)):
                if index in seen:
                    yield f"candidates[{number}].index is {index} again, expected another"
                seen.add(index)
                yield from self._check_candidate(index, candidate, f"candidates[{number}]")
        if is_object(usage := chunk.get("usageMetadata")):
            yield from _check_counts(usage)

    def _check_candidate(self, index: int, candidate: dict[str, Any], where: str) -> Iterator[str]:
        known = self._candidates.get(index)
        if known is None:
            known = self._candidates[index] = CandidateChecker(index)
            if index > self._next:
                yield f"candidate {index} begins, expected candidate {self._next}"
            self._next = max(self._next, index + 1)
        yield from known.read(candidate, where)


def _check_counts(usage: dict[str, Any]) -> Iterator[str]:
    """Yield token counts that contradict each other."""
    counts = [usage.get(name, 0) for name in _SUMMED]
    total = usage.get("totalTokenCount", 0)
    if is_count(total) and all(is_count(count) for count in counts) and total != sum(counts):
        yield f"usageMetadata.totalTokenCount is {total}, expected {sum(counts)}"
    prompt, cached = counts[0], usage.get("cachedContentTokenCount", 0)
    if is_count(prompt) and is_count(cached) and cached > prompt:
        yield f"usageMetadata.cachedContentTokenCount is {cached}, expected at most {prompt}"


class CandidateChecker:
    """Strict validator of one candidate of a stream.

    Args:
        index: Index of the candidate.

    Attributes:
        finished: Whether a finishReason was sent, and no content since.
    """

    def __init__(self, index: int) -> None:
        self.finished = False
        self._index = index
        self._call_is_open = False

    def read(self, candidate: dict[str, Any], where: str) -> Iterator[str]:
        """Yield the violations in a candidate's next chunk, except wrong field names and types.

        Args:
            candidate: An entry of `candidates`.
            where: Path of the entry.
        """
        content = candidate.get("content")
        parts = content.get("parts") if is_object(content) else None
        for number, part in enumerate(parts if is_array(parts) else ()):
            if is_object(part):
                yield from self._check_part(part, f"{where}.content.parts[{number}]")
        grounding = candidate.get("groundingMetadata")
        if is_object(grounding):
            yield from _check_sources(grounding, f"{where}.groundingMetadata")
        content_fields = [_content_of(part) for part in objects_of(parts)]
        last = next((field for field in reversed(content_fields) if field), "")
        if last:
            self.finished = False
        if finish_reason_of(candidate.get("finishReason")):
            self.finished = last != "executableCode"  # its result follows
            yield from self.report_open("finishReason")

    def report_open(self, what: str) -> Iterator[str]:
        """Yield one violation if a call is still open when `what` arrives."""
        if self._call_is_open:
            self._call_is_open = False
            yield f"{what} while a call of candidate {self._index} goes on, expected its end"

    def _check_part(self, part: dict[str, Any], where: str) -> Iterator[str]:
        data = [name for name in DATA if name in part]
        if len(data) > 1:
            yield f"{where} holds {' and '.join(data)}, expected one of them"
        elif part.keys() <= MODIFIERS.keys():
            yield f"{where} holds no data, expected one field of it"
        if is_object(call := part.get("functionCall")):
            yield from self._check_call(call, f"{where}.functionCall")

    def _check_call(self, call: dict[str, Any], where: str) -> Iterator[str]:
        if "name" in call:
            yield from self.report_open("another call")
        elif not self._call_is_open:
            yield f"{where}.name is missing, expected one, since no call goes on"
        entries = call.get("partialArgs")
        continues = call.get("willContinue") is True
        for number, entry in enumerate(entries if is_array(entries) else ()):
            if not is_object(entry):
                continue
            continues = continues or entry.get("willContinue") is True
            values = [name for name in VALUES if name in entry]
            if len(values) > 1:
                found = f"{where}.partialArgs[{number}] holds {' and '.join(values)}"
                yield f"{found}, expected one of them"
        self._call_is_open = continues


def _content_of(part: dict[str, Any]) -> str:
    """Return the name of a part's data field; "" if the part is empty text."""
    return next((name for name in DATA if name in part and part[name] != ""), "")


def _check_sources(grounding: dict[str, Any], where: str) -> Iterator[str]:
    """Yield a violation for each grounding support that refers to a missing source."""
    chunks, supports = grounding.get("groundingChunks", []), grounding.get("groundingSupports")
    if not is_array(chunks) or not is_array(supports):
        return
    for number, support in enumerate(supports):
        indices = support.get("groundingChunkIndices") if is_object(support) else None
        for index in indices if is_array(indices) else ():
            if is_count(index) and index >= len(chunks):
                found = f"{where}.groundingSupports[{number}] names groundingChunks[{index}]"
                yield f"{found}, expected one of {len(chunks)}"
