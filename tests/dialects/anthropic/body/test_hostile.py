"""Bodies in which any one value is of another type: only our own errors are raised."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from support.anthropic.bodies import Body, asked, parts_of

from streamnorm import (
    StreamnormError,
    decode_message,
    decode_request,
    detect,
    encode_message,
    encode_request,
)

MARK = {"type": "ephemeral", "ttl": "1h"}
SOURCE = {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="}
CITED = {
    "type": "web_search_result_location",
    "url": "u",
    "title": "t",
    "cited_text": "c",
    "encrypted_index": "e",
}
ANSWER: list[Body] = [
    {"type": "thinking", "thinking": "a", "signature": "s"},
    {"type": "redacted_thinking", "data": "d"},
    {"type": "text", "text": "b", "citations": [CITED]},
    {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"q": "a"}},
    {"type": "web_search_tool_result", "tool_use_id": "s", "content": []},
    {"type": "container_upload", "file_id": "f"},
    {"type": "tool_use", "id": "c", "name": "f", "input": {"a": 1}},
]
RESULT: Body = {
    "type": "tool_result",
    "tool_use_id": "c",
    "content": [
        {"type": "text", "text": "r"},
        {"type": "image", "source": {"type": "url", "url": "u"}},
        {"type": "document", "source": SOURCE, "title": "t", "cache_control": MARK},
        {
            "type": "search_result",
            "source": "s",
            "title": "t",
            "content": [{"type": "text", "text": "x"}],
        },
    ],
    "is_error": True,
}
REQUEST = asked(
    system=[{"type": "text", "text": "s", "cache_control": MARK}],
    messages=[
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": ANSWER},
        {"role": "user", "content": [RESULT]},
        {
            "role": "system",
            "content": [{"type": "tool_addition", "tool": {"type": "tool_reference"}}],
            "clear_at": "never",
        },
    ],
    tools=[
        {"name": "f", "description": "d", "input_schema": {"type": "object"}, "strict": True},
        {"type": "bash_20250124", "name": "bash"},
        {"type": "web_search_20250305", "name": "web_search", "allowed_domains": ["a"]},
        {
            "type": "mcp_toolset",
            "mcp_server_name": "w",
            "default_config": {"enabled": False},
            "configs": {"r": {"enabled": True}},
        },
    ],
    mcp_servers=[
        {
            "type": "url",
            "name": "w",
            "url": "u",
            "authorization_token": "t",
            "tool_configuration": {"allowed_tools": ["r"]},
        }
    ],
    tool_choice={"type": "tool", "name": "f", "disable_parallel_tool_use": True},
    thinking={"type": "enabled", "budget_tokens": 4, "display": "updates"},
    output_config={"effort": "low", "format": {"type": "json_schema", "schema": {}}},
    context_management={
        "edits": [
            {"type": "compact_20260112", "trigger": {"type": "input_tokens", "value": 9}},
            {"type": "clear_thinking_20251015"},
        ]
    },
    metadata={"user_id": "u"},
    cache_control=MARK,
    stop_sequences=["x"],
    service_tier="auto",
    temperature=0.5,
)
RESPONSE: Body = {
    "id": "m",
    "type": "message",
    "role": "assistant",
    "model": "claude-1",
    "content": ANSWER,
    "stop_reason": "tool_use",
    "stop_sequence": None,
    "stop_details": None,
    "container": {"id": "c"},
    "usage": {"input_tokens": 1, "output_tokens": 2, "output_tokens_details": {"t": 1}},
}
ODD: tuple[Any, ...] = (
    *(None, True, -1, 1.5, 10**30, "", "\ud800", [], ["a"], [[]], {}, {"type": ["a"]}),
    *({"type": "text", "text": "t"}, "text", "tool_use", "url", "ephemeral"),
)


def variants(value: Any) -> Iterator[Any]:
    """Yield a JSON value with each value in it replaced by each odd one, or left out."""
    yield from ODD
    if isinstance(value, dict):
        for name, item in value.items():
            yield {other: kept for other, kept in value.items() if other != name}
            yield from ({**value, name: variant} for variant in variants(item))
    elif isinstance(value, list):
        for at, item in enumerate(value):
            yield from ([*value[:at], variant, *value[at + 1 :]] for variant in variants(item))


def fields_of(body: Body) -> Iterator[Body]:
    """Yield the variants of a body that are objects."""
    return (variant for variant in variants(body) if isinstance(variant, dict))


def test_request_with_an_odd_value_is_read_and_written_or_refused() -> None:
    read = 0
    for body in fields_of(REQUEST):
        detect(body)
        try:
            request = decode_request(body, "anthropic")
            again = encode_request(parts_of(request), "anthropic", repair="fill", arguments="raw")
            decode_request(again.body, "anthropic")
        except StreamnormError:
            continue
        read += 1
    assert read > 500


def test_response_with_an_odd_value_is_read_and_written_or_refused() -> None:
    read = 0
    for body in fields_of(RESPONSE):
        detect(body)
        try:
            message = decode_message(body, "anthropic")
            again = encode_message(message, "anthropic")
            decode_message(again.body, "anthropic")
        except StreamnormError:
            continue
        read += 1
    assert read > 100


@pytest.mark.parametrize("depth", [20, 10_000])
def test_nesting_is_bounded(depth: int) -> None:
    deep: Any = 1
    for _ in range(depth):
        deep = [deep]
    body = asked(messages=[{"role": "assistant", "content": [{"type": "odd", "a": deep}]}])
    if depth < 100:
        assert encode_request(decode_request(body, "anthropic"), "anthropic").body == body
        return
    with pytest.raises(StreamnormError, match="nested deeper"):
        decode_request(body, "anthropic")
