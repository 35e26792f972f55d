"""Builders of UI message chunks, and helpers to decode them."""

from __future__ import annotations

import json
from typing import Any

from streamnorm import Completed, Event, Failed, StreamError, Truncated
from streamnorm.codec import Decoder, decoder

__all__ = [
    *("FINISH", "PM", "START", "STEP", "UI"),
    *("delta", "end", "failure", "frames", "middle", "read", "start", "tool"),
]

UI = "ui_message_stream"
START = {"type": "start", "messageId": "m"}
STEP = {"type": "start-step"}
FINISH = {"type": "finish", "finishReason": "stop"}
PM = {"anthropic": {"signature": "s"}}


def frames(*chunks: Any) -> bytes:
    """Return the frames of chunks, each a value or JSON text."""
    texts = [each if isinstance(each, str) else json.dumps(each) for each in chunks]
    return b"".join(b"data: %b\n\n" % text.encode() for text in texts)


def read(*chunks: Any, **options: Any) -> tuple[list[Event], Decoder]:
    """Decode chunks, each a value or JSON text, in one read."""
    reader = decoder(UI, **options)
    events = reader.feed(frames(*chunks))
    return events + reader.close(), reader


def middle(*chunks: Any) -> list[Event]:
    """Return the events between a complete message's start and end."""
    events, reader = read(START, STEP, *chunks, FINISH, "[DONE]")
    assert isinstance(reader.outcome, Completed), reader.outcome
    return events[1:-1]


def failure(*chunks: Any, **options: Any) -> StreamError:
    """Return the error that ends a message."""
    events, reader = read(START, STEP, *chunks, **options)
    assert isinstance(reader.outcome, Failed | Truncated)
    assert isinstance(events[-1], StreamError)
    return events[-1]


def start(kind: str, id: str = "0", **fields: Any) -> dict[str, Any]:
    """Return a part's start chunk."""
    return {"type": f"{kind}-start", "id": id, **fields}


def delta(kind: str, text: str, id: str = "0", **fields: Any) -> dict[str, Any]:
    """Return a part's delta chunk."""
    return {"type": f"{kind}-delta", "id": id, "delta": text, **fields}


def end(kind: str, id: str = "0", **fields: Any) -> dict[str, Any]:
    """Return a part's end chunk."""
    return {"type": f"{kind}-end", "id": id, **fields}


def tool(kind: str, id: str = "c", **fields: Any) -> dict[str, Any]:
    """Return a tool call chunk."""
    named = {"toolName": "f"} if kind.startswith("input") and kind != "input-delta" else {}
    return {"type": f"tool-{kind}", "toolCallId": id, **named, **fields}
