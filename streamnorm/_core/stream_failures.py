"""The errors of a stream that breaks off, and of a body that is no stream.

Agents decide by the text of an error whether to send the request again.  pi does at "connection
lost", "connection error" and "timed out", and also at digits such as 429 or 500
(`packages/ai/src/utils/retry.ts` of earendil-works/pi, read 2026-11-23).  So the text of what a
second request cannot mend holds no number.
"""

from __future__ import annotations

from typing import Any

from streamnorm._core.context_overflow import context_overflow
from streamnorm._core.errors import (
    EncodeError,
    LimitExceeded,
    NotAStream,
    RemoteProtocolError,
    StreamnormError,
    TruncatedStream,
    UpstreamError,
)
from streamnorm._core.events import StreamError
from streamnorm._core.messages import Message

__all__ = [
    "NOT_A_STREAM",
    "FailedAnswer",
    "answer_failure",
    "as_exception",
    "body_kind",
    "broken_connection",
    "cut_stream",
    "not_a_stream",
    "response_status",
]

NOT_A_STREAM = "not_a_stream"
"""Code of the `StreamError("malformed")` for a body that is no event stream."""

# Why a body of that kind may have come.
_HINTS = {
    "an HTML page": " (is the URL of the request right?)",
    "a JSON body": (
        ' (is "stream": true missing in the request, or streamGenerateContent in its URL?)'
    ),
}

# Recognised by name, so that no HTTP client is imported; most are no subclass of a built-in.
_TIMEOUTS = frozenset({"TimeoutError", "TimeoutException"})
_NEVER_CONNECTED = frozenset({"ConnectError", "ConnectionRefusedError", "ClientConnectorError"})

# No registered status: google-genai sends a request again after 503, not after 529
# (`_RETRY_HTTP_STATUS_CODES` of google-genai, read 2026-11-23).
_OVERLOADED = 529

# All vendors say it so; others also say 413, 422 and 500, which clients take for other errors.
_TOO_LONG = 400

_STOPPED = "ServerStopping"  # of our gateway


class FailedAnswer(EncodeError):
    """A whole answer ends in an error in its target's dialect.

    Attributes:
        error: The error, in which a stream of the answer ends there.
    """

    def __init__(self, error: StreamError) -> None:
        super().__init__(error.message, path="blocks")
        self.error = error


def answer_failure(exc: EncodeError) -> StreamError:
    """Return the error for a client whose whole answer has no legal form."""
    return exc.error if isinstance(exc, FailedAnswer) else StreamError("malformed", str(exc))


def cut_stream(events: int, resume_token: dict[str, Any] | None = None) -> StreamError:
    """Return the error of a source that ended before the message did.

    Args:
        events: Number of server-sent events read.
        resume_token: Token from which the vendor can resume the stream; None if it cannot.
    """
    before = f"the message was complete, after {_count(events)}" if events else "its first event"
    message = f"connection lost: the stream ended before {before}"
    return StreamError("truncated", message, retryable=True, extra=resume_token)


def broken_connection(
    cause: BaseException, events: int, resume_token: dict[str, Any] | None = None
) -> StreamError:
    """Return the error of a source that failed.

    Args:
        cause: What it raised, of any HTTP client.
        events: Number of server-sent events read.
        resume_token: As for `cut_stream`.
    """
    if type(cause) is RemoteProtocolError:  # no subclass: those report how a stream ended
        return StreamError("malformed", str(cause))  # of a body that cannot be decoded
    names = {base.__name__ for base in type(cause).__mro__}
    when = (
        f"after {_count(events)}, before the message was complete"
        if events
        else "before the first event"
    )
    if not names.isdisjoint(_TIMEOUTS):
        message = f"connection timed out {when}"
        return StreamError("stalled", message, retryable=True, extra=resume_token)
    if not names.isdisjoint(_NEVER_CONNECTED):
        message = "connection error: the provider could not be reached"
    elif _STOPPED in names:
        message = f"connection lost: the gateway stopped {when}"
    else:
        message = f"connection lost {when}"
    return StreamError("transport", message, retryable=True, extra=resume_token)


def not_a_stream(body: bytes | bytearray) -> StreamError:
    """Return the error of a body that is no event stream and reports no error.

    Args:
        body: The body, or its first bytes.
    """
    kind = body_kind(body)
    message = f"{kind}, expected an event stream{_HINTS.get(kind, '')}"
    return StreamError("malformed", message, code=NOT_A_STREAM)


def body_kind(body: bytes | bytearray) -> str:
    """Return what a body is, by its bytes."""
    start = body.lstrip(b" \t\r\n\xef\xbb\xbf")
    if not start:
        return "an empty body"
    if start[0] in b"{[":
        return "a JSON body"
    if start[0] in b"<":
        return "an XML body" if start.startswith(b"<?xml") else "an HTML page"
    return "binary data" if b"\0" in start else "plain text"


def response_status(error: StreamError, overloaded_status: int = _OVERLOADED) -> int:
    """Return the HTTP status of a response that reports an error before a stream begins.

    It is that of the error if that is 400 to 599, 400 for a request that is too long for its
    model, 504 for a timeout or 502 for all else.

    Args:
        error: The error.
        overloaded_status: Status of an overloaded server in the client's dialect, if that is
            not the provider's.
    """
    status = error.status_hint
    if context_overflow(error) is not None:
        return _TOO_LONG
    # A provider's redirect does not concern the client; beyond 599 there are no statuses, and
    # clients of HTTP/1.1 refuse the answer (RFC 9110, section 15).
    if status is None or not 400 <= status <= 599:
        return 504 if error.kind == "stalled" else 502
    return overloaded_status if status == _OVERLOADED else status


def as_exception(
    error: StreamError,
    *,
    status: int | None = None,
    dialect: str | None = None,
    frames: int | None = None,
    partial: Message | None = None,
) -> StreamnormError:
    """Return the exception of a stream's error.

    Args:
        error: The error.
        status: HTTP status of the response; None if the source is no response.
        dialect: Dialect of the stream; None if unknown.
        frames: Number of frames read; None if unknown.
        partial: The message as far as it arrived, if anybody kept it.
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


def _count(events: int) -> str:
    return "1 event" if events == 1 else f"{events} events"
