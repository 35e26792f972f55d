"""Detection of Chat Completions frames and of the terminal."""

from __future__ import annotations

from streamnorm._core.codec import DONE
from streamnorm._core.json import InvalidJSON, decode_any, is_object
from streamnorm._core.limits import Limits
from streamnorm._core.provider_errors import find_error
from streamnorm.sse import Frame

__all__ = ["is_terminal", "recognises"]


def recognises(frame: Frame) -> bool:
    """Return whether a frame is a chunk, `[DONE]`, or an error of no other dialect."""
    if is_terminal(frame):
        return True
    try:
        value = decode_any(frame.data, max_depth=Limits().max_json_depth)
    except InvalidJSON:
        return frame.event == "error"
    if is_object(value):
        if value.get("choices") is not None:
            return True
        if str(value.get("object")).startswith("chat.completion"):
            return True
        if value.get("type") == "error":  # an error of another dialect
            return False
    return frame.event == "error" or find_error(value) is not None


def is_terminal(frame: Frame) -> bool:
    """Return whether a frame is `[DONE]`."""
    return frame.data.startswith(DONE)
