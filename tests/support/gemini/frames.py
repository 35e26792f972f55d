"""Builders of Gemini frames, and helpers to decode them.

`decode` also reads its stream byte by byte and frame by frame, and asserts that the events
are the same and follow the grammar.
"""

from __future__ import annotations

import json
from typing import Any

from streamnorm import Event, Message, accumulate
from support.streams.content import Decoded, decode_in_any_pieces

__all__ = [
    "BEGUN_ID",
    "blocks",
    "candidate",
    "chunk",
    "decode",
    "frame",
    "message",
    "parts",
    "text",
    "thought",
]

BEGUN_ID = "resp-1"


def frame(payload: object) -> bytes:
    """Return one event, with text or a payload encoded as JSON."""
    data = payload if isinstance(payload, str) else json.dumps(payload)
    return f"data: {data}\r\n\r\n".encode("utf-8", "surrogatepass")


def chunk(*candidates: dict[str, Any], **fields: Any) -> bytes:
    """Return a chunk of candidates with top-level `fields`."""
    names = {"responseId": BEGUN_ID, "modelVersion": "gemini-1"}
    return frame({"candidates": list(candidates), **fields, **names})


def candidate(*parts: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """Return an entry of `candidates` with `fields`."""
    content = {"content": {"parts": list(parts), "role": "model"}} if parts else {}
    return {**content, **fields, "index": fields.get("index", 0)}


def parts(*parts: dict[str, Any], **fields: Any) -> bytes:
    """Return a chunk of parts with `fields` in its candidate."""
    return chunk(candidate(*parts, **fields))


def text(text: str, finish: str | None = None, **fields: Any) -> bytes:
    """Return a text chunk with `fields` in its part."""
    told = {} if finish is None else {"finishReason": finish}
    return parts({"text": text, **fields}, **told)


def thought(text: str, **fields: Any) -> bytes:
    """Return a thought chunk."""
    return parts({"text": text, "thought": True, **fields})


def decode(*frames: bytes, dialect: str = "gemini", **options: Any) -> Decoded:
    """Decode a whole stream, with its end."""
    return decode_in_any_pieces(frames, dialect, **options)


def blocks(*frames: bytes, **options: Any) -> list[Event]:
    """Return the events between `MessageStart` and `MessageStop`."""
    events = decode(*frames, parts(finishReason="STOP"), **options).events
    return events[1:-1]


def message(*frames: bytes, **options: Any) -> Message:
    """Return the accumulated message of a stream."""
    return accumulate(decode(*frames, **options).events)


def function_call(**fields: Any) -> bytes:
    """Return a chunk with one function call."""
    return parts({"functionCall": fields})
