"""Reader of the answer to one `response.create`, sent over a new WebSocket, for `connect`.

https://developers.openai.com/api/docs/guides/websocket-mode (read 2026-11-23).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from importlib import import_module
from typing import Any, NamedTuple

import anyio

from streamnorm._core.codec import Dialect
from streamnorm._core.codec.socket_events import message_line, type_of
from streamnorm._core.errors import LocalProtocolError
from streamnorm._core.json import compact, is_object
from streamnorm.aio.sources import opening
from streamnorm.http.urls import dialect_of_url
from streamnorm.sse import Frame

# The defaults of HTTP clients, which are of requests.
_HTTP_HEADERS = ("accept", "accept-encoding", "connection", "content-length", "content-type")
# Every answer is a stream, and a WebSocket has no other.
_NOT_SENT = ("stream", "stream_options", "background")


def open_reader(client: object, url: str, options: Mapping[str, Any]) -> WebSocketReader:
    """Return a reader of the answer to the `response.create` in `options`.

    Args:
        client: The HTTP client, whose headers the handshake has.
        url: URL of the WebSocket.
        options: Arguments of the request: `json` is the create, `headers` those of the handshake,
            `timeout` replaces the timeouts of the client.

    Raises:
        TypeError: An option means nothing on a WebSocket, or there is no create.
        ValueError: The path is that of no dialect with WebSockets.
    """
    known = dialect_of_url(url)
    if known is None:
        raise ValueError("a WebSocket at another path, expected /v1/responses of a server")
    unknown = sorted(options.keys() - {"json", "headers", "timeout"})
    create = options.get("json")
    if unknown or not is_object(create):
        found = ", ".join(unknown) or "no JSON object"
        raise TypeError(f"{found} for a WebSocket, expected json, headers and timeout")
    import httpx

    headers = httpx.Headers(getattr(client, "headers", None))
    headers.update(options.get("headers"))
    return WebSocketReader(url, headers, create, known, _timeouts(client, options))


class Timeouts(NamedTuple):
    """Seconds after which an operation on a WebSocket is given up; None for never."""

    connect: float | None = None
    read: float | None = None
    write: float | None = None


def _timeouts(client: object, options: Mapping[str, Any]) -> Timeouts:
    """Return the timeouts that the client has for a request with these options.

    Raises:
        TypeError: `timeout` is none.
    """
    build: Callable[..., Any] | None = getattr(client, "build_request", None)
    if build is None:
        return Timeouts()
    # The client itself reads all forms of a timeout: a number, a tuple, its own class, its default.
    given = {"timeout": options["timeout"]} if "timeout" in options else {}
    stated = build("GET", "http://localhost", **given).extensions["timeout"]
    values: list[Any] = [stated.get(name) for name in Timeouts._fields]
    for value in values:
        # httpx fails only when it waits.
        if value is not None and not isinstance(value, int | float):
            raise TypeError(f"timeout holds {type(value).__name__}, expected seconds or None")
    return Timeouts(*values)


def _check_loop() -> None:
    """Check that the event loop is one of asyncio, which `websockets` needs.

    Raises:
        LocalProtocolError: It is another loop, such as trio's.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError as exc:
        raise LocalProtocolError("a WebSocket in another loop, expected that of asyncio") from exc


class WebSocketReader:
    """A reader that opens a WebSocket, sends a `response.create` and reads the answer's messages.

    A handshake that is refused is read as the response that it is.

    Args:
        url: URL of the WebSocket.
        headers: Headers of the handshake.
        create: The create, or the body of a request for a stream.
        dialect: The dialect at the URL, which says what ends a response.
        timeouts: Bounds of the handshake, of the wait for each message, and of the create.
    """

    def __init__(
        self,
        url: str,
        headers: Mapping[str, str],
        create: Mapping[str, Any],
        dialect: Dialect,
        timeouts: Timeouts,
    ) -> None:
        self.status: int | None = None
        self.content_type: str | None = None
        self.error_type: str | None = None
        self.headers: Mapping[str, str] = {}
        self._url = url
        self._sent = {name: text for name, text in headers.items() if name not in _HTTP_HEADERS}
        body = {name: value for name, value in create.items() if name not in _NOT_SENT}
        self._create = compact({"type": "response.create", **body})
        self._dialect = dialect
        self._timeouts = timeouts
        self._socket: Any = None
        self._has_ended = False

    @property
    def read(self) -> Callable[[], Awaitable[bytes]]:
        """Return the next message; the first call connects and sends the `response.create`."""
        return self._open if self._socket is None else self._read

    async def close(self) -> None:
        """Close the WebSocket, if it is open."""
        if self._socket is not None:
            await self._socket.close()

    async def _open(self) -> bytes:
        """Open the WebSocket, send the `response.create` and return the first message.

        Raises:
            NotSent: `websockets`, of the extra `serve`, is not installed, or the loop is not that
                of asyncio.
            TimeoutError: The server is late.
        """
        if self._has_ended:
            raise StopAsyncIteration
        with opening():
            _check_loop()
            connect: Any = import_module("websockets.asyncio.client").connect
            refused = import_module("websockets.exceptions").InvalidStatus
            connecting = connect(
                self._url,
                additional_headers=self._sent,
                compression=None,  # it costs more than it saves, one event at a time
                max_size=None,  # the decoder has a bound
                open_timeout=self._timeouts.connect,
            )
            try:
                self._socket = await connecting
            except refused as exc:
                return self._read_refusal(exc.response)
        with anyio.fail_after(self._timeouts.write):
            await self._socket.send(self._create)
        return await self._read()

    def _read_refusal(self, response: Any) -> bytes:
        self._has_ended = True
        self.status = response.status_code
        self.headers = {name.lower(): text for name, text in response.headers.raw_items()}
        self.content_type = self.headers.get("content-type")
        return bytes(response.body or b"\n")

    async def _read(self) -> bytes:
        if self._has_ended:
            raise StopAsyncIteration
        exceptions = import_module("websockets.exceptions")
        try:
            # The answers to pings are not the server's own: a model may be silent behind them.
            with anyio.fail_after(self._timeouts.read):
                message: str | bytes = await self._socket.recv()
        except exceptions.ConnectionClosedOK as exc:
            raise StopAsyncIteration from exc
        except exceptions.ConnectionClosed as exc:
            raise ConnectionResetError("the WebSocket was closed") from exc
        text = message if isinstance(message, str) else message.decode(errors="replace")
        line = message_line(text)
        kind = type_of(line) or ""
        # The connection stays open behind the response, and nothing else would come.
        if not kind.endswith(".delta"):
            self._has_ended = kind == "error" or self._dialect.is_terminal(Frame(kind, text))
        return line
