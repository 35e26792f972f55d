"""Fields of AG-UI that the protocol does not have."""

from __future__ import annotations

import json

from streamnorm import BlockStart
from streamnorm.codec import decoder


def test_unknown_fields_of_a_start_are_kept() -> None:
    reader = decoder("ag_ui")
    text = {"type": "TEXT_MESSAGE_START", "messageId": "a", "role": "assistant"}
    call = {"type": "TOOL_CALL_START", "toolCallId": "c", "toolCallName": "f"}
    events = [
        event
        for payload in (
            {"type": "RUN_STARTED", "threadId": "t", "runId": "r"},
            {**text, "tone": "calm", "timestamp": 1},
            {**call, "weight": 2},
        )
        for event in reader.feed(b"data: %b\n\n" % json.dumps(payload).encode())
    ]
    starts = [event for event in events if isinstance(event, BlockStart)]
    assert [start.extra for start in starts] == [{"tone": "calm"}, {"weight": 2}]
