"""Detection of Anthropic frames and of the terminal."""

from __future__ import annotations

import pytest

from streamnorm.dialects.anthropic.detect import EVENT_TYPES, is_terminal, recognises
from streamnorm.sse import Frame


@pytest.mark.parametrize("type", sorted(EVENT_TYPES))
def test_event_is_recognised_by_the_type_of_its_payload(type: str) -> None:
    payload = f'{{"index": 0, "type": "{type}"}}'
    assert recognises(Frame("message", payload))
    assert not recognises(Frame(type, "{}"))


@pytest.mark.parametrize(
    "data",
    ["", "[DONE]", "[]", '{"type":"response.created"}', '{"type":["ping"]}', '{"type":"ping"'],
)
def test_other_frame_is_not_recognised(data: str) -> None:
    assert not recognises(Frame("message_start", data))


@pytest.mark.parametrize(
    ("data", "expected"),
    [('{"type":"message_stop"}', True), ("{}", True), ('{"type":"message_delta"}', False)],
)
def test_terminal_is_message_stop_by_its_type_or_its_name(data: str, *, expected: bool) -> None:
    assert is_terminal(Frame("message_stop", data)) is expected
