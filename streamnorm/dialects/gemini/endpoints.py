"""The HTTP interface of Gemini, and the end of a stream.

https://ai.google.dev/api/generate-content (read 2026-11-21).
"""

from __future__ import annotations

import re

from streamnorm._core.codec import Endpoints
from streamnorm._core.json import is_array, is_object, object_in
from streamnorm.sse import Frame

__all__ = ["ENDPOINTS", "is_terminal"]

ENDPOINTS = Endpoints(
    path=re.compile(r"models/[^/]+:(?:(?:streamG|g)enerateContent|countTokens)$"),
    stream_path=re.compile(r":streamGenerateContent\Z"),
    model_path=re.compile(r"/models/([^/:]+):"),
    key_headers=("x-goog-api-key", "authorization"),
    servers={"generativelanguage.googleapis.com": "gemini"},
)


def is_terminal(frame: Frame) -> bool:
    """Return whether a frame has a finish or block reason."""
    value = object_in(frame.data)
    if frame.data.startswith("[DONE]"):
        return True
    candidates, feedback = value.get("candidates"), value.get("promptFeedback")
    if is_object(feedback) and feedback.get("blockReason"):
        return True
    return is_array(candidates) and any(
        is_object(candidate) and candidate.get("finishReason") for candidate in candidates
    )
