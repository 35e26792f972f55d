"""Passing requests on, and recording the answers."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from pathlib import Path

import anyio
import httpx

from streamnorm.asgi.application import Application, Request, end_to_end, refuse, start
from streamnorm.asgi.exchange import Exchange
from streamnorm.recording.recorder import Recorder
from streamnorm.transports.httpx import RecordingTransport

__all__ = ["RecordingProxy"]

_LOGGER = logging.getLogger("streamnorm")

# How long to wait for an answer is the client's to say: it leaves, and so do we.
_TIMEOUT = httpx.Timeout(None, connect=30)
# What the request to the provider has of its own; that a body may come was answered here.
_OURS = ("accept-encoding", "expect", "host")


class RecordingProxy(Application):
    """Pass each request on to a provider and its answer back, and record both.

    A read of the provider's answer is sent as it comes.  Credentials reach the provider as
    the client sent them, and are in no recording.  A client that leaves ends the provider's
    answer, too.

    Args:
        upstream: URL of the provider; path and query of each request are appended to it.
        directory: Where to write the recordings, or what writes them there.
        redact: What else must not be written: texts, or regular expressions.
        client: What to send with, in place of a client that records; it stays open.

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

    async def respond(self, request: Request, exchange: Exchange) -> None:
        """Pass a request on, and what comes back as it comes."""
        try:
            response = await self._client.send(
                self._passed_on(request), stream=True, auth=None, follow_redirects=False
            )
        except httpx.HTTPError as exc:
            # Its text and its request may hold what the client sent.
            reason = type(exc).__name__
            _LOGGER.warning("no answer from upstream: %s", reason)
            await refuse(exchange, 502, "upstream_failed", f"no answer from upstream: {reason}")
            return
        try:
            await start(exchange, response.status_code, end_to_end(response.headers.multi_items()))
            async for data in response.aiter_raw():
                await exchange.send(data)
        except httpx.HTTPError:  # the answer broke off, and so does ours
            return
        finally:
            with anyio.CancelScope(shield=True):
                await response.aclose()
        await exchange.send(b"", more=False)

    async def aclose(self) -> None:
        """Close the connections to the provider."""
        if self._is_ours:
            await self._client.aclose()

    def _passed_on(self, request: Request) -> httpx.Request:
        base = self._upstream.raw_path.rstrip(b"/")
        url = self._upstream.copy_with(raw_path=base + request.target)
        headers = [
            *end_to_end(request.headers, without=_OURS),
            # So that the reads that are recorded are those of the text itself.
            ("accept-encoding", "identity"),
        ]
        # Made by hand: a client would add headers and cookies of its own.
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
    # As many connections as clients ask for: one must not wait for another's stream.
    limits = httpx.Limits(max_connections=None)
    network = httpx.AsyncHTTPTransport(limits=limits, trust_env=False)
    transport = RecordingTransport(network, directory, redact=redact)
    return httpx.AsyncClient(transport=transport, trust_env=False)
