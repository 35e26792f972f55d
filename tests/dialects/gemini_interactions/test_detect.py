"""Detection of the terminal of an interaction."""

from __future__ import annotations

import pytest

from streamnorm.dialects.gemini_interactions.traits import is_terminal
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
