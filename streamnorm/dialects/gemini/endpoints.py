"""The HTTP interface of Gemini: paths, keys, error events, and the end of a stream.

https://ai.google.dev/gemini-api/docs/troubleshooting (read 2026-11-21) and, for the Interactions
API, https://ai.google.dev/gemini-api/docs/streaming (read 2026-11-22).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from streamnorm._core.codec import Endpoints
from streamnorm._core.json import compact, is_array, is_object, object_in
from streamnorm.sse import Frame

__all__ = ["ENDPOINTS", "is_terminal", "overloaded_frames"]

ENDPOINTS = Endpoints(
    path=re.compile(r"models/[^/]+:(?:(?:streamG|g)enerateContent|countTokens)$"),
    stream_path=re.compile(r":streamGenerateContent\Z"),
    model_path=re.compile(r"/models/([^/:]+):"),
    key_headers=("x-goog-api-key", "authorization"),
    servers={"generativelanguage.googleapis.com": "gemini"},
)

_INTERACTION_TERMINALS = ("interaction.completed", "interaction.complete")


def is_terminal(frame: Frame) -> bool:
    """Return whether a frame has a finish or block reason, or ends an interaction."""
    value = object_in(frame.data)
    if frame.data.startswith("[DONE]") or _interaction_event(value) in _INTERACTION_TERMINALS:
        return True
    candidates, feedback = value.get("candidates"), value.get("promptFeedback")
    if is_object(feedback) and feedback.get("blockReason"):
        return True
    return is_array(candidates) and any(
        is_object(candidate) and candidate.get("finishReason") for candidate in candidates
    )


def overloaded_frames(message: str, stream: Sequence[Frame], before: int) -> bytes:
    """Return a `google.rpc.Status`, or the `error` event of a stream of interactions.

    Args:
        message: Message of the error.
        stream: The frames of the stream without the error.
        before: How many of them precede it.
    """
    if any(_interaction_event(object_in(frame.data)) for frame in stream[:1]):
        told = {"code": "service_unavailable", "message": message}
        data = compact({"error": told, "event_type": "error"})
        return f"event: error\r\ndata: {data}\r\n\r\n".encode()
    fields = {"code": 503, "message": message, "status": "UNAVAILABLE"}
    return f"data: {compact({'error': fields})}\r\n\r\n".encode()


def _interaction_event(value: dict[str, object]) -> str:
    """Return the type of an event of the Interactions API, or "" for any other frame."""
    return str(value.get("event_type", ""))
