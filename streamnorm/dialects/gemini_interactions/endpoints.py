"""The terminal and the error event of the Interactions API.

https://ai.google.dev/gemini-api/docs/streaming (read 2026-11-22).
"""

from __future__ import annotations

from collections.abc import Sequence

from streamnorm._core.json import compact, object_in
from streamnorm.sse import Frame

__all__ = ["is_terminal", "overloaded_frames"]

_TERMINALS = ("interaction.completed", "interaction.complete")


def is_terminal(frame: Frame) -> bool:
    """Return whether a frame completes the interaction, or is `[DONE]`."""
    return frame.data.startswith("[DONE]") or object_in(frame.data).get("event_type") in _TERMINALS


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
