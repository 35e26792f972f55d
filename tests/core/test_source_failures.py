"""Failures of sources that another request does not mend, and those that it may."""

from __future__ import annotations

import io
import ssl
import zlib
from collections.abc import Callable

import httpcore
import httpx
import httpx2
import pytest
import requests
import urllib3

from streamnorm._core.errors import (
    CredentialsError,
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


H2Error = type("ProtocolError", (Exception,), {"__module__": "h2.exceptions"})


def h2_refuses() -> Exception:
    """Return the exception of a request on a connection that the peer has closed.

    `AsyncHTTP2Connection.handle_async_request` wraps it without `from`.
    """
    wrapper = httpcore.LocalProtocolError(H2Error("Invalid input SEND_HEADERS"))
    return caused(httpx.LocalProtocolError("Invalid input SEND_HEADERS"), wrapper)


def raised_after(before: BaseException, error: Exception) -> Exception:
    """Return an error that is raised by a source, while its caller handles another one."""

    def read() -> Exception:
        try:
            raise error
        except type(error) as exc:
            return exc

    try:
        raise before
    except type(before):
        raised = read()
    assert raised.__context__ is before
    return raised


def raised_while_closing(before: BaseException, error: Exception) -> Exception:
    """Return an error that a client raises where it handles another one.

    In HTTP/2, httpcore closes a response twice after a GOAWAY (encode/httpx#3072,
    pydantic/httpx2#808), and its pool raises the `KeyError` again.
    """

    def close() -> None:
        raise error

    def request() -> None:
        try:
            raise before
        except BaseException:
            close()
            raise

    try:
        try:
            request()
        except type(error) as exc:
            raise exc from None
    except type(error) as exc:
        return exc


def read_aiohttp(*, early: bool) -> Exception:
    """Return what aiohttp raises for a body that is not of its coding, or that ends early.

    `DeflateBuffer` wraps the error of the decoder without `from`.
    """

    def feed() -> None:
        if early:
            raise ContentEncodingError("deflate")
        try:
            zlib.decompress(b"no gzip")
        except zlib.error:
            raise ContentEncodingError("Can not decode content-encoding: gzip")  # noqa: B904 - as there

    try:
        feed()
    except ContentEncodingError as exc:
        return caused(ClientPayloadError(), exc)
    raise AssertionError


def urllib3_response(coding: str, body: bytes) -> urllib3.HTTPResponse:
    headers = {"content-encoding": coding}
    return urllib3.HTTPResponse(io.BytesIO(body), headers=headers, preload_content=False)


def read_urllib3() -> Exception:
    """Return what urllib3 raises for a body that is not of its coding."""
    with pytest.raises(urllib3.exceptions.DecodeError) as raised:
        list(urllib3_response("gzip", b"no gzip").stream())
    return raised.value


def read_requests() -> Exception:
    """Return what requests raises for a body that is not of its coding; it does without `from`."""
    response = requests.Response()
    response.raw = urllib3_response("gzip", b"no gzip")
    with pytest.raises(requests.exceptions.ContentDecodingError) as raised:
        list(response.iter_content(10))
    return raised.value


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
    CredentialsError("no credentials of AWS: ConnectTimeoutError"),  # of a refresh
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


UNDECODABLE = {
    "httpx": caused(httpx.DecodingError("x"), zlib.error()),
    "httpx2": caused(httpx2.DecodingError("x"), zlib.error()),
    "aiohttp": read_aiohttp(early=False),
    "urllib3": read_urllib3(),
    "requests": read_requests(),
}
# httpx (`ZStandardDecoder.flush`), aiohttp (`DeflateBuffer.feed_eof`) and urllib3
# (`ZstdDecoder.flush`) raise it so.
INCOMPLETE: dict[str, Callable[[], Exception]] = {
    "httpx": lambda: httpx.DecodingError("Zstandard data is incomplete"),
    "aiohttp": lambda: read_aiohttp(early=True),
    "urllib3": lambda: urllib3.exceptions.DecodeError("Zstandard data is incomplete"),
    "requests": lambda: requests.exceptions.ContentDecodingError(
        urllib3.exceptions.DecodeError("Zstandard data is incomplete")
    ),
}


@pytest.mark.parametrize("cause", UNDECODABLE.values(), ids=UNDECODABLE)
def test_body_that_is_not_of_its_coding_is_malformed(cause: Exception) -> None:
    message = "a body that is not of its content-encoding, expected one that is"
    assert broken_connection(cause, 3) == StreamError("malformed", message)


@pytest.mark.parametrize("make", INCOMPLETE.values(), ids=INCOMPLETE)
def test_coded_body_that_ends_early_is_a_lost_connection(make: Callable[[], Exception]) -> None:
    lost = "connection lost before the first event"
    assert broken_connection(make(), 0).message == lost
    # Also if the caller reads where it handles another exception.
    for before in (zlib.error(), UNDECODABLE["httpx"]):
        assert broken_connection(raised_after(before, make()), 0).message == lost


@pytest.mark.parametrize("before", UNDECODABLE.values(), ids=UNDECODABLE)
def test_exception_that_the_caller_handles_while_it_reads_is_no_cause(before: Exception) -> None:
    """Callers ask again, or ask another provider, in an `except` block."""
    assert broken_connection(raised_after(before, httpx.ReadError("")), 0) == StreamError(
        "transport", "connection lost before the first event", retryable=True
    )
    for slow in (TimeoutError(), httpx.ReadTimeout("")):
        assert broken_connection(raised_after(before, slow), 0).kind == "stalled"


@pytest.mark.parametrize("before", [H2Error(), ConnectionResetError(), httpx.ReadError("")])
@pytest.mark.parametrize("mistake", [httpx.LocalProtocolError("Illegal header"), KeyError("a")])
def test_network_that_failed_before_excuses_no_mistake(
    before: Exception, mistake: Exception
) -> None:
    raised = raised_after(before, mistake)
    assert is_fault(raised)
    assert broken_connection(raised, 0).retryable is False


def test_timeout_of_a_decoder_is_a_timeout() -> None:
    assert broken_connection(caused(TimeoutError(), UNDECODABLE["httpx"]), 0).kind == "stalled"


@pytest.mark.parametrize(
    "before",
    [
        httpcore.RemoteProtocolError("ConnectionTerminated"),
        httpcore.ReadError(""),
        H2Error(),
        ConnectionResetError(),
        ClientPayloadError(),
    ],
    ids=lambda value: type(value).__name__,
)
def test_fault_of_a_client_that_handles_a_network_error_is_a_lost_connection(
    before: Exception,
) -> None:
    for error in (raised_while_closing(before, KeyError(1)), caused(RuntimeError(), before)):
        assert not is_fault(error)
        assert broken_connection(error, 0) == StreamError(
            "transport", "connection lost before the first event", retryable=True
        )


def test_fault_of_a_client_that_handles_a_timeout_is_a_timeout() -> None:
    error = raised_while_closing(httpcore.ReadTimeout(""), KeyError(1))
    assert broken_connection(error, 0).kind == "stalled"


def test_fault_of_a_program_that_handles_no_network_error_is_one() -> None:
    assert is_fault(raised_while_closing(AttributeError(), KeyError(1)))
    assert is_fault(caused(UnrecordedRequest("no recording"), FileNotFoundError()))


def test_exceptions_that_lead_to_each_other_end() -> None:
    """A client that wraps an exception, and raises it again where the wrapper is handled."""
    inner = httpx.ReadError("")
    outer = caused(httpx.DecodingError("x"), inner)
    inner.__context__ = outer
    assert broken_connection(inner, 0).kind == "transport"
    assert broken_connection(outer, 0).kind == "malformed"
    first = httpx.ReadError("")
    first.__cause__ = caused(httpx.ReadError(""), first)
    assert broken_connection(first, 0).kind == "transport"


def test_error_of_a_stream_that_is_the_source_is_its_own() -> None:
    slow = StreamError("upstream", "Slow.", "rate_limit", 429, retryable=True)
    raised = UpstreamError("Slow.", status=429, code="rate_limit", retryable=True)
    assert broken_connection(raised, 0) == slow
    page = NotAStream("an HTML page, expected an event stream")
    expected = "an HTML page, expected an event stream"
    assert broken_connection(page, 0) == StreamError("malformed", expected, "not_a_stream")
