"""A client of Gemini's `streamGenerateContent`.

https://ai.google.dev/api/generate-content (read 2026-11-21)
"""

from __future__ import annotations

import copy
from typing import Any

from ..cases import Call
from .reading import Content, Reading, server_events

__all__ = ["read"]

_FAILURES = (
    *("MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS"),
    *("MISSING_THOUGHT_SIGNATURE", "MALFORMED_RESPONSE"),
)
"""Finish reasons of a generation that failed."""


def read(data: bytes) -> Reading:
    """Read a stream as clients of the vendor do."""
    reading = Reading()
    finished: Content | None = None
    for event in server_events(data, reading.grammar):
        if event.value is None:
            reading.grammar.append("an event is no JSON object")
            continue
        if "error" in event.value:
            reading.failed = True
            continue
        if reading.failed:
            reading.grammar.append("a chunk follows an error")
        _take(reading, event.value, is_finished=finished is not None)
        if reading.stop is not None and finished is None:
            finished = copy.deepcopy(reading.accumulated)
    reading.finalised = finished or Content()
    if reading.stop in _FAILURES:
        reading.failed = True
    reading.ended = reading.stop is not None
    return reading


def _take(reading: Reading, chunk: dict[str, Any], *, is_finished: bool) -> None:
    usage = chunk.get("usageMetadata")
    if isinstance(usage, dict):
        reading.usage = (
            usage.get("promptTokenCount", 0),
            usage.get("candidatesTokenCount", 0) + usage.get("thoughtsTokenCount", 0),
        )
    blocked = (chunk.get("promptFeedback") or {}).get("blockReason", "")
    if blocked and not blocked.endswith("_UNSPECIFIED"):
        reading.stop = blocked
    for candidate in chunk.get("candidates") or ():
        if candidate.get("index", 0) != 0:
            continue
        parts = (candidate.get("content") or {}).get("parts") or ()
        for part in parts:
            if is_finished and (part.get("text") or "functionCall" in part):
                reading.grammar.append("content follows the finish reason")
            _take_part(reading, part)
        reason = candidate.get("finishReason")
        if reason is not None:
            if reading.stop not in (None, reason):
                reading.grammar.append("two finish reasons")
            reading.stop = reason


def _take_part(reading: Reading, part: dict[str, Any]) -> None:
    content = reading.accumulated
    if "functionCall" in part:
        call = part["functionCall"]
        arguments = call.get("args", {})
        if not call.get("name"):
            reading.grammar.append("a functionCall has no name")
        if not isinstance(arguments, dict):
            reading.grammar.append("args are no object")
        # The id is optional: a call without one has no other id.
        content.calls.append(Call(call.get("id"), call.get("name") or "", arguments))
    text = part.get("text")
    if not isinstance(text, str):
        return
    if part.get("thought"):
        content.reasoning += text
    else:
        content.text += text
