"""The recording proxy: requests are forwarded to a provider, and its responses recorded."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from pathlib import Path

import anyio
import httpx

from streamnorm._core.stream_failures import broken_connection
from streamnorm.asgi.application import Application, ReceivedRequest, end_to_end, refuse, start
from streamnorm.asgi.exchange import Exchange
from streamnorm.recording.recorder import Recorder
from streamnorm.transports.httpx import RecordingTransport

__all__ = ["RecordingProxy"]

_LOGGER = logging.getLogger("streamnorm")

# The client's timeout applies: when it disconnects, the upstream request is cancelled.
_TIMEOUT = httpx.Timeout(None, connect=30)
# Set anew for the upstream request; `expect: 100-continue` was answered by the server.
_OURS = ("accept-encoding", "expect", "host")


class RecordingProxy(Application):
    """An ASGI application that forwards each request to a provider and records the exchange.

    Each read of the provider's response is sent at once.  Credentials reach the provider as
    the client sent them, and are in no recording.  A client that disconnects ends the
    provider's response, too.

    Args:
        upstream: URL of the provider; path and query of each request are appended to it.
        directory: Directory of the recordings, or their recorder.
        redact: Further secrets that must not be written: texts, or regular expressions.
        client: Client to send with, instead of one that records; it is not closed.

    Raises:
        ValueError: `upstream` is no http or https URL, or has a query or a fragment.
    """

    def __init__(
        self,
        upstream: str,
        directory: str | Path | Recorder,
        *,
        redact: Sequence[str | re.Pattern[str]] = (),
        client: httpx.AsyncClient | None = None,
    ) -> None:
        self._upstream = _base_url(upstream)
        self._is_ours = client is None
        self._client = client or _recording_client(directory, redact)

    async def respond(self, request: ReceivedRequest, exchange: Exchange) -> None:
        """Forward a request, and its response chunk by chunk."""
        try:
            response = await self._client.send(
                self._passed_on(request), stream=True, auth=None, follow_redirects=False
            )
        except httpx.HTTPError as exc:
            # The error's text and request may contain the client's data.
            _LOGGER.warning("no answer from upstream: %s", type(exc).__name__)
            await refuse(exchange, 502, "upstream_failed", broken_connection(exc, 0).message)
            return
        try:
            await start(exchange, response.status_code, end_to_end(response.headers.multi_items()))
            async for data in response.aiter_raw():
                await exchange.send(data)
        except httpx.HTTPError:  # the upstream response broke off: leave this one incomplete
            return
        finally:
            with anyio.CancelScope(shield=True):
                await response.aclose()
        await exchange.send(b"", more=False)

    async def aclose(self) -> None:
        """Close the connections to the provider."""
        if self._is_ours:
            await self._client.aclose()

    def _passed_on(self, request: ReceivedRequest) -> httpx.Request:
        base = self._upstream.raw_path.rstrip(b"/")
        url = self._upstream.copy_with(raw_path=base + request.target)
        headers = [
            *end_to_end(request.headers, without=_OURS),
            # The recorded reads are then those of the text itself.
            ("accept-encoding", "identity"),
        ]
        # Built directly: the client would add headers and cookies of its own.
        return httpx.Request(
            request.method,
            url,
            headers=headers,
            content=request.body,
            extensions={"timeout": _TIMEOUT.as_dict()},
        )


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


def _recording_client(
    directory: str | Path | Recorder, redact: Sequence[str | re.Pattern[str]]
) -> httpx.AsyncClient:
    # No bound on connections: one client must not wait for the stream of another.
    limits = httpx.Limits(max_connections=None)
    network = httpx.AsyncHTTPTransport(limits=limits, trust_env=False)
    transport = RecordingTransport(network, directory, redact=redact)
    return httpx.AsyncClient(transport=transport, trust_env=False)
