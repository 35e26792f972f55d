"""Builders of Responses frames, and helpers to decode them.

`decode` also reads its input byte by byte and frame by frame: the events must be the same,
and legal.
"""

from __future__ import annotations

from typing import Any

from streamnorm import Event, Message, StreamError, accumulate
from support.openai_chat.chunks import frame
from support.streams.content import Decoded, decode_in_any_pieces

__all__ = [
    "DONE",
    "START",
    "added",
    "args",
    "body",
    "call",
    "completed",
    "decode",
    "delta",
    "done",
    "event",
    "message",
    "messages",
    "part",
    "part_added",
    "part_done",
    "text",
]


def event(type: str, **fields: Any) -> bytes:
    """Return a frame with an event name; None fields are omitted."""
    present = {key: value for key, value in fields.items() if value is not None}
    return frame({"type": type, **present}, type)


START = event("response.created", response={"id": "resp_1", "model": "gpt"})
DONE = b"data: [DONE]\n\n"


def completed(*output: dict[str, Any], status: str = "completed", **fields: Any) -> bytes:
    """Return the terminal event of a status, with output items."""
    response = {"id": "resp_1", "model": "gpt", "status": status, "output": list(output), **fields}
    return event(f"response.{status}", response=response)


def added(output_index: int | None, type: str, **fields: Any) -> bytes:
    """Return an item's `added` event."""
    return event(
        "response.output_item.added", output_index=output_index, item={"type": type, **fields}
    )


def done(output_index: int | None, type: str, **fields: Any) -> bytes:
    """Return an item's `done` event."""
    return event(
        "response.output_item.done", output_index=output_index, item={"type": type, **fields}
    )


def delta(kind: str, text: str, output_index: int | None = 0, **fields: Any) -> bytes:
    """Return a delta of a kind, such as `output_text`."""
    return event(f"response.{kind}.delta", output_index=output_index, delta=text, **fields)


def text(
    delta_text: str, output_index: int | None = 0, content_index: int | None = 0, **fields: Any
) -> bytes:
    """Return an `output_text` delta."""
    return delta("output_text", delta_text, output_index, content_index=content_index, **fields)


def args(fragment: str, output_index: int | None = 0, **fields: Any) -> bytes:
    """Return a function call arguments delta."""
    return delta("function_call_arguments", fragment, output_index, **fields)


def part(text: str, **fields: Any) -> dict[str, Any]:
    """Return a text part."""
    return {"type": "output_text", "text": text, "annotations": [], **fields}


def part_added(part: dict[str, Any], output_index: int = 0, content_index: int | None = 0) -> bytes:
    """Return a content part's `added` event."""
    type = "response.content_part.added"
    return event(type, output_index=output_index, content_index=content_index, part=part)


def part_done(part: dict[str, Any], output_index: int = 0, content_index: int | None = 0) -> bytes:
    """Return a content part's `done` event."""
    type = "response.content_part.done"
    return event(type, output_index=output_index, content_index=content_index, part=part)


def call(arguments: str = "", **fields: Any) -> dict[str, Any]:
    """Return a function call's fields without its type."""
    return {"id": "fc_1", "call_id": "call_1", "name": "f", "arguments": arguments, **fields}


def messages(*parts: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """Return a message item's fields without its type."""
    return {"id": "msg_1", "role": "assistant", "content": list(parts), **fields}


def decode(*frames: bytes, **options: Any) -> Decoded:
    """Decode a whole stream, with its end."""
    return decode_in_any_pieces(frames, "openai_responses", **options)


def body(*frames: bytes, **options: Any) -> list[Event]:
    """Return the events between the message's start and stop."""
    return decode(START, *frames, completed(), **options).events[1:-1]


def message(*frames: bytes, **options: Any) -> Message:
    """Return the accumulated message of a stream."""
    return accumulate(decode(*frames, **options).events)


def is_malformed(decoded: Decoded) -> bool:
    """Return whether a stream ended as malformed."""
    last = decoded.events[-1]
    return isinstance(last, StreamError) and last.kind == "malformed"
