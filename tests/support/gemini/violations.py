"""Chunks of valid Gemini streams, to be broken one at a time."""

from __future__ import annotations

import json
from typing import Any

__all__ = [
    "COUNTS",
    "ERROR",
    "FINISH",
    "Chunk",
    "call",
    "candidate",
    "chunk",
    "parts",
    "sse",
    "text",
]

Chunk = dict[str, Any]

_NAMES = {"responseId": "resp-1", "modelVersion": "m"}


def sse(*chunks: Chunk | str) -> bytes:
    """Return chunks as bytes; text is a frame as it stands."""
    return b"".join(
        (chunk if isinstance(chunk, str) else f"data: {json.dumps(chunk)}\r\n\r\n").encode()
        for chunk in chunks
    )


def chunk(*candidates: Any, **fields: Any) -> Chunk:
    """Return a chunk, its top-level fields put in."""
    return {**({"candidates": list(candidates)} if candidates else {}), **_NAMES, **fields}


def candidate(*parts: Any, index: int | None = 0, **fields: Any) -> Chunk:
    """Return an entry of `candidates`."""
    content = {"content": {"role": "model", "parts": list(parts)}} if parts else {}
    return {**content, **({} if index is None else {"index": index}), **fields}


def parts(*parts: Any, **fields: Any) -> Chunk:
    """Return a chunk of parts, the fields put into its candidate."""
    return chunk(candidate(*parts, **fields))


def text(text: str = "Hi", **fields: Any) -> Chunk:
    """Return a chunk of text, the fields put into its part."""
    return parts({"text": text, **fields})


def call(**fields: Any) -> Chunk:
    """Return a chunk of a call."""
    return parts({"functionCall": fields})


COUNTS = {
    "promptTokenCount": 9,
    "cachedContentTokenCount": 4,
    "candidatesTokenCount": 3,
    "toolUsePromptTokenCount": 2,
    "thoughtsTokenCount": 1,
    "totalTokenCount": 15,
}
FINISH = chunk(candidate(finishReason="STOP"), usageMetadata=COUNTS)
ERROR = {"error": {"code": 503, "message": "busy", "status": "UNAVAILABLE"}}
