"""Detection of Chat Completions frames, and of those that may end a stream."""

from __future__ import annotations

from streamnorm._core.json import InvalidJSON, decode_any, is_array, is_object
from streamnorm._core.limits import Limits
from streamnorm._core.provider_errors import find_error
from streamnorm.sse import Frame

__all__ = ["DONE", "may_end_stream", "recognises"]

DONE = "[DONE]"
"""Data of the frame that ends a stream."""


def recognises(frame: Frame) -> bool:
    """Return whether a frame is a chunk, `[DONE]`, or an error of no other dialect."""
    if frame.data.startswith(DONE):
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


def may_end_stream(frame: Frame, value: object) -> bool:
    """Return whether a frame is `[DONE]`, an error, or a chunk with a finish reason.

    `value` is the data of the frame as JSON; None if it is invalid.
    """
    if frame.data.startswith(DONE):
        return True
    if not is_object(value):
        return False
    choices = value.get("choices")
    return find_error(value) is not None or (
        is_array(choices)
        and any(is_object(choice) and choice.get("finish_reason") for choice in choices)
    )
