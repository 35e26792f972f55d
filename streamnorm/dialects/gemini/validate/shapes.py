"""Shapes of Gemini's chunks, parts and errors.

https://ai.google.dev/api/generate-content and the types of the official SDK (read
2026-11-22).  Other fields are allowed; empty fields are left out, never null.  Undocumented
enumeration values are violations: the vendor's client warns of them.
"""

from __future__ import annotations

import re

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
    object_of,
    word,
)


def _base64(symbols: str) -> str:
    """Return a pattern of padded Base64 whose last symbol has no surplus bits."""
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
