"""Builders of Chat Completions frames, and helpers to decode them.

`decode` also reads each stream byte by byte and frame by frame: the events must be the same,
and must follow the event grammar.
"""

from __future__ import annotations

import json
from typing import Any

from streamnorm import Block, Message, Opaque, accumulate
from support.streams.content import Decoded, decode_in_any_pieces

__all__ = [
    "DONE",
    "Decoded",
    "anonymous",
    "blocks_of",
    "call",
    "calls",
    "chunk",
    "content",
    "decode",
    "detail",
    "frame",
    "message",
    "opaques_of",
    "reasoning",
]

DONE = b"data: [DONE]\n\n"


def frame(payload: object, event: str | None = None) -> bytes:
    """Return one event, with text or a payload encoded as JSON."""
    data = payload if isinstance(payload, str) else json.dumps(payload)
    name = f"event: {event}\n" if event is not None else ""
    return f"{name}data: {data}\n\n".encode("utf-8", "surrogatepass")


def chunk(
    delta: dict[str, Any] | None = None, finish: str | None = None, choice: int = 0, **fields: Any
) -> bytes:
    """Return a chunk of one choice with top-level `fields`."""
    part = {"index": choice, "delta": {} if delta is None else delta, "finish_reason": finish}
    return frame({"id": "chatcmpl-1", "model": "gpt", "choices": [part], **fields})


def content(text: str, finish: str | None = None, choice: int = 0, **fields: Any) -> bytes:
    """Return a text chunk."""
    return chunk({"content": text}, finish, choice, **fields)


def reasoning(text: str, finish: str | None = None, choice: int = 0, **fields: Any) -> bytes:
    """Return a reasoning chunk."""
    return chunk({"reasoning_content": text}, finish, choice, **fields)


def detail(**fields: object) -> bytes:
    """Return a chunk with one entry of `reasoning_details`."""
    return chunk({"reasoning_details": [fields]})


def call(
    index: int | None = None,
    id: str | int | None = None,
    name: str | None = None,
    arguments: object = None,
    **fields: Any,
) -> dict[str, Any]:
    """Return a tool call fragment with only the given fields."""
    function = {"name": name, "arguments": arguments}
    piece = {
        "index": index,
        "id": id,
        "function": {key: value for key, value in function.items() if value is not None},
    }
    return {key: value for key, value in {**piece, **fields}.items() if value not in (None, {})}


def calls(*pieces: dict[str, Any], finish: str | None = None, choice: int = 0) -> bytes:
    """Return a chunk with tool call fragments."""
    return chunk({"tool_calls": list(pieces)}, finish, choice)


def decode(*frames: bytes, dialect: str | None = "openai_chat", **options: Any) -> Decoded:
    """Decode a whole stream, with its end."""
    return decode_in_any_pieces(frames, dialect, **options)


def message(*frames: bytes, choice: int = 0, **options: Any) -> Message:
    """Return the accumulated message of a stream."""
    return accumulate(decode(*frames, **options).events, choice=choice)


def blocks_of(*deltas: dict[str, Any] | None) -> tuple[Block, ...]:
    """Return the blocks of a stream of deltas that ends with `stop`."""
    return message(*map(chunk, deltas), chunk({}, "stop"), DONE).blocks


def opaques_of(*deltas: dict[str, Any]) -> list[tuple[str, object]]:
    """Return the name and value of a stream's opaque events."""
    events = decode(*map(chunk, deltas), chunk({}, "stop"), DONE).events
    return [(event.name, json.loads(event.data)) for event in events if isinstance(event, Opaque)]


def anonymous(id: str) -> bool:
    """Return whether an id was minted for a call without an id."""
    return id.startswith("call_") and len(id) == 29 and int(id[5:], 16) >= 0
