"""Fields of a response that whoever stores it states."""

from __future__ import annotations

import json
from typing import Any

from streamnorm import MessageStart, StreamError
from streamnorm.codec import encoder
from streamnorm.dialects.openai_responses.traits import STORED
from streamnorm.sse import SSEDecoder


def failed_with(**fields: Any) -> list[dict[str, Any]]:
    """Return the responses in the events of a stream that fails."""
    writer = encoder("openai_responses")
    writer.response_fields = fields
    start = MessageStart("resp_1", "m", {"created_at": 5})
    data = writer.encode(start) + writer.encode(StreamError("upstream", "no"))
    events = [json.loads(frame.data) for frame in SSEDecoder().feed(data)]
    return [event["response"] for event in events if "response" in event]


def test_time_of_whoever_stores_a_response_stands_in_all_events() -> None:
    found = failed_with(**STORED.created_fields(1_790_000_000.9))
    assert {response["created_at"] for response in found} == {1_790_000_000}


def test_failed_response_is_stored_if_it_was_made_in_the_background() -> None:
    assert failed_with(store=True)[-1]["store"] is False
    assert failed_with(store=True, background=True)[-1]["store"] is True
