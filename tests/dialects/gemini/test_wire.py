"""Typed decoding accepts chunks of plain text alone, and JSON text of arguments is kept."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from streamnorm.dialects.gemini.wire import decode_text, raw_parts


def chunk(part: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"candidates": [{"content": {"parts": [part], "role": "model"}, **fields}]}


def test_plain_text_is_read() -> None:
    payload = chunk({"text": "a", "thought": True}, index=0)
    details = [{"modality": "TEXT", "tokenCount": 1}]
    counts = {"promptTokenCount": 1, "totalTokenCount": 4, "promptTokensDetails": details}
    payload |= {"usageMetadata": counts, "responseId": "r", "modelVersion": "m"}
    read = decode_text(json.dumps(payload))
    assert (
        read.candidates[0].content.parts[0].text,
        read.candidates[0].content.parts[0].thought,
    ) == ("a", True)
    assert read.usage_metadata is not None
    assert (read.usage_metadata.prompt_token_count, read.usage_metadata.total_token_count) == (1, 4)
    assert json.loads(bytes(read.usage_metadata.prompt_tokens_details)) == details


@pytest.mark.parametrize(
    "payload",
    [
        chunk({"text": "a", "thoughtSignature": "s"}),
        chunk({"text": "a", "partMetadata": {}}),
        chunk({"functionCall": {"name": "f"}}),
        chunk({"text": "a"}, finishReason="STOP"),
        chunk({"text": "a"}, index=1),
        chunk({"text": "a"}, safetyRatings=[]),
        chunk({"text": "a"}) | {"error": {"code": 500}},
        chunk({"text": "a"}) | {"turnToken": "v1"},
        chunk({"text": "a"}) | {"promptFeedback": {"blockReason": "SAFETY"}},
        {"candidates": [{"content": None}]},
        {"usageMetadata": {}},
        {"response": chunk({"text": "a"})},
        chunk({"text": "a"}) | {"usageMetadata": {"promptTokenCount": -1}},
        chunk({"text": "a"}) | {"usageMetadata": {"promptTokenCount": True}},
        chunk({"text": "a"}) | {"usageMetadata": {"promptTokenCount": 4.0}},
        chunk({"text": "a"}) | {"usageMetadata": {"oddTokenCount": 1}},
        {"candidates": chunk({"text": "a"})["candidates"] * 2},
        {"candidates": [{"content": {"parts": [{"text": "a"}, {"text": "b"}]}}]},
    ],
    ids=json.dumps,
)
def test_chunk_with_other_fields_is_not_a_text_chunk(payload: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        decode_text(json.dumps(payload))


def test_arguments_keep_their_json_text() -> None:
    call = '{"functionCall": {"name": "f", "args": {"a" : 1.0,  "b":"\\u00e4"}}}'
    text = f'{{"candidates": [{{"content": {{"parts": [{{"text": "x"}}, {call}]}}}}, {{}}]}}'
    (first, second), nothing = raw_parts(text)
    assert nothing == []
    assert first.function_call is None
    assert second.function_call is not None
    assert bytes(second.function_call.args) == b'{"a" : 1.0,  "b":"\\u00e4"}'
    assert [len(parts) for parts in raw_parts(f'{{"response": {text}}}')] == [2, 0]
