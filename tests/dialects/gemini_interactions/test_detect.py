"""Detection of the terminal of an interaction, and of its bodies."""

from __future__ import annotations

from typing import Any

import pytest

from streamnorm import detect
from streamnorm.dialects.gemini_interactions.traits import is_request, is_response, is_terminal
from streamnorm.sse import Frame


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ('{"event_type":"interaction.completed"}', True),
        ('{"event_type":"interaction.complete"}', True),
        ("[DONE]", True),
        ('{"event_type":"interaction.created"}', False),
        ('{"event_type":"interaction.status_update","status":"completed"}', False),
        ("{", False),
    ],
)
def test_terminal_is_the_completion_or_done(data: str, *, expected: bool) -> None:
    assert is_terminal(Frame("message", data)) is expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"input": "q"}, False),
        ({"input": "q", "system_instruction": "s"}, True),
        ({"input": [{"type": "thought"}]}, True),
        ({"input": {"type": "image", "uri": "u"}}, True),
        ({"input": [{"type": "input_text"}]}, False),
        ({"input": [{"type": []}, 7]}, False),
        ({"input": None, "generation_config": {}}, False),
        ({"input": "q", "generation_config": {}, "messages": []}, False),
        ({"input": "q", "generation_config": {}, "contents": []}, False),
    ],
)
def test_request_is_known_by_its_fields_and_steps(body: dict[str, Any], *, expected: bool) -> None:
    assert is_request(body) is expected


def test_interaction_is_known_by_its_object() -> None:
    body = {"object": "interaction", "status": "completed"}
    assert is_response(body)
    assert detect(body) == "gemini_interactions"
    assert not is_response({"object": "interaction"})
    assert not is_response({"object": "response", "status": "completed"})
