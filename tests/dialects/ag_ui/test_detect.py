"""Detection of AG-UI."""

from __future__ import annotations

import pytest

from streamnorm import detect
from streamnorm.dialects.ag_ui.traits import is_request, is_terminal
from streamnorm.sse import Frame


def test_frames_are_detected() -> None:
    assert detect(Frame("message", '{"type":"RUN_STARTED","threadId":"t","runId":"r"}')) == "ag_ui"
    assert detect(Frame("message", '{"type":"text-start","id":"0"}')) != "ag_ui"


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ('{"type":"RUN_FINISHED"}', True),
        ('{"type":"RUN_ERROR"}', True),
        ('{"type":"TEXT_MESSAGE_END"}', False),
        ("[DONE]", False),
    ],
)
def test_terminal(data: str, expected: bool) -> None:
    assert is_terminal(Frame("message", data)) is expected


def test_request_has_a_thread_a_run_and_messages() -> None:
    body: dict[str, object] = {"threadId": "t", "runId": "r", "messages": []}
    assert is_request(body)
    assert is_request({**body, "tools": []})
    assert not is_request({"threadId": "t", "runId": "r", "tools": []})
