"""The base class of the replay server and the proxy, and what both do with headers and errors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias
from urllib.parse import quote

import anyio
import msgspec
from msgspec import Struct

from streamnorm._core.errors import LocalProtocolError
from streamnorm.asgi.exchange import Exchange, Receive, Scope, Send, open_exchange

__all__ = ["MAX_BODY_BYTES", "Application", "ReceivedRequest", "end_to_end", "refuse", "start"]

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
    """A request as it arrived, credentials included: it must never be logged or shown.

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
    """An ASGI application that reads the whole request before it responds."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond to one request, or to the server's lifespan messages.

        Raises:
            LocalProtocolError: The scope is of another type.
        """
        match scope["type"]:
            case "http":
                await self._serve(scope, receive, send)
            case "lifespan":
                await self._live(receive, send)
            case other:
                raise LocalProtocolError(f"scope of type {other!r}, expected http or lifespan")

    async def respond(self, request: ReceivedRequest, exchange: Exchange) -> None:
        """Respond to one request; a response left incomplete breaks the connection."""
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
    """Send status and headers of a response."""
    await exchange.start(status, list(headers))


async def refuse(
    exchange: Exchange, status: int, kind: str, message: str, headers: _Headers = ()
) -> None:
    """Send an error response, in a JSON form that clients of all dialects can read."""
    # The message may quote text with lone surrogates, which UTF-8 cannot encode.
    text = message.encode(errors="replace").decode()
    body = msgspec.json.encode({"error": {"type": kind, "message": text}})
    length = (b"content-length", str(len(body)).encode())
    await start(exchange, status, [(b"content-type", b"application/json"), length, *headers])
    await exchange.send(body, more=False)


def end_to_end(headers: _Headers, *, without: Iterable[bytes] = ()) -> list[tuple[bytes, bytes]]:
    """Return the end-to-end headers, with names in lower case, and values as they are.

    They stay in order, and repeated ones are included.

    Args:
        headers: The headers of a message.
        without: Further names to leave out, in lower case.
    """
    received = [(name.lower(), value) for name, value in headers]
    listed = {
        option.strip().lower()
        for name, value in received
        if name == b"connection"
        for option in value.split(b",")
    }
    left_out = {*_HOP_BY_HOP, *listed, *without}
    return [(name, value) for name, value in received if name not in left_out]


async def _read_body(receive: Receive) -> bytes | None:
    """Return the body of a request; None if the client disconnected.

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
    """Return path and query as sent; None if the target is no path (`*`, an absolute URL)."""
    root: str = scope.get("root_path", "")
    if raw_path := scope.get("raw_path"):
        path: bytes = raw_path.removeprefix(root.encode())
    else:  # the decoded path
        path = quote(scope["path"].removeprefix(root), safe=_PATH_CHARACTERS).encode()
    if not path.startswith(b"/"):
        return None
    query: bytes = scope.get("query_string", b"")
    return path + b"?" + query if query else path
