"""Chunks written by the encoder."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from streamnorm import Event, MessageStart, MessageStop
from streamnorm.codec import encoder

START = MessageStart("m", "model")
STOP = MessageStop("end_turn")


def written(events: Iterable[Event], **options: Any) -> list[Any]:
    """Return events as chunks, with `[DONE]` and comments as text."""
    writer = encoder("ui_message_stream", **options)
    data = b"".join(writer.encode(event) for event in events).decode()
    assert "\r" not in data
    chunks = []
    for frame in data.split("\n\n")[:-1]:
        text = frame.removeprefix("data: ")
        chunks.append(json.loads(text) if text.startswith("{") else text)
    return chunks


def middle(*events: Event) -> list[Any]:
    """Return events as chunks, without the message's start and end."""
    return written([START, *events, STOP])[2:-3]
