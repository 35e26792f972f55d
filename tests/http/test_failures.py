"""Reasons of failed connections: real ones on loopback, on both back ends."""

from __future__ import annotations

import errno
import os
import socket
import ssl
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from support.http.asgi_caller import Caller
from support.http.raw_http import raw_upstream, refuse_tls, reset, serving
from support.http.tls import Authority

from streamnorm.asgi import RecordingProxy
from streamnorm.http.headers import failed_request, reason_of

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls"))


async def reason(upstream: str, directory: Path, ca: Path | None = None) -> str:
    """Return the reason in the proxy's error 502."""
    app = RecordingProxy(upstream, directory, ca=ca)
    caller = Caller("/v1/models?key=sk-secret", method="GET")
    await caller.call(app)
    await app.aclose()
    assert caller.status == 502
    return caller.error["message"]


async def test_trusted_certificate_is_accepted(authority: Authority, tmp_path: Path) -> None:
    with authority.upstream() as upstream:
        app = RecordingProxy(upstream.url, tmp_path, ca=authority.file)
        caller = Caller("/v1/models", method="GET")
        await caller.call(app)
        await app.aclose()
    assert caller.status == 200
    assert upstream.targets == [b"/v1/models"]


async def test_unknown_authority(authority: Authority, tmp_path: Path) -> None:
    with authority.upstream() as upstream:
        assert await reason(upstream.url, tmp_path) == (
            "TLS error: the provider's certificate is not trusted:"
            " unable to get local issuer certificate"
        )
        assert upstream.requests == []


async def test_certificate_of_another_host(authority: Authority, tmp_path: Path) -> None:
    with authority.upstream("other.example") as upstream:
        assert await reason(upstream.url, tmp_path, authority.file) == (
            "TLS error: the provider's certificate is not trusted: IP address mismatch"
        )
        assert upstream.requests == []


@pytest.mark.parametrize(
    ("respond", "error"),
    [
        (refuse_tls, "wrong version number"),
        (lambda connection: connection.recv(100_000), "unexpected eof while reading"),
    ],
)
async def test_server_without_tls(
    respond: Callable[[socket.socket], object], error: str, tmp_path: Path
) -> None:
    with serving(respond) as address:
        found = await reason(f"https://{address}", tmp_path)
    assert found == f"TLS error: the handshake failed: {error}"


async def test_unknown_host_name(tmp_path: Path) -> None:
    found = await reason("http://nowhere.invalid", tmp_path)
    assert found.startswith("DNS error: the provider's host name does not resolve: ")


@pytest.mark.parametrize("url", ["http://127.0.0.1", "https://127.0.0.1", "http://localhost"])
async def test_refused_connection(url: str, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    assert (
        await reason(f"{url}:{port}", tmp_path)
        == "connection error: the provider refused the connection"
    )


async def test_reset_before_a_response(tmp_path: Path) -> None:
    with serving(reset) as address:
        lost = "connection lost before the first event"
        assert await reason(f"http://{address}", tmp_path) == lost


@pytest.mark.parametrize("response", [b"", b"+OK dovecot ready\r\n"])
async def test_no_valid_response(response: bytes, tmp_path: Path) -> None:
    with raw_upstream(response) as upstream:
        assert await reason(upstream.url, tmp_path) == ("connection lost before the first event")


def test_handshake_that_timed_out_has_no_tls_error() -> None:
    error = httpx.ConnectTimeout("-")
    error.__context__ = ssl.SSLWantReadError("the operation did not complete")
    assert reason_of(error) == "connection timed out before the first event"


@pytest.mark.parametrize(
    ("cause", "reason"),
    [
        (
            ssl.CertificateError(),
            "TLS error: the provider's certificate is not trusted: no details",
        ),
        (ssl.SSLError(), "TLS error: the handshake failed: no details"),
    ],
)
def test_errors_raised_in_python_have_no_details(cause: Exception, reason: str) -> None:
    error = httpx.ConnectError("-")
    error.__cause__ = cause
    assert reason_of(error) == reason


def test_other_failures_to_connect_have_the_words_of_the_system() -> None:
    error = httpx.ConnectError("-")
    error.__cause__ = OSError(errno.ENETUNREACH, "sk-secret")
    assert reason_of(error) == f"connection error: {os.strerror(errno.ENETUNREACH)}"


def test_errors_that_cause_each_other_end() -> None:
    error, inner = httpx.ConnectError("-"), OSError("-")
    error.__cause__, inner.__cause__ = inner, error
    expected = "connection error: the provider could not be reached"
    assert (reason_of(error), reason_of(inner)) == (
        expected,
        "connection lost before the first event",
    )


async def test_exception_that_the_caller_handles_is_no_reason(tmp_path: Path) -> None:
    """Callers ask another provider in an `except` block."""
    with serving(reset) as address:
        try:
            raise ssl.CertificateError
        except ssl.CertificateError:
            found = await reason(f"http://{address}", tmp_path)
    assert found == "connection lost before the first event"


def test_refusal_by_one_of_several_addresses() -> None:
    group = ExceptionGroup("attempts", [OSError(101, "-"), ConnectionRefusedError(111, "-")])
    error = httpx.ConnectError("-")
    error.__cause__ = OSError("all failed")
    error.__cause__.__cause__ = group
    assert reason_of(error) == "connection error: the provider refused the connection"


def test_connection_error_without_a_number_keeps_its_words() -> None:
    error = httpx.ConnectError("-")
    error.__cause__ = OSError("sk-secret")
    assert reason_of(error) == "connection error: the provider could not be reached"


def test_failed_request_is_an_error_that_clients_retry() -> None:
    error = failed_request(httpx.ReadTimeout("-"))
    assert (error.kind, error.retryable) == ("stalled", True)
    assert error.message == reason_of(httpx.ReadTimeout("-"))
