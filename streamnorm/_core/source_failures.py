"""Errors of sources that end or fail before the message is complete.

    the source ended                     truncated
    the network or the peer failed       transport, stalled, malformed
    the caller or a program failed       transport, which no retry mends (`is_fault`)

Agents decide by the words of these errors whether to send the request again.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from typing import Any, cast

from streamnorm._core.errors import (
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
# Of httpx and aiohttp; that of urllib3 is in `_is_undecodable`.  aiohttp raises its own as the
# cause of a `ClientPayloadError`.
_UNDECODABLE = frozenset({"DecodingError", "ContentEncodingError"})
_NOT_OF_ITS_CODING = "a body that is not of its content-encoding, expected one that is"
# Of httpx and httpcore, of aiohttp, of urllib3 and botocore; others are an `OSError`.
_NETWORK = _TIMEOUTS | {
    "NetworkError",
    "RemoteProtocolError",
    "ClientConnectionError",
    "ClientPayloadError",
    "ConnectionError",
    "HTTPClientError",
    "ProtocolError",
}
# What a caller's mistake or a fault of a program raises; no network and no peer does.
_BUILTIN_FAULTS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    ImportError,
    LookupError,
    NameError,
    RuntimeError,  # also `StreamError` of httpx: a body that was read before
    TypeError,
    ValueError,
)
# Of this library; stores and played connections break as the network does, and credentials that
# cannot be refreshed most often do.
_FAULTS = (
    *_BUILTIN_FAULTS,
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
    cause = _network_error_behind(cause) or cause
    names = _class_names(cause)
    when = (
        f"after {_count(events)}, before the message was complete"
        if events
        else "before the first event"
    )
    if not names.isdisjoint(_TIMEOUTS):
        message = f"connection timed out {when}"
        return StreamError("stalled", message, retryable=True, extra=resume_token)
    if _is_undecodable(cause):
        return StreamError("malformed", _NOT_OF_ITS_CODING)
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
    if "LocalProtocolError" in names and any(_is_of_h2(each) for each in _causes(cause)):
        return False
    if not names.isdisjoint(_MISTAKES):
        return True
    # An `SSLCertVerificationError` is a `ValueError`, too.
    if not isinstance(cause, _FAULTS) or isinstance(cause, OSError):
        return False
    return _network_error_behind(cause) is None


def _network_error_behind(fault: BaseException) -> BaseException | None:
    """Return the network error that led to a fault of an HTTP client; None if none did.

    After a GOAWAY, httpcore closes responses of HTTP/2 twice, and raises a `KeyError` in place of
    its `RemoteProtocolError` (encode/httpx#3072, pydantic/httpx2#808).
    """
    if not isinstance(fault, _BUILTIN_FAULTS):
        return None
    behind = fault.__cause__ or handled_by_source(fault)
    if behind is None:
        return None
    if isinstance(behind, OSError) or _is_of_h2(behind):
        return behind
    return None if _class_names(behind).isdisjoint(_NETWORK) else behind


def _is_of_h2(exc: BaseException) -> bool:
    return type(exc).__module__.startswith("h2.")


def _is_undecodable(cause: BaseException) -> bool:
    """Return whether an HTTP client could not decode a body, except for its missing end.

    Clients report a body that ends early by the same classes, but of themselves: no library
    that decodes has raised before.
    """
    for each in _causes(cause):
        names = _class_names(each)
        decoding = each.__cause__
        if decoding is None and "ContentEncodingError" in names:
            # aiohttp raises it without `from` (`DeflateBuffer.feed_data`).
            decoding = handled_by_source(each)
        is_of_urllib3 = type(each).__module__.startswith("urllib3") and "DecodeError" in names
        if decoding is not None and (is_of_urllib3 or not names.isdisjoint(_UNDECODABLE)):
            return True
    return False


def handled_by_source(exc: BaseException) -> BaseException | None:
    """Return the exception that a source was handling when it raised another one.

    What its caller was handling is none: the caller's frame is not in the traceback.
    """
    handled = exc.__context__
    if handled is None or handled.__traceback__ is None:
        return None
    # The traceback of an exception begins in the frame that handles it.
    handler = handled.__traceback__.tb_frame
    frames = (frame for frame, _ in traceback.walk_tb(exc.__traceback__))
    return handled if any(frame is handler for frame in frames) else None


def _class_names(exc: BaseException) -> set[str]:
    return {base.__name__ for base in type(exc).__mro__}


def _causes(exc: BaseException | None) -> Iterator[BaseException]:
    """Yield an exception and its causes, each once: they may lead to each other.

    `__context__` is none, as it may be an exception that the caller handles while it reads.
    """
    known = set[int]()
    while exc is not None and id(exc) not in known:
        known.add(id(exc))
        yield exc
        # httpcore and requests wrap an exception without `from`, as an argument.
        wrapped = (each for each in exc.args if isinstance(each, BaseException))
        exc = exc.__cause__ or next(wrapped, None)


def _count(events: int) -> str:
    return "1 event" if events == 1 else f"{events} events"
