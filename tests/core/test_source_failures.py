"""Failures of sources that another request does not mend, and those that it may."""

from __future__ import annotations

import ssl
import zlib

import httpx
import httpx2
import pytest

from streamnorm._core.errors import (
    LocalProtocolError,
    NotAStream,
    StoreError,
    TruncatedStream,
    UnrecordedRequest,
    UpstreamError,
)
from streamnorm._core.events import StreamError
from streamnorm._core.source_failures import broken_connection, is_fault


class ClientPayloadError(Exception):
    """By name and base, an exception of"""


class ContentEncodingError(Exception):
    """The same."""


class InvalidURL(ValueError):
    """The same."""


def caused(error: Exception, cause: BaseException | None) -> Exception:
    """Return an error with a cause, as `raise … from` makes it."""
    error.__cause__ = cause
    return error


def h11_refuses() -> Exception:
    """Return the exception of a client whose header holds a line break."""
    return caused(httpx.LocalProtocolError("Illegal header value"), ValueError())


def h2_refuses() -> Exception:
    """Return the exception of a request on a connection that the peer has closed."""
    kind = type("ProtocolError", (Exception,), {"__module__": "h2.exceptions"})
    return caused(httpx.LocalProtocolError("Invalid input SEND_HEADERS"), kind())


FAULTS = [
    TypeError(),
    ValueError(),
    KeyError("a"),
    RuntimeError("the client has been closed"),
    ModuleNotFoundError(),
    AttributeError(),
    httpx.InvalidURL("no host"),
    httpx2.UnsupportedProtocol("ftp"),
    httpx.StreamConsumed(),
    httpx2.StreamClosed(),
    InvalidURL("x"),
    h11_refuses(),
    LocalProtocolError("read of a stream that was closed"),
    UnrecordedRequest("no recording"),
]
BREAKS = [
    OSError(),
    EOFError(),
    ConnectionResetError(),
    ssl.SSLCertVerificationError(),  # it is a `ValueError`, too
    httpx.RemoteProtocolError(""),
    httpx2.TooManyRedirects(""),
    ClientPayloadError(),
    h2_refuses(),
    StoreError("the store cannot be reached"),
    TruncatedStream("cut"),
]


@pytest.mark.parametrize("cause", FAULTS, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("events", [0, 2])
def test_mistake_is_no_lost_connection(cause: Exception, events: int) -> None:
    when = "after 2 events, before the message was complete" if events else "before the first event"
    expected = StreamError("transport", f"the source failed {when}", retryable=False)
    assert broken_connection(cause, events) == expected
    assert is_fault(cause)


@pytest.mark.parametrize("cause", BREAKS, ids=lambda value: type(value).__name__)
def test_network_and_peer_break_a_connection(cause: Exception) -> None:
    error = broken_connection(cause, 0)
    assert error == StreamError(
        "transport", "connection lost before the first event", retryable=True
    )
    assert not is_fault(cause)


@pytest.mark.parametrize(
    "cause",
    [
        caused(httpx.DecodingError("x"), zlib.error()),
        caused(httpx2.DecodingError("x"), zlib.error()),
        caused(ClientPayloadError(), caused(ContentEncodingError("gzip"), zlib.error())),
    ],
    ids=["httpx", "httpx2", "aiohttp"],
)
def test_body_that_is_not_of_its_coding_is_malformed(cause: Exception) -> None:
    message = "a body that is not of its content-encoding, expected one that is"
    assert broken_connection(cause, 3) == StreamError("malformed", message)


@pytest.mark.parametrize(
    "cause",
    [
        httpx.DecodingError("Zstandard data is incomplete"),
        caused(ClientPayloadError(), ContentEncodingError("deflate")),
    ],
    ids=["httpx", "aiohttp"],
)
def test_coded_body_that_ends_early_is_a_lost_connection(cause: Exception) -> None:
    """httpx (`ZStandardDecoder.flush`) and aiohttp (`DeflateBuffer.feed_eof`) raise it so."""
    assert broken_connection(cause, 0).message == "connection lost before the first event"


def test_exceptions_that_lead_to_each_other_end() -> None:
    """A client that wraps an exception, and raises it again where the wrapper is handled."""
    inner = httpx.ReadError("")
    outer = caused(httpx.DecodingError("x"), inner)
    inner.__context__ = outer
    assert broken_connection(inner, 0).kind == "malformed"
    assert broken_connection(outer, 0).kind == "malformed"


def test_error_of_a_stream_that_is_the_source_is_its_own() -> None:
    slow = StreamError("upstream", "Slow.", "rate_limit", 429, retryable=True)
    raised = UpstreamError("Slow.", status=429, code="rate_limit", retryable=True)
    assert broken_connection(raised, 0) == slow
    page = NotAStream("an HTML page, expected an event stream")
    expected = "an HTML page, expected an event stream"
    assert broken_connection(page, 0) == StreamError("malformed", expected, "not_a_stream")
