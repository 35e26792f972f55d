"""Builders of Anthropic frames, and helpers to decode them.

`decode` also reads its stream byte by byte and frame by frame, and asserts that the events
are the same and follow the grammar.
"""

from __future__ import annotations

from typing import Any

from streamnorm import Event, Message, accumulate
from support.openai_chat.chunks import Decoded, frame
from support.streams.content import decode_in_any_pieces

__all__ = [
    "STOP",
    "block",
    "body",
    "call",
    "decode",
    "delta",
    "end",
    "event",
    "message",
    "notes",
    "start",
    "stop",
    "text",
    "thinking",
]


def event(type: str, **fields: Any) -> bytes:
    """Return an event with its type as event name."""
    return frame({"type": type, **fields}, type)


def start(**fields: Any) -> bytes:
    """Return a `message_start` with `fields` in its message."""
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-1"}
    rest = {"content": [], "stop_reason": None, "stop_sequence": None}
    return event("message_start", message={**message, **rest, **fields})


def block(index: int | None, type: str, **fields: Any) -> bytes:
    """Return a `content_block_start`, without an index if it is None."""
    numbered = {} if index is None else {"index": index}
    return event("content_block_start", **numbered, content_block={"type": type, **fields})


def delta(index: int | None, type: str, **fields: Any) -> bytes:
    """Return a `content_block_delta`, without an index if it is None."""
    numbered = {} if index is None else {"index": index}
    return event("content_block_delta", **numbered, delta={"type": type, **fields})


def stop(index: int | None) -> bytes:
    """Return a `content_block_stop`, without an index if it is None."""
    return event("content_block_stop", **({} if index is None else {"index": index}))


def text(index: int, *pieces: str) -> bytes:
    """Return a text block."""
    deltas = [delta(index, "text_delta", text=piece) for piece in pieces]
    return b"".join([block(index, "text", text=""), *deltas, stop(index)])


def thinking(index: int, *pieces: str) -> bytes:
    """Return a thinking block without a signature."""
    deltas = [delta(index, "thinking_delta", thinking=piece) for piece in pieces]
    opening = block(index, "thinking", thinking="", signature="")
    return b"".join([opening, *deltas, stop(index)])


def call(index: int, *pieces: str, **fields: object) -> bytes:
    """Return a client tool call."""
    named = {"id": f"toolu_{index}", "name": "find", "input": {}, **fields}
    deltas = [delta(index, "input_json_delta", partial_json=piece) for piece in pieces]
    return b"".join([block(index, "tool_use", **named), *deltas, stop(index)])


def end(reason: str | None = "end_turn", **fields: Any) -> bytes:
    """Return a `message_delta` with `fields` next to its delta."""
    return event("message_delta", delta={"stop_reason": reason, "stop_sequence": None}, **fields)


STOP = event("message_stop")


def decode(*frames: bytes, **options: Any) -> Decoded:
    """Decode a whole stream, with its end."""
    return decode_in_any_pieces(frames, "anthropic", **options)


def body(*frames: bytes, **options: Any) -> list[Event]:
    """Return the events between the message's start and end."""
    events = decode(start(), *frames, end(), STOP, **options).events
    return events[1:-1]


def notes(*frames: bytes) -> dict[str, int]:
    """Return the count of each kind of note in a stream."""
    return {note.kind: note.count for note in decode(start(), *frames, end(), STOP).notes}


def message(*frames: bytes, **options: Any) -> Message:
    """Return the accumulated message of a stream."""
    return accumulate(decode(*frames, **options).events)
