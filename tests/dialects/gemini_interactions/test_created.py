"""The time of an interaction that whoever stores it states."""

from __future__ import annotations

import json

from streamnorm import MessageStart
from streamnorm.codec import encoder
from streamnorm.dialects.gemini_interactions.traits import STORED
from streamnorm.sse import SSEDecoder


def test_time_of_whoever_stores_an_interaction_stands_in_its_first_event() -> None:
    fields = STORED.created_fields(1_790_000_000.9)
    assert fields == {"created": "2026-09-21T14:13:20Z"}
    writer = encoder("gemini_interactions")
    writer.response_fields = fields
    [created, _] = SSEDecoder().feed(writer.encode(MessageStart("i", "m")))
    assert json.loads(created.data)["interaction"]["created"] == "2026-09-21T14:13:20Z"
