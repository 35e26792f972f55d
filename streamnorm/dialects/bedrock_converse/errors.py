"""Errors in a stream and in a response, in both directions.

In a stream an error is an exception, a message of its own kind, which the framing reads.
"""

from __future__ import annotations

from typing import Any

from msgspec import structs

from streamnorm._core.codec.endpoints import BEDROCK
from streamnorm._core.codec.event_messages import (
    CONVERSE_EXCEPTIONS,
    exception_error,
    exception_of,
)
from streamnorm._core.context_overflow import context_overflow
from streamnorm._core.events import StreamError
from streamnorm._core.failures import response_status
from streamnorm.sse import Frame

# Clients match the text (anthropics/claude-code#8637).
_TOO_LONG = "Input is too long for requested model"


def error_from_wire(frame: Frame) -> StreamError | None:
    """Return the error of a frame that is named as an exception; None for any other."""
    if frame.event not in CONVERSE_EXCEPTIONS:
        return None
    return exception_error(frame.event, frame.data)


def exception_to_wire(error: StreamError) -> tuple[str, dict[str, Any]]:
    """Return the type and the fields of the exception that ends a stream."""
    overflow = context_overflow(error)
    if overflow is not None:
        return "validationException", {"message": message_to_wire(error)}
    return exception_of(error, CONVERSE_EXCEPTIONS)


def message_to_wire(error: StreamError) -> str:
    """Return the message of an error, in Amazon's words if the request is too long."""
    if context_overflow(error) is None or _TOO_LONG.lower() in error.message.lower():
        return error.message
    return f"{_TOO_LONG}: {error.message}"


def error_body(error: StreamError) -> dict[str, Any]:
    """Return the body of an error response; boto3 reads the type where no header names it."""
    stated = structs.replace(error, status_hint=response_status(error))
    return {"__type": BEDROCK.error_type(stated), "message": message_to_wire(error)}
