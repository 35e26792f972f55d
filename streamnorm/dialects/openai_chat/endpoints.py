"""The HTTP interface of Chat Completions, and the end of a stream.

https://platform.openai.com/docs/api-reference/chat-streaming (read 2026-11-21).
"""

from __future__ import annotations

import re

from streamnorm._core.codec import Endpoints
from streamnorm.dialects.openai_chat.detect import DONE
from streamnorm.sse import Frame

__all__ = ["ENDPOINTS", "is_terminal"]

ENDPOINTS = Endpoints(
    path=re.compile(r"/chat/completions\Z"),
    key_headers=("authorization", "api-key"),  # the second is Azure's
)


def is_terminal(frame: Frame) -> bool:
    """Return whether a frame is `[DONE]`."""
    return frame.data.startswith(DONE)
