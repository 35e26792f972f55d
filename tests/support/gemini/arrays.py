"""Gemini chunks as a JSON array, and as the equivalent event stream."""

from __future__ import annotations

import json
from typing import Any

__all__ = ["CHUNKS", "TOLD", "array", "events_of"]


def _chunk(part: dict[str, Any], **fields: Any) -> dict[str, Any]:
    candidate = {"content": {"parts": [part], "role": "model"}, **fields, "index": 0}
    return {"candidates": [candidate], "responseId": "r1", "modelVersion": "gemini-1"}


CHUNKS = [
    _chunk({"text": 'One, "]}\u2028" '}),
    _chunk({"text": "twö."}),
    _chunk({"functionCall": {"id": "c1", "name": "f", "args": {"a": [1, {}]}}}),
    {**_chunk({"text": ""}, finishReason="STOP"), "usageMetadata": {"promptTokenCount": 3}},
]
TOLD = {"error": {"code": 503, "message": "Overloaded.", "status": "UNAVAILABLE"}}


def array(*elements: Any, end: str = "\n]\n") -> bytes:
    """Return a body as sent without `alt=sse`."""
    told = [json.dumps(element, ensure_ascii=False) for element in elements]
    broken = [text.replace('{"candidates"', '{\n  "candidates"', 1) for text in told]
    return ("[" + "\n,\r\n".join(broken) + end).encode()


def events_of(*elements: Any) -> bytes:
    """Return the same body as sent with `alt=sse`."""
    told = [json.dumps(element, ensure_ascii=False) for element in elements]
    return "".join([f"data: {text}\r\n\r\n" for text in told]).encode()
