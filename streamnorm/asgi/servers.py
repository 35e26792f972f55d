"""The replay server, the recording proxy, and their common base class."""

from __future__ import annotations

import logging
import os
import re
import ssl
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias, Unpack
from urllib.parse import quote, quote_from_bytes

import anyio
import httpx
import msgspec
from msgspec import Struct

from streamnorm._core.errors import LocalProtocolError, UnrecordedRequest
from streamnorm.asgi.responses import Exchange, Receive, Scope, Send, open_exchange
from streamnorm.http.headers import reason_of
from streamnorm.http.urls import dialect_of_url
from streamnorm.recording.format import MAX_STATUS, MIN_STATUS, Playback, Responder, WireRequest
from streamnorm.recording.library import ReplayOptions, open_responder
from streamnorm.recording.player import Pace, PlaybackReset, PlaybackTimeout, Player
from streamnorm.recording.recorder import Recorder
from streamnorm.transports.httpx import RecordingTransport

# A conversation with pictures may be tens of megabytes; no client's request is this large.
MAX_BODY_BYTES = 64 * 1024 * 1024

# Closing must end even if the network no longer answers.
_CLOSE_S = 1.0

# RFC 9110 §7.6.1, the older Keep-Alive, and a proxy's credentials.  The server sets the
# length, because it frames the body.
_HOP_BY_HOP = {
    b"connection",
    b"content-length",
    b"keep-alive",
    b"proxy-authenticate",
    b"proxy-authorization",
    b"proxy-connection",
    b"te",
    b"trailer",
    b"transfer-encoding",
    b"upgrade",
}
# RFC 9112 §6.1: a request with both may be an attempt at request smuggling.
_BOTH_FRAMINGS = {b"content-length", b"transfer-encoding"}
# What a path may contain besides letters, digits and "-._~" (RFC 3986 §3.3).
_PATH_CHARACTERS = "/:@!$&'()*+,;="

_Headers: TypeAlias = Iterable[tuple[bytes, bytes]]


class ReceivedRequest(Struct, frozen=True):
    """A request as received, with credentials: never to be logged or shown.

    Attributes:
        method: HTTP method.
        origin: Scheme and host that the client used, for example `http://localhost`.
        target: Path and query as sent, without the path at which the application is mounted.
        headers: Pairs of lower-case name and value as sent, in order; a name may occur twice.
        body: The whole body.
    """

    method: str
    origin: str
    target: bytes
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes

    def __repr__(self) -> str:
        return f"ReceivedRequest({self.method!r}, …)"


class Application:
    """Base class of ASGI applications that read a whole request before they respond."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond to a request, a WebSocket, or the server's lifespan messages.

        Raises:
            LocalProtocolError: The scope is of another type.
        """
        match scope["type"]:
            case "http":
                await self._serve(scope, receive, send)
            case "websocket":
                await self._open_websocket(scope, receive, send)
            case "lifespan":
                await self._live(receive, send)
            case other:
                raise LocalProtocolError(
                    f"scope of type {other!r}, expected http, websocket or lifespan"
                )

    async def serve_websocket(
        self, scope: Scope, receive: Receive, send: Send, target: bytes
    ) -> None:
        """Serve one WebSocket.

        Args:
            scope: The scope.
            receive: The server's `receive`, from which nothing was received.
            send: The server's `send`.
            target: Path and query, as of a request.
        """
        raise NotImplementedError

    async def _open_websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        from streamnorm.asgi.websockets import refuse_handshake

        if (target := _target(scope)) is None:
            await refuse_handshake(scope, send, 400, "invalid_request", "target is no path")
        else:
            await self.serve_websocket(scope, receive, send, target)

    async def respond(self, request: ReceivedRequest, exchange: Exchange) -> None:
        """Respond to one request; an incomplete response breaks the connection."""
        raise NotImplementedError

    async def aclose(self) -> None:
        """Release the application's resources; called when the server shuts down."""

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_ambiguous = {name.lower() for name, _ in scope["headers"]} >= _BOTH_FRAMINGS
        body = b"" if is_ambiguous else await _read_body(receive)
        if body is None:
            return
        async with open_exchange(receive, send) as exchange:
            if is_ambiguous:
                message = "content-length and transfer-encoding, expected one of them"
                # The rest of the connection may be a request that somebody hid in the body.
                close = [(b"connection", b"close")]
                await refuse(exchange, 400, "invalid_request", message, close)
            elif len(body) > MAX_BODY_BYTES:
                message = f"body of more than {MAX_BODY_BYTES} bytes"
                await refuse(exchange, 413, "request_too_large", message)
            elif (target := _target(scope)) is None:
                await refuse(exchange, 400, "invalid_request", "target is no path")
            else:
                await self.respond(_request(scope, target, body), exchange)

    async def _live(self, receive: Receive, send: Send) -> None:
        try:
            while (await receive())["type"] != "lifespan.shutdown":
                await send({"type": "lifespan.startup.complete"})
        finally:  # also if the server is cancelled
            with anyio.move_on_after(_CLOSE_S, shield=True):
                await self.aclose()
        await send({"type": "lifespan.shutdown.complete"})


async def start(exchange: Exchange, status: int, headers: _Headers) -> None:
    """Send the status and headers of a response."""
    await exchange.start(status, list(headers))


async def refuse(
    exchange: Exchange, status: int, kind: str, message: str, headers: _Headers = ()
) -> None:
    """Send an error response as JSON that clients of all dialects can read."""
    # The message may quote text with lone surrogates, which UTF-8 cannot encode.
    text = message.encode(errors="replace").decode()
    body = msgspec.json.encode({"error": {"type": kind, "message": text}})
    length = (b"content-length", str(len(body)).encode())
    await start(exchange, status, [(b"content-type", b"application/json"), length, *headers])
    await exchange.send(body, more=False)


def select_end_to_end(
    headers: _Headers, *, without: Iterable[bytes] = ()
) -> list[tuple[bytes, bytes]]:
    """Return the end-to-end headers with lower-case names.

    Their order and repeated headers are preserved.

    Args:
        headers: The headers of a message.
        without: Further names to leave out, in lower case.
    """
    received = [(name.lower(), value) for name, value in headers]
    # RFC 9110, section 7.6.1: what `connection` names ends at the next hop.
    listed = {
        option.strip().lower()
        for name, value in received
        if name == b"connection"
        for option in value.split(b",")
    }
    left_out = {*_HOP_BY_HOP, *listed, *without}
    return [(name, value) for name, value in received if name not in left_out]


async def _read_body(receive: Receive) -> bytes | None:
    """Return the request's body; None if the client disconnected.

    A body above `MAX_BODY_BYTES` is returned incomplete, as soon as it exceeds the bound.
    """
    received: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        piece: bytes = message.get("body", b"")
        size += len(piece)
        received.append(piece)
        if size > MAX_BODY_BYTES or not message.get("more_body", False):
            return b"".join(received)


def _request(scope: Scope, target: bytes, body: bytes) -> ReceivedRequest:
    headers = tuple((name.lower(), value) for name, value in scope["headers"])
    host = dict(headers).get(b"host", b"localhost").decode("latin-1")
    return ReceivedRequest(scope["method"], f"{scope['scheme']}://{host}", target, headers, body)


def _target(scope: Scope) -> bytes | None:
    """Return the request's path and query as sent; None for the targets `*` and absolute URLs."""
    root: str = scope.get("root_path", "")
    # Optional in ASGI; without it, escaped slashes are lost.
    if raw_path := scope.get("raw_path"):
        path: bytes = raw_path.removeprefix(root.encode())
    else:  # the decoded path
        path = quote(scope["path"].removeprefix(root), safe=_PATH_CHARACTERS).encode()
    if not path.startswith(b"/"):
        return None
    query: bytes = scope.get("query_string", b"")
    return path + b"?" + query if query else path


class ReplayApp(Application):
    """An ASGI application that answers requests with recordings.

    A recorded connection that broke becomes an incomplete response; one that timed out stays
    silent until the client disconnects.  A request without a recording gets an error 404,
    which official SDKs do not retry.

    Args:
        source: A recording, a directory of recordings, or a responder.
        speed: Factor over the recorded speed; 0 plays without waiting.
        max_gap_s: Longest gap between two chunks, in recorded seconds; None for no bound.
        **options: The options of `ReplayTransport`.

    Attributes:
        responder: Answers the requests.

    Raises:
        RecordingError: A recording cannot be read.
        ValueError: An option has no such value.
    """

    def __init__(
        self,
        source: str | Path | Responder,
        *,
        speed: float = 0,
        max_gap_s: float | None = None,
        **options: Unpack[ReplayOptions],
    ) -> None:
        self._pace = Pace(speed, max_gap_s)
        self.responder: Responder = open_responder(source, **options)

    async def respond(self, request: ReceivedRequest, exchange: Exchange) -> None:
        """Play the recording that matches a request."""
        url = request.origin + request.target.decode("latin-1")
        headers = tuple(
            (name.decode("latin-1"), value.decode("latin-1")) for name, value in request.headers
        )
        asked = WireRequest(request.method, url, headers, request.body)
        try:
            playback = self.responder.respond(asked)
        except UnrecordedRequest as exc:
            # The SDKs of OpenAI and Anthropic read this header before the status.
            no_retry = [(b"x-should-retry", b"false")]
            await refuse(exchange, 404, "unrecorded_request", str(exc), no_retry)
            return
        await self._play(playback, exchange)

    async def serve_websocket(
        self, scope: Scope, receive: Receive, send: Send, target: bytes
    ) -> None:
        """Answer each `response.create` message on a WebSocket with a recording that matches."""
        from streamnorm.asgi.websockets import replay

        await replay(scope, receive, send, target, self.responder, self._pace)

    async def _play(self, playback: Playback, exchange: Exchange) -> None:
        # The recorded body is the one after content decoding.
        recorded = [(name.encode(), value.encode()) for name, value in playback.headers.items()]
        headers = select_end_to_end(recorded, without=[b"content-encoding"])
        await start(exchange, playback.status, headers)
        try:
            async for data in Player(playback, self._pace):
                await exchange.send(data)
        # Without the last HTTP chunk the server closes the connection, which is what was recorded.
        except PlaybackReset:
            return
        except PlaybackTimeout:
            await anyio.sleep_forever()
        await exchange.send(b"", more=False)


_LOGGER = logging.getLogger("streamnorm")

# The client's timeout applies: when it disconnects, the upstream request is cancelled.
_TIMEOUT = httpx.Timeout(None, connect=30)
# httpcore receives 64 KiB at once, and the shortest chunk, with its framing, has six bytes.
_MAX_RECEIVED_CHUNKS = 64 * 1024 // 6
# Set anew for the upstream request; `expect: 100-continue` was answered by the server.
_REPLACED_HEADERS = (b"accept-encoding", b"expect", b"host")
# What a URL may contain besides letters, digits and "-._~" (RFC 3986 §2).
_URL_CHARACTERS = "%/?:@!$&'()*+,;=[]"
# A segment "." or "..", also as servers read one that take a backslash for a slash, decode a
# path once or twice before they remove dot segments, or let parameters follow a segment.
_SLASH = rb"(?:[/\\]|%(?:25)*(?:2f|5c))"
_DOT_SEGMENT = re.compile(
    _SLASH + rb"(?:\.|%(?:25)*2e){1,2}(?:\Z|;|%(?:25)*3b|" + _SLASH + rb")", re.IGNORECASE
)


class RecordingProxy(Application):
    """An ASGI application that forwards requests to a provider and records them.

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
        self._recorder: Recorder | None = None
        if client is None:
            if not isinstance(directory, Recorder):
                directory = Recorder(directory, redact=redact, request_bodies=request_bodies)
            self._recorder = directory
            self._trust = _trust(ca)
            client = _recording_client(directory, self._trust)
        self._client = client

    async def serve_websocket(
        self, scope: Scope, receive: Receive, send: Send, target: bytes
    ) -> None:
        """Forward a WebSocket, and record its exchanges."""
        from streamnorm.asgi.websockets import ProxySocket, refuse_handshake

        try:
            url = str(self._url(target))
        except ValueError as exc:
            await refuse_handshake(scope, send, 400, "invalid_request", str(exc))
            return
        url = f"ws{url.removeprefix('http')}"
        if self._recorder is None or dialect_of_url(url) is None:
            # The status at which clients go on with HTTP at once.
            found = "a WebSocket that cannot be recorded, expected a request over HTTP"
            await refuse_handshake(scope, send, 426, "invalid_request", found)
            return
        socket = ProxySocket(url, self._recorder, self._trust, MAX_BODY_BYTES)
        await socket.run(scope, receive, send, target)

    async def respond(self, request: ReceivedRequest, exchange: Exchange) -> None:
        """Forward a request, and its response chunk by chunk."""
        try:
            url = self._url(request.target)
        except ValueError as exc:
            await refuse(exchange, 400, "invalid_request", str(exc))
            return
        try:
            response = await self._client.send(
                _build_request(request, url), stream=True, auth=None, follow_redirects=False
            )
        except httpx.HTTPError as exc:
            # The error's text and request may contain the client's data.
            await _refuse_upstream(exchange, reason_of(exc))
            return
        reads = response.aiter_raw()
        status = response.status_code
        try:
            # httpx reads any three digits, and a server of HTTP can send no others than these.
            if not MIN_STATUS <= status <= MAX_STATUS:
                found = f"status {status} of the provider"
                await _refuse_upstream(exchange, f"{found}, expected {MIN_STATUS} to {MAX_STATUS}")
                return
            await start(exchange, status, select_end_to_end(response.headers.raw))
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
        """Return the provider's URL for a request's path and query.

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


async def _refuse_upstream(exchange: Exchange, reason: str) -> None:
    """Answer 502, and log why there is no answer of the provider."""
    _LOGGER.warning("no answer from upstream: %s", reason)
    await refuse(exchange, 502, "upstream_failed", reason)


def _build_request(request: ReceivedRequest, url: httpx.URL) -> httpx.Request:
    """Return the request to the provider for a client's request."""
    headers = [
        *select_end_to_end(request.headers, without=_REPLACED_HEADERS),
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
    """End all nested generators that read a response body, by cancelling one read.

    Closing the outermost generator of httpx leaves the inner ones to the garbage collector, at
    which trio warns; a cancelled read ends them all.
    """
    with anyio.CancelScope() as scope, suppress(httpx.HTTPError, StopAsyncIteration):
        scope.cancel()
        # Chunks that were received already are returned first, and need no network.
        for _ in range(_MAX_RECEIVED_CHUNKS):
            await anext(reads)


def _base_url(upstream: str) -> httpx.URL:
    """Parse the provider's base URL."""
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
    """Return a TLS context that trusts the CAs of a file, or of the environment."""
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
