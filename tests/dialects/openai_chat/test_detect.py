"""Detection of Chat Completions frames, of the terminal, and of whole bodies."""

from __future__ import annotations

import json
from typing import Any

import pytest

from streamnorm.dialects.openai_chat.traits import is_request, is_response, is_terminal, recognises
from streamnorm.sse import Frame

CHUNK = {"object": "chat.completion.chunk", "choices": []}


@pytest.mark.parametrize(
    ("data", "event", "expected"),
    [
        ("[DONE]", "message", True),
        (json.dumps(CHUNK), "message", True),
        ('{"object": "chat.completion.chunk"}', "message", True),
        ('{"choices": []}', "message", True),
        ('{"error": {"message": "no"}}', "message", True),
        ("no json", "error", True),
        ("no json", "message", False),
        ('{"type": "error", "error": {"message": "no"}}', "error", False),
        ('{"type": "message_start"}', "message_start", False),
    ],
)
def test_recognises_chunks_done_and_untyped_errors(
    data: str, event: str, *, expected: bool
) -> None:
    assert recognises(Frame(event, data)) is expected


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ("[DONE]", True),
        ("[DONE] ", True),
        ('{"choices": [{"finish_reason": "stop"}]}', False),
        ('{"error": {"message": "no"}}', False),
    ],
)
def test_done_alone_is_terminal(data: str, *, expected: bool) -> None:
    assert is_terminal(Frame("message", data)) is expected


HI = {"role": "user", "content": "Hi"}


@pytest.mark.parametrize(
    "fields",
    [
        {"messages": [HI], "max_completion_tokens": 1},
        {"messages": [HI], "stream_options": {"include_usage": True}},
        {"messages": [HI], "tools": [{"type": "function", "function": {"name": "f"}}]},
        {"messages": [HI], "tools": [{"type": "custom", "custom": {"name": "f"}}]},
        {"messages": [{"role": "system", "content": "Hi"}, HI]},
        {"messages": [HI, {"role": "developer", "content": "Hi"}]},
        {"messages": [HI, {"role": "tool", "tool_call_id": "c", "content": "ok"}]},
        {"messages": [HI, {"role": "assistant", "tool_calls": []}]},
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]},
    ],
)
def test_a_request_is_known_by_what_no_other_dialect_has(fields: dict[str, Any]) -> None:
    assert is_request({"model": "m", **fields})


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"messages": {}},
        {"messages": []},
        {"messages": [HI]},
        {"messages": [HI], "max_tokens": 1},
        {"messages": [HI], "max_tokens": 1, "tools": [{"name": "f", "input_schema": {}}]},
        {"messages": [HI], "max_tokens": 1, "system": "Hi", "seed": 1},
        {"messages": [HI, {"role": "system", "content": "Hi"}], "max_tokens": 1},
        {"messages": [5, {"role": [], "content": 5}], "max_tokens": 1},
        {"messages": [{"role": "user", "content": [{"type": []}, {"type": "text"}]}]},
        {"contents": [], "messages": [{"role": "tool"}]},
        {"input": "Hi", "stream_options": {}},
        {"prompt": "Hi", "n": 1},
    ],
)
def test_other_requests_are_not_of_this_dialect(fields: dict[str, Any]) -> None:
    assert not is_request({"model": "m", **fields})


@pytest.mark.parametrize(
    ("body", "known"),
    [
        ({"object": "chat.completion", "choices": []}, True),
        ({"choices": [{"message": {"content": "Hi"}}]}, True),
        ({"object": "chat.completion.chunk", "choices": [{"delta": {}}]}, False),
        ({"object": "text_completion", "choices": [{"text": "Hi"}]}, False),
        ({"error": {"message": "no"}}, False),
        ({"choices": 5}, False),
        ({}, False),
    ],
)
def test_a_response_is_known_by_its_object_or_its_message(
    body: dict[str, Any], known: bool
) -> None:
    assert is_response(body) is known
