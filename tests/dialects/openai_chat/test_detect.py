"""Detection of Chat Completions frames, and of those that may end a stream."""

from __future__ import annotations

import json
from typing import Any

import pytest

from streamnorm.dialects.openai_chat.detect import may_end_stream, recognises
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
    ("value", "expected"),
    [
        ({"choices": [{"finish_reason": "stop"}]}, True),
        ({"choices": [{"finish_reason": None}, {"finish_reason": "stop"}]}, True),
        ({"choices": [{"finish_reason": None}]}, False),
        ({"choices": [{"finish_reason": ""}, None]}, False),
        ({"error": {"message": "no"}}, True),
        ({"choices": 5}, False),
        (["stop"], False),
        (None, False),
    ],
)
def test_frame_with_an_error_or_a_finish_reason_may_end_stream(
    value: Any, *, expected: bool
) -> None:
    assert may_end_stream(Frame("message", json.dumps(value)), value) is expected


@pytest.mark.parametrize("data", ["[DONE]", "[DONE] "])
def test_done_may_end_stream(data: str) -> None:
    assert may_end_stream(Frame("message", data), None)
