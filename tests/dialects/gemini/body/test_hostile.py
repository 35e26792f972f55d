"""Bodies with a single fault anywhere: read or refused with a path, and never half written."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.bodies.json_mutations import json_mutations

from streamnorm import (
    DecodeError,
    EncodeError,
    UpstreamError,
    decode_message,
    decode_request,
    encode_message,
    encode_request,
)

TARGETS = ("openai_chat", "gemini")

REQUEST: dict[str, Any] = {
    "contents": [
        {
            "role": "user",
            "parts": [
                {"text": "Hi"},
                {
                    "inlineData": {"mimeType": "image/png", "data": "AAAA"},
                    "mediaResolution": {"level": "MEDIA_RESOLUTION_LOW"},
                },
                {"fileData": {"mimeType": "application/pdf", "fileUri": "https://a.org/b.pdf"}},
            ],
        },
        {
            "role": "model",
            "parts": [
                {"text": "a", "thought": True, "thoughtSignature": "c2ln"},
                {"text": "b"},
                {"text": "c"},
                {"executableCode": {"language": "PYTHON", "code": "1"}},
                {"codeExecutionResult": {"outcome": "OUTCOME_OK"}},
                {
                    "functionCall": {"id": "1", "name": "f", "args": {"a": [1.5, "x"]}},
                    "thoughtSignature": "c2ln",
                },
                {"functionCall": {"name": "g"}},
            ],
        },
        {
            "role": "user",
            "parts": [
                {
                    "functionResponse": {
                        "id": "1",
                        "name": "f",
                        "response": {"output": "ok"},
                        "parts": [{"inlineData": {"mimeType": "image/png", "data": "AAAA"}}],
                    }
                },
                {"functionResponse": {"name": "g", "response": {"error": "no"}}},
            ],
        },
    ],
    "systemInstruction": {"role": "user", "parts": [{"text": "Be brief."}]},
    "tools": [
        {
            "functionDeclarations": [
                {
                    "name": "f",
                    "description": "d",
                    "parameters": {
                        "type": "OBJECT",
                        "properties": {"a": {"type": "ARRAY", "items": {"type": "STRING"}}},
                        "required": ["a"],
                    },
                }
            ]
        },
        {"googleSearch": {"excludeDomains": ["a.org"]}},
        {
            "mcpServers": [
                {"name": "w", "streamableHttpTransport": {"url": "u", "headers": {"A": "b"}}}
            ]
        },
    ],
    "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["f"]}},
    "generationConfig": {
        "temperature": 1.0,
        "topK": 40,
        "stopSequences": ["x"],
        "responseMimeType": "application/json",
        "responseSchema": {"type": "OBJECT", "nullable": True},
        "thinkingConfig": {"thinkingBudget": 8, "includeThoughts": True},
    },
    "serviceTier": "flex",
}
RESPONSE: dict[str, Any] = {
    "responseId": "r",
    "modelVersion": "m",
    "candidates": [
        {
            "index": 0,
            "finishReason": "STOP",
            "content": {
                "role": "model",
                "parts": [
                    {"text": "a", "thought": True},
                    {"text": "b"},
                    {"functionCall": {"id": "1", "name": "f", "args": {"t": 1}}},
                ],
            },
            "groundingMetadata": {
                "groundingChunks": [{"web": {"uri": "https://a.org"}}],
                "groundingSupports": [
                    {"segment": {"endIndex": 1, "text": "b"}, "groundingChunkIndices": [0]}
                ],
            },
        }
    ],
    "usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 4, "totalTokenCount": 7},
}


def changed(body: dict[str, Any]) -> list[str]:
    return [text for _, text in json_mutations(json.dumps(body))]


def test_a_changed_request_is_read_or_refused_and_written_whole() -> None:
    outcomes = {"refused": 0, "not written": 0, "written": 0}
    for text in changed(REQUEST):
        try:
            request = decode_request(text, "gemini")
        except DecodeError:
            outcomes["refused"] += 1
            continue
        for target in TARGETS:
            try:
                body = encode_request(request, target, repair="fill").body
            except EncodeError:
                outcomes["not written"] += 1
            else:
                outcomes["written"] += 1
                json.dumps(body).encode()
    assert outcomes["refused"] > 100
    assert outcomes["written"] > 10 * outcomes["not written"]


@pytest.mark.parametrize("target", TARGETS)
def test_a_changed_response_is_read_or_refused_and_written_whole(target: str) -> None:
    read = 0
    for text in changed(RESPONSE):
        try:
            message = decode_message(text, "gemini")
        except (DecodeError, UpstreamError):
            continue
        read += 1
        try:
            body = encode_message(message, target).body
        except EncodeError:
            continue
        json.dumps(body).encode()
    assert read > 100
