"""Payloads of frames written by the Gemini encoder."""

from __future__ import annotations

import json
from typing import Any

from streamnorm import Event, MessageStart
from streamnorm.codec import encoder

__all__ = ["NAMES", "START", "chunk", "encode"]

START = MessageStart("r1", "gemini-2.5-flash")
NAMES = {"modelVersion": "gemini-2.5-flash", "responseId": "r1"}


def chunk(*parts: dict[str, Any], beside: dict[str, Any] | None = None, **of: Any) -> Any:
    content = {"parts": list(parts), "role": "model"}
    return {"candidates": [{"content": content, **of, "index": 0}], **(beside or {})}


def encode(*events: Event, **options: Any) -> list[dict[str, Any]]:
    """Return the payloads after the first frame, without their common fields."""
    writer = encoder("gemini", **options)
    wire = b"".join(writer.encode(event) for event in (START, *events)) + writer.close()
    payloads = []
    for frame in wire.decode().removesuffix(":").removesuffix("\r\n\r\n").split("\r\n\r\n"):
        payload = json.loads(frame.removeprefix("data: "))
        if "error" not in payload:
            assert {key: payload.pop(key) for key in NAMES} == NAMES
        payloads.append(payload)
    return payloads[1:]
