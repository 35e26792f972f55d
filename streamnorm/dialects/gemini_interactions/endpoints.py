"""The error event of the Interactions API.

https://ai.google.dev/gemini-api/docs/streaming (read 2026-11-22).
"""

from __future__ import annotations

from collections.abc import Sequence

from streamnorm._core.json import compact
from streamnorm.sse import Frame


def overloaded_frames(message: str, stream: Sequence[Frame], before: int) -> bytes:
    """Return the `error` event of an overloaded server.

    Args:
        message: Message of the error.
        stream: The frames of the stream without the error.
        before: How many of them precede it.
    """
    fields = {"code": "service_unavailable", "message": message}
    data = compact({"error": fields, "event_type": "error"})
    return f"event: error\r\ndata: {data}\r\n\r\n".encode()
