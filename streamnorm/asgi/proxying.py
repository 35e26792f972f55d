"""The recording proxy: requests are forwarded to a provider, and its responses recorded."""

from __future__ import annotations

import logging
import os
import re
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote_from_bytes

import anyio
import httpx

from streamnorm.asgi.application import Application, ReceivedRequest, end_to_end, refuse, start
from streamnorm.asgi.exchange import Exchange
from streamnorm.asgi.upstream_failures import reason_of
from streamnorm.recording.recorder import Recorder
from streamnorm.transports.httpx import RecordingTransport

__all__ = ["RecordingProxy"]

_LOGGER = logging.getLogger("streamnorm")

# The client's timeout applies: when it disconnects, the upstream request is cancelled.
_TIMEOUT = httpx.Timeout(None, connect=30)
# httpcore receives 64 KiB at once, and the shortest chunk, with its framing, has six bytes.
_MAX_RECEIVED_CHUNKS = 64 * 1024 // 6
# Set anew for the upstream request; `expect: 100-continue` was answered by the server.
_OURS = (b"accept-encoding", b"expect", b"host")
# What a URL may contain besides letters, digits and "-._~" (RFC 3986 §2).
_URL_CHARACTERS = "%/?:@!$&'()*+,;=[]"
# A segment "." or "..", also as servers read one that take a backslash for a slash, decode a
# path once or twice before they remove dot segments, or let parameters follow a segment.
_SLASH = rb"(?:[/\\]|%(?:25)*(?:2f|5c))"
_DOT_SEGMENT = re.compile(
    _SLASH + rb"(?:\.|%(?:25)*2e){1,2}(?:\Z|;|%(?:25)*3b|" + _SLASH + rb")", re.IGNORECASE
)


class RecordingProxy(Application):
    """An ASGI application that forwards each request to a provider and records the exchange.

    Each read of the provider's response is sent at once.  Credentials reach the provider as
    the client sent them, and are in no recording.  A client that disconnects ends the
    provider's response, too.

    Header values pass byte for byte, as do path and query, in which only bytes that no URL may
    contain are percent-encoded.  A path with dot segments is refused: no request leaves the
    path of `upstream`.

    Args:
        upstream: URL of the provider; path and query of each request are appended to it.
        directory: Directory of the recordings; or their recorder, which has `redact` and
            `request_bodies` itself.
        redact: Further secrets that must not be written: texts, or regular expressions.
        request_bodies: Whether the bodies of requests are written.  Without them, a replay
            selects recordings by method, path and query alone.
        ca: PEM file of the certificate authorities to trust; None for the file or directory
            named by `SSL_CERT_FILE` or `SSL_CERT_DIR`, or else those of certifi.
        client: Client to send with, instead of one that records; it is not closed.

    Raises:
        ValueError: `upstream` is no http or https URL, or has a query or a fragment; or the
            file of the authorities cannot be read.
    """

    def __init__(
        self,
        upstream: str,
        directory: str | Path | Recorder,
        *,
        redact: Sequence[str | re.Pattern[str]] = (),
        request_bodies: bool = True,
        ca: str | Path | None = None,
        client: httpx.AsyncClient | None = None,
    ) -> None:
        self._upstream = _base_url(upstream)
        self._base_path = self._upstream.raw_path.rstrip(b"/")
        self._is_ours = client is None
        if client is None:
            if not isinstance(directory, Recorder):
                directory = Recorder(directory, redact=redact, request_bodies=request_bodies)
            client = _recording_client(directory, _trust(ca))
        self._client = client

    async def respond(self, request: ReceivedRequest, exchange: Exchange) -> None:
        """Forward a request, and its response chunk by chunk."""
        try:
            url = self._url(request.target)
        except ValueError as exc:
            await refuse(exchange, 400, "invalid_request", str(exc))
            return
        try:
            response = await self._client.send(
                _forwarded(request, url), stream=True, auth=None, follow_redirects=False
            )
        except httpx.HTTPError as exc:
            # The error's text and request may contain the client's data.
            reason = reason_of(exc)
            _LOGGER.warning("no answer from upstream: %s", reason)
            await refuse(exchange, 502, "upstream_failed", reason)
            return
        reads = response.aiter_raw()
        try:
            await start(exchange, response.status_code, end_to_end(response.headers.raw))
            async for data in reads:
                await exchange.send(data)
        except httpx.HTTPError:  # the upstream response broke off: leave this one incomplete
            return
        finally:
            with anyio.CancelScope(shield=True):
                await _cancel_read(reads)
                await response.aclose()
        await exchange.send(b"", more=False)

    async def aclose(self) -> None:
        """Close the connections to the provider."""
        if self._is_ours:
            await self._client.aclose()

    def _url(self, target: bytes) -> httpx.URL:
        """Return the URL of a target at the provider.

        Raises:
            ValueError: The target is refused.
        """
        if _DOT_SEGMENT.search(target.partition(b"?")[0]):
            raise ValueError("path has dot segments, expected none")
        encoded = quote_from_bytes(target, _URL_CHARACTERS).encode()
        try:
            return self._upstream.copy_with(raw_path=self._base_path + encoded)
        except httpx.InvalidURL as exc:
            raise ValueError("target is too long") from exc


def _forwarded(request: ReceivedRequest, url: httpx.URL) -> httpx.Request:
    """Return the request to send to the provider."""
    headers = [
        *end_to_end(request.headers, without=_OURS),
        # The recorded reads are then those of the text itself.
        (b"accept-encoding", b"identity"),
    ]
    # Built directly: the client would add headers and cookies of its own.
    return httpx.Request(
        request.method,
        url,
        headers=headers,
        content=request.body,
        extensions={"timeout": _TIMEOUT.as_dict()},
    )


async def _cancel_read(reads: AsyncIterator[bytes]) -> None:
    """End the reads of a body by one that is cancelled.

    httpx and httpcore read in nested generators.  To close the outermost leaves the inner ones
    to the garbage collector, of which trio warns; a cancelled read ends them all.
    """
    with anyio.CancelScope() as scope, suppress(httpx.HTTPError, StopAsyncIteration):
        scope.cancel()
        # Chunks that were received already are returned first, and need no network.
        for _ in range(_MAX_RECEIVED_CHUNKS):
            await anext(reads)


def _base_url(upstream: str) -> httpx.URL:
    """Return the URL to which paths are appended."""
    try:
        url = httpx.URL(upstream)
    except httpx.InvalidURL as exc:
        raise ValueError("upstream is no URL") from exc
    if url.scheme not in ("http", "https") or not url.host:
        raise ValueError("upstream is no http or https URL")
    if url.query or url.fragment:
        raise ValueError("upstream has a query or a fragment, expected none")
    return url


def _trust(ca: str | Path | None) -> ssl.SSLContext:
    """Return a context that trusts the authorities of a file, or those of the environment."""
    # httpx 0.27 ignores the variable if there is no such file.
    file = os.environ.get("SSL_CERT_FILE") or None if ca is None else ca
    if file is None:
        return httpx.create_ssl_context()
    try:
        return ssl.create_default_context(cafile=Path(file))
    except OSError as exc:
        name = "SSL_CERT_FILE" if ca is None else "ca"
        reason = "no PEM certificates" if isinstance(exc, ssl.SSLError) else exc.strerror
        raise ValueError(f"{name} {file}: {reason}") from exc


def _recording_client(recorder: Recorder, trust: ssl.SSLContext) -> httpx.AsyncClient:
    # No bound on connections: one client must not wait for the stream of another.
    limits = httpx.Limits(max_connections=None)
    network = httpx.AsyncHTTPTransport(verify=trust, limits=limits, trust_env=False)
    transport = RecordingTransport(network, recorder)
    return httpx.AsyncClient(transport=transport, trust_env=False)
