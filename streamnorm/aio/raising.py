"""The exception that each kind of `StreamError` is raised as."""

from __future__ import annotations

from streamnorm._core.errors import (
    LimitExceeded,
    NotAStream,
    RemoteProtocolError,
    StreamnormError,
    TruncatedStream,
    UpstreamError,
)
from streamnorm._core.events import StreamError
from streamnorm._core.failures import NOT_A_STREAM
from streamnorm._core.messages import Message

__all__ = ["as_exception"]


def as_exception(
    error: StreamError,
    *,
    status: int | None,
    dialect: str | None,
    frames: int,
    partial: Message | None,
) -> StreamnormError:
    """Return what to raise for an error.

    Args:
        error: The last event of the stream.
        status: HTTP status of the response, if there was one.
        dialect: Dialect that was read, if known.
        frames: How many frames were read.
        partial: What of the message had arrived.
    """
    match error.kind:
        case "upstream":
            return UpstreamError(
                error.message,
                status=error.status_hint,
                code=error.code,
                retryable=error.retryable,
            )
        case "malformed" if error.code == NOT_A_STREAM:
            found = error.message.partition(", expected")[0]
            return NotAStream(error.message, status=status, snippet=found)
        case "malformed":
            return RemoteProtocolError(error.message, dialect=dialect)
        case "too_large":
            return LimitExceeded(error.message, limit=error.code or "", dialect=dialect)
        case _:  # truncated, transport or stalled
            return TruncatedStream(error.message, partial=partial, dialect=dialect, frame=frames)
