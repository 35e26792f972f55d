"""Detection of Gemini frames and of the terminal."""

from __future__ import annotations

import json
from typing import Any

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


@pytest.mark.parametrize(
    ("body", "request_", "response"),
    [
        ({"contents": [{"parts": [{"text": "Hi"}]}]}, True, False),
        ({"contents": [{"role": "user", "parts": []}], "model": "m"}, True, False),
        ({"contents": []}, False, False),
        ({"contents": ["Hi"]}, False, False),
        ({"contents": [{"text": "Hi"}]}, False, False),
        ({"contents": {"parts": []}}, True, False),
        ({"contents": {"role": "user", "parts": {"text": "Hi"}}}, True, False),
        ({"contents": {"text": "Hi"}}, False, False),
        ({"messages": []}, False, False),
        ({"candidates": [{"content": {}}]}, False, True),
        ({"response": {"candidates": [{}]}}, False, True),
        ({"promptFeedback": {"blockReason": "SAFETY"}}, False, True),
        ({"promptFeedback": {}}, False, False),
        ({"promptFeedback": 1}, False, False),
        ({"candidates": []}, False, False),
        ({"candidates": ["a"]}, False, False),
        ({"usageMetadata": {}}, False, False),
        ({"choices": []}, False, False),
        ({}, False, False),
    ],
    ids=json.dumps,
)
def test_bodies_are_recognised_only_if_no_other_dialect_has_them(
    body: dict[str, Any], request_: bool, response: bool
) -> None:
    assert DIALECT.is_request(body) is request_
    assert DIALECT.is_response(body) is response
