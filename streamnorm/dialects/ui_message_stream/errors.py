"""Errors, in both directions."""

from __future__ import annotations

from streamnorm._core.events import StreamError
from streamnorm._core.failures import upstream_error
from streamnorm._core.json import clean
from streamnorm.dialects.ui_message_stream.wire import Chunk, chunk, text_field

_UNKNOWN = "the provider reported an error"


def error_from_wire(value: Chunk) -> StreamError:
    """Return the error of an `error` chunk, which has a text and nothing else."""
    return upstream_error(clean(text_field(value, "errorText")))


def error_to_wire(error: StreamError) -> bytes:
    """Return the `error` chunk of an error; `useChat` shows its text to the user."""
    return chunk({"type": "error", "errorText": error.message or _UNKNOWN})


def error_body(error: StreamError) -> bytes:
    """Return the body of an error response: `useChat` shows the text as it is."""
    return (error.message or _UNKNOWN).encode("utf-8", "replace")
