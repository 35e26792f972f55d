"""Detection of Gemini frames and of the terminal."""

from __future__ import annotations

import json

import pytest

from streamnorm.dialects.gemini import DIALECT
from streamnorm.sse import Frame


@pytest.mark.parametrize(
    ("payload", "ours"),
    [
        ({"candidates": []}, True),
        ({"usageMetadata": {}}, True),
        ({"promptFeedback": {}}, True),
        ({"response": {"candidates": []}}, True),
        ({"response": {"id": "resp_1"}}, False),
        ({"choices": []}, False),
        ({"candidates": 1}, False),
        ([], False),
    ],
    ids=json.dumps,
)
def test_frame_is_recognised_by_its_fields(payload: object, ours: bool) -> None:
    assert DIALECT.recognises(Frame("message", json.dumps(payload))) is ours


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        ({"candidates": [{"finishReason": "STOP"}]}, True),
        ({"candidates": [{}, {"finishReason": 1}]}, True),
        ({"promptFeedback": {"blockReason": "SAFETY"}}, True),
        ({"candidates": [{"finishReason": ""}, None]}, False),
        ({"candidates": 5, "promptFeedback": {}}, False),
        ([], False),
    ],
    ids=json.dumps,
)
def test_terminal_has_a_finish_or_block_reason(payload: object, expected: bool) -> None:
    assert DIALECT.is_terminal(Frame("message", json.dumps(payload))) is expected
