"""Detection of Chat Completions frames and of the terminal."""

from __future__ import annotations

import json

import pytest

from streamnorm.dialects.openai_chat.detect import is_terminal, recognises
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
