"""Detection of Anthropic frames, and of those that end a stream."""

from __future__ import annotations

import pytest

from streamnorm.dialects.anthropic.detect import EVENT_TYPES, may_end_stream, recognises
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
    ("payload", "is_last"),
    [
        ({"type": "message_stop"}, True),
        ({"type": "message_delta"}, True),
        ({"type": "error"}, True),
        ({"error": {"message": "no"}}, True),
        ({"type": "content_block_stop", "index": 0}, False),
        ({"type": "ping"}, False),
        ([], False),
        (None, False),
    ],
)
def test_last_frame_is_known_by_its_payload(payload: object, *, is_last: bool) -> None:
    assert may_end_stream(payload) is is_last
