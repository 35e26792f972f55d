"""Errors of sources that end or fail before the message is complete.

    the source ended                     truncated
    the network or the peer failed       transport, stalled, malformed
    the caller or a program failed       transport, which no retry mends (`is_fault`)

Agents decide by the words of these errors whether to send the request again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from streamnorm._core.errors import (
    CredentialsError,
    DecodeError,
    EncodeError,
    LimitExceeded,
    LocalProtocolError,
    LogError,
    LossyEncoding,
    NotAStream,
    ProfileError,
    RecordingError,
    RemoteProtocolError,
    UnrecordedRequest,
    UpstreamError,
)
from streamnorm._core.events import StreamError
from streamnorm._core.failures import stream_error_of

# Exceptions of HTTP clients by name: none of the clients is imported, and most of these classes
# have no built-in base.
_TIMEOUTS = frozenset({"TimeoutError", "TimeoutException"})
_NEVER_CONNECTED = frozenset({"ConnectError", "ConnectionRefusedError", "ClientConnectorError"})
# Of httpx, aiohttp and requests.  aiohttp raises its own as the cause of a `ClientPayloadError`.
_UNDECODABLE = frozenset({"DecodingError", "ContentEncodingError", "ContentDecodingError"})
_NOT_OF_ITS_CODING = "a body that is not of its content-encoding, expected one that is"
# What a caller's mistake or a fault of a program raises; no network and no peer does.
_FAULTS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    ImportError,
    LookupError,
    NameError,
    RuntimeError,  # also `StreamError` of httpx: a body that was read before
    TypeError,
    ValueError,
    # Of this library; stores and played connections break as the network does.
    CredentialsError,
    DecodeError,
    EncodeError,
    LocalProtocolError,
    LogError,
    LossyEncoding,
    ProfileError,
    RecordingError,
    UnrecordedRequest,
)
# Mistakes whose classes have the bases of a broken connection, or none: in httpx, aiohttp,
# websockets and requests.
_MISTAKES = frozenset(
    {
        "InvalidSchema",
        "InvalidURI",
        "InvalidURL",
        "LocalProtocolError",
        "MissingSchema",
        "StreamConsumedError",
        "UnsupportedProtocol",
    }
)


class SourceStopped(Exception):
    """Raised by a source that this library has stopped; subclasses state the reason.

    Attributes:
        reason: Cause of the stop, for the client: a clause without data of the stream.
    """

    reason = "the source was stopped"


def cut_stream(events: int, resume_token: dict[str, Any] | None = None) -> StreamError:
    """Return the error of a source that ended before its message was complete.

    Args:
        events: Number of server-sent events read.
        resume_token: Token from which the vendor can resume the stream; None if it cannot.
    """
    before = f"the message was complete, after {_count(events)}" if events else "its first event"
    # Agents decide by words like these whether to retry.
    message = f"connection lost: the stream ended before {before}"
    return StreamError("truncated", message, retryable=True, extra=resume_token)


def broken_connection(
    cause: BaseException, events: int, resume_token: dict[str, Any] | None = None
) -> StreamError:
    """Return the error of a source that failed.

    Args:
        cause: Exception of the source, from any HTTP client.
        events: Number of server-sent events read.
        resume_token: As for `cut_stream`.
    """
    if isinstance(cause, LimitExceeded):
        return StreamError("too_large", str(cause), code=cause.limit)
    # Content decoding failed.  Subclasses of this error report how a stream ended.
    if type(cause) is RemoteProtocolError:
        return StreamError("malformed", str(cause))
    # The source is a stream of this library.
    if isinstance(cause, UpstreamError | NotAStream):
        return cast("StreamError", stream_error_of(cause))
    if _is_undecodable(cause):
        return StreamError("malformed", _NOT_OF_ITS_CODING)
    names = _class_names(cause)
    when = (
        f"after {_count(events)}, before the message was complete"
        if events
        else "before the first event"
    )
    if not names.isdisjoint(_TIMEOUTS):
        message = f"connection timed out {when}"
        return StreamError("stalled", message, retryable=True, extra=resume_token)
    # Another request would fail the same way, so the text must not read like a lost connection.
    if is_fault(cause):
        return StreamError("transport", f"the source failed {when}", retryable=False)
    if not names.isdisjoint(_NEVER_CONNECTED):
        message = "connection error: the provider could not be reached"
    elif isinstance(cause, SourceStopped):
        message = f"connection lost: {cause.reason} {when}"
    else:
        message = f"connection lost {when}"
    return StreamError("transport", message, retryable=True, extra=resume_token)


def is_fault(cause: BaseException) -> bool:
    """Return whether an exception of a source is a mistake of the caller, or a program's fault.

    Exceptions that nobody knows are none: HTTP clients have classes of their own for the network.
    """
    names = _class_names(cause)
    # h2 raises it as well where a request meets a connection that the peer is closing
    # (encode/httpcore#679), h11 for what the caller sends, such as a header with a line break.
    if "LocalProtocolError" in names and any(
        type(each).__module__.startswith("h2.") for each in _causes(cause)
    ):
        return False
    if not names.isdisjoint(_MISTAKES):
        return True
    # An `SSLCertVerificationError` is a `ValueError`, too.
    return isinstance(cause, _FAULTS) and not isinstance(cause, OSError)


def _is_undecodable(cause: BaseException) -> bool:
    """Return whether an HTTP client could not decode a body, except for its missing end.

    Clients report a body that ends early by the same classes, but of themselves: no library
    that decodes has raised before.
    """
    return any(
        not _class_names(each).isdisjoint(_UNDECODABLE)
        and (each.__cause__ or each.__context__) is not None
        for each in _causes(cause)
    )


def _class_names(exc: BaseException) -> set[str]:
    return {base.__name__ for base in type(exc).__mro__}


def _causes(exc: BaseException | None) -> Iterator[BaseException]:
    """Yield an exception and those that led to it, each once: they may lead to each other."""
    known = set[int]()
    while exc is not None and id(exc) not in known:
        known.add(id(exc))
        yield exc
        exc = exc.__cause__ or exc.__context__


def _count(events: int) -> str:
    return "1 event" if events == 1 else f"{events} events"
