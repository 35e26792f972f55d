"""Chunks of valid Gemini streams, for tests that break one at a time."""

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
    """Return chunks as bytes; strings are frames already."""
    return b"".join(
        (chunk if isinstance(chunk, str) else f"data: {json.dumps(chunk)}\r\n\r\n").encode()
        for chunk in chunks
    )


def chunk(*candidates: Any, **fields: Any) -> Chunk:
    """Return a chunk with top-level fields replaced."""
    return {**({"candidates": list(candidates)} if candidates else {}), **_NAMES, **fields}


def candidate(*parts: Any, index: int | None = 0, **fields: Any) -> Chunk:
    """Return an entry of `candidates`."""
    content = {"content": {"role": "model", "parts": list(parts)}} if parts else {}
    return {**content, **({} if index is None else {"index": index}), **fields}


def parts(*parts: Any, **fields: Any) -> Chunk:
    """Return a chunk of parts with its candidate's fields replaced."""
    return chunk(candidate(*parts, **fields))


def text(text: str = "Hi", **fields: Any) -> Chunk:
    """Return a text chunk with its part's fields replaced."""
    return parts({"text": text, **fields})


def call(**fields: Any) -> Chunk:
    """Return a chunk with a call."""
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
