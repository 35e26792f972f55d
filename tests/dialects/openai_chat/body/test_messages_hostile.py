"""Bodies with every member changed: each is read and written again, or refused by our own error."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec import structs
from support.bodies.json_mutations import json_mutations
from support.openai_chat.requests import read, without_source, write

from streamnorm import (
    DecodeError,
    EncodeError,
    UpstreamError,
    decode_message,
    decode_request,
    encode_message,
    encode_request,
)

MESSAGES: dict[str, dict[str, Any]] = {
    "user": {
        "role": "user",
        "name": "bob",
        "content": [
            {"type": "text", "text": "a", "prompt_cache_breakpoint": {"mode": "explicit"}},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}},
            {"type": "input_audio", "input_audio": {"data": "aGk=", "format": "wav"}},
            {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:;base64,aGk="}},
        ],
    },
    "assistant": {
        "role": "assistant",
        "content": "a",
        "refusal": "b",
        "reasoning_content": "c",
        "audio": {"id": "x"},
        "tool_calls": [
            {
                "id": "c1",
                "type": "function",
                "function": {"name": "f", "arguments": "{}"},
                "extra_content": {"google": {"thought_signature": "s"}},
            },
            {"id": "c2", "type": "custom", "custom": {"name": "p", "input": "x"}},
        ],
    },
    "details": {
        "role": "assistant",
        "reasoning_details": [
            {"type": "reasoning.text", "text": "a", "signature": "s", "format": "x"},
            {"type": "reasoning.encrypted", "data": "d", "id": "c1", "format": "google-gemini-v1"},
        ],
        "function_call": {"name": "f", "arguments": "{}"},
    },
    "tool": {"role": "tool", "tool_call_id": "c1", "content": "<tool_error>a</tool_error>"},
}
OPTIONS: dict[str, Any] = {
    "model": "m",
    "messages": [{"role": "user", "content": "a"}],
    "tools": [
        {"type": "function", "function": {"name": "f", "parameters": {}, "strict": True}},
        {
            "type": "custom",
            "custom": {
                "name": "p",
                "format": {"type": "grammar", "grammar": {"syntax": "lark", "definition": "x"}},
            },
        },
    ],
    "tool_choice": {
        "type": "allowed_tools",
        "allowed_tools": {
            "mode": "auto",
            "tools": [{"type": "function", "function": {"name": "f"}}],
        },
    },
    "response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": {}}},
    "stop": ["a"],
    "max_completion_tokens": 1,
    "metadata": {"k": "v"},
    "reasoning": {"effort": "low"},
    "stream": True,
    "stream_options": {"include_usage": True},
    "prompt_cache_options": {"mode": "implicit", "ttl": "30m"},
    "web_search_options": {"search_context_size": "low"},
    "logprobs": True,
    "n": 1,
}
RESPONSE: dict[str, Any] = {
    "id": "a",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "choices": [
        {
            "index": 0,
            "finish_reason": "stop",
            "message": {
                "role": "assistant",
                "content": "a",
                "annotations": [{"type": "url_citation", "url_citation": {"url": "u"}}],
                "reasoning_details": MESSAGES["details"]["reasoning_details"],
                "tool_calls": MESSAGES["assistant"]["tool_calls"],
            },
        }
    ],
    "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3},
    "service_tier": "default",
}
BODIES = {
    **{name: {"model": "m", "messages": [value]} for name, value in MESSAGES.items()},
    "options": OPTIONS,
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_a_changed_request_is_refused_or_stays_as_it_is(body: dict[str, Any]) -> None:
    accepted = 0
    for name, text in json_mutations(json.dumps(body)):
        try:
            request = decode_request(text, "openai_chat")
        except DecodeError:
            continue
        accepted += 1
        encoded = encode_request(request, "openai_chat")
        halved = ["half_character"] if r'"\ud83d"' in text else []
        assert [loss.feature for loss in encoded.losses] == halved, name
        assert encoded.body == request.source.value, name
        try:
            anew = write(without_source(request))
        except EncodeError:  # for a file in a message of the assistant
            continue
        again = without_source(read(anew))
        assert write(again) == anew, name
    assert accepted


def test_a_changed_response_is_refused_or_written_again() -> None:
    accepted = 0
    for name, text in json_mutations(json.dumps(RESPONSE)):
        try:
            message = decode_message(text, "openai_chat")
        except (DecodeError, UpstreamError):
            continue
        accepted += 1
        encoded = encode_message(structs.replace(message, extra=None), "openai_chat")
        again = decode_message(json.dumps(encoded.body), "openai_chat")
        assert again.text == message.text, name
    assert accepted
