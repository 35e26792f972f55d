"""ASGI responses for streams and their messages, with or without Starlette or FastAPI.

`EventSender` is the sending half of one ASGI request: it watches for a disconnect, and sends pings
during silence.
"""

from __future__ import annotations

from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Mapping,
    MutableMapping,
)
from contextlib import asynccontextmanager, suppress
from math import ceil
from typing import TYPE_CHECKING, Any, TypeAlias

import anyio
from anyio.abc import TaskGroup
from msgspec import structs

from streamnorm._answers import encode_message
from streamnorm._core.bodies.request import Reply
from streamnorm._core.codec.endpoints import BEDROCK, Cloud
from streamnorm._core.codec.event_messages import MEDIA_TYPE
from streamnorm._core.errors import EncodeError, NotAStream, ProtocolError, UpstreamError
from streamnorm._core.events import Event, Failed, MessageStop, StreamError, Truncated
from streamnorm._core.failures import answer_failure, response_status
from streamnorm._core.json import compact
from streamnorm._core.losses import Loss
from streamnorm._core.messages import MessageSource
from streamnorm._registry import encoder, lookup
from streamnorm._upstream.answers import write_cloud_error
from streamnorm.aio import Stream
from streamnorm.asgi.frameworks import FrameworkResponse
from streamnorm.asgi.writing import WritingSend

if TYPE_CHECKING:
    from starlette.background import BackgroundTask


class _StreamResponse(FrameworkResponse):
    """Base class of ASGI responses that send a stream, or the message of a stream, to a client.

    Args:
        stream: The stream; it is closed on every path.
        status: HTTP status of the response if the stream begins.
        defaults: Headers that the response has, by lower-case name.
        headers: Further headers; they override the default ones.
    """

    def __init__(
        self,
        stream: Stream[Any],
        status: int,
        defaults: Mapping[str, str],
        headers: Mapping[str, str] | None,
    ) -> None:
        self.status_code = status
        given = {name.lower(): value for name, value in (headers or {}).items()}
        self.raw_headers = encode_headers({**defaults, **given})
        self.background: BackgroundTask | None = None
        self._stream = stream
        self._is_head = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response.

        Raises:
            StreamnormError: The stream failed, and no error event or response reports it; or it
                was closed before it ended.
        """
        self._is_head = scope.get("method") == "HEAD"
        async with open_exchange(receive, send) as exchange:
            try:
                await self._respond(exchange)
            finally:
                # Starlette closes no iterator of a body: the provider would generate on.  Within
                # the exchange: a cancel scope that an agent holds open ends before its own.
                await self._stream.aclose()
        if self.background is not None:
            await self.background()

    async def _respond(self, exchange: Exchange) -> None:
        raise NotImplementedError


class EventStreamResponse(_StreamResponse):
    """ASGI response that sends a stream of bytes.

        @app.post("/v1/messages")
        async def messages(request: Request) -> Response:
            stream = streamnorm.connect(client, "POST", url, json=..., to="anthropic")
            return streamnorm.asgi.EventStreamResponse(stream)

    The first chunk is read before the headers are sent: a failure until then becomes an
    error response in the client's dialect, with the provider's status, 504 for a timeout or
    502 for all else.  A later failure is reported by the stream itself, as an error event;
    if it cannot, the response is left incomplete.  The stream is closed on every path, as
    soon as the client disconnects, and behind the headers of a HEAD request.

    Its headers are those of the protocol that is written: the `content-type` of its framing, and
    for `to="ui_message_stream"` the one by which front ends know it.

    If Starlette is imported, an instance is also a `starlette.responses.Response`.

    Args:
        stream: The stream to send, from `connect` with `to`, `transcode`, `tap` or
            `frontend.stream_run`.
        status: HTTP status of the response if the stream begins.
        headers: Further headers; they override the default ones.
        keepalive_s: Seconds of silence after which a ping in the client's dialect is
            sent; None to send none.  An event stream of AWS has no pings.

    Attributes:
        status_code: The HTTP status.
        raw_headers: The headers as sent.
        background: Called after the response if it is not None; FastAPI sets it.
    """

    media_type = "text/event-stream"

    def __init__(
        self,
        stream: Stream[bytes],
        *,
        status: int = 200,
        headers: Mapping[str, str] | None = None,
        keepalive_s: float | None = None,
    ) -> None:
        defaults = {**EVENT_STREAM_HEADERS, **stream.response_headers}
        # Only lines of text have a charset.
        if stream.media_type != self.media_type:
            defaults["content-type"] = stream.media_type
        super().__init__(stream, status, defaults, headers)
        self._keepalive_s = keepalive_s

    async def _respond(self, exchange: Exchange) -> None:
        stream = self._stream
        first = None
        try:
            first = await anext(stream)
        except StopAsyncIteration:
            pass
        except (UpstreamError, NotAStream, ProtocolError):
            match stream.outcome:
                case Failed(error) | Truncated(error):
                    cloud = _find_cloud(stream.media_type)
                    await send_error(
                        exchange, error, stream.error_body, cloud, stream.error_media_type
                    )
                    return
                case _:  # the caller passed a stream that was already closed or broken
                    raise
        # Not before the first chunk: status 200 cannot be taken back, and clients retry by the
        # status.
        await exchange.start(self.status_code, self.raw_headers)
        # Starlette answers HEAD by a route of GET: the provider would generate for nobody, and the
        # client's next request on the connection would wait for it.
        if self._is_head:
            await exchange.send(b"", more=False)
            return
        if first is not None:
            await exchange.send(first)
        sender = None
        try:
            if first is not None and self._keepalive_s is not None:
                sender = EventSender(exchange, stream.ping, self._keepalive_s)
                exchange.tasks.start_soon(sender.keep_alive)
                await sender.send_all(stream)
                return
            async for chunk in stream:
                await exchange.send(chunk)
            await exchange.send(b"", more=False)
        except Exception:
            # An exception leaves the response without its last HTTP chunk: a clean end would look
            # complete.  Behind an error event it does not, and a client drops what it has not read
            # yet of a response that breaks off, the error with it.
            if stream.is_failure_written:
                await (exchange if sender is None else sender).send(b"", more=False)
            raise


class MessageResponse(_StreamResponse):
    """ASGI response that reads a stream to its end and sends its message as JSON.

        @app.post("/v1/messages")
        async def messages(request: Request) -> Response:
            stream = streamnorm.connect(client, "POST", url, json=...)
            return streamnorm.asgi.MessageResponse(stream, to="anthropic")

    It answers a client that asked for no stream, and is the twin of `EventStreamResponse`.
    A stream that fails or breaks off, at whatever event, becomes an error response in the
    client's dialect, with the provider's status, 504 for a timeout or 502 for all else; no
    part of a message is ever sent.  Of several answers the first is sent.  The stream is closed
    on every path, as soon as the client disconnects.

    If Starlette is imported, an instance is also a `starlette.responses.Response`.

    Args:
        stream: The stream to read, from `events` or from `connect` without `to`.
        to: Dialect of the client.
        status: HTTP status of the response if the stream completes.
        headers: Further headers; they override the default ones.
        reply: `Encoded.reply` of the request that is answered.
        model: Model to name in place of the one that answered.
        created: Time of the message, in seconds since 1970; None for the provider's, or 0.

    Raises:
        UnknownDialect: There is no such dialect, or it cannot be written.

    Attributes:
        status_code: The HTTP status.
        raw_headers: The headers as sent, without the length.
        background: Called after the response if it is not None; FastAPI sets it.
        losses: Losses of the client's dialect, once the response is sent.
    """

    media_type = "application/json"

    def __init__(
        self,
        stream: Stream[Event],
        *,
        to: str,
        status: int = 200,
        headers: Mapping[str, str] | None = None,
        reply: Reply | None = None,
        model: str | None = None,
        created: float | None = None,
    ) -> None:
        super().__init__(stream, status, {"content-type": self.media_type}, headers)
        self.losses: tuple[Loss, ...] = ()
        self._to = encoder(to).dialect
        self._reply = reply
        self._model = model
        self._created = created

    async def _respond(self, exchange: Exchange) -> None:
        stream = self._stream
        try:
            async for event in stream:
                if isinstance(event, MessageStop) and event.choice:
                    choice = f"choice {event.choice}"
                    self.losses += (Loss("choices", choice, 1, "dropped"),)
        except (UpstreamError, NotAStream, ProtocolError):
            if not isinstance(stream.outcome, Failed | Truncated):
                raise  # the caller passed a stream that was already closed or broken
        match stream.outcome:
            case Failed(error) | Truncated(error):
                await self._send_error(exchange, error)
            case _:
                await self._send_message(exchange)

    async def _send_message(self, exchange: Exchange) -> None:
        try:
            message = self._stream.message
            source = MessageSource(self._stream.dialect or "", None, message)
            encoded = encode_message(
                structs.replace(message, source=source),
                self._to,
                reply=self._reply,
                model=self._model,
                created=self._created,
            )
        except EncodeError as exc:
            await self._send_error(exchange, answer_failure(exc))
            return
        self.losses += encoded.losses
        body = compact(encoded.body).encode()
        await send_json(exchange, self.status_code, self.raw_headers, body)

    async def _send_error(self, exchange: Exchange, error: StreamError) -> None:
        cloud = _find_cloud(lookup(self._to).framing.media_type)
        await send_error(exchange, error, self._error_body, cloud)

    def _error_body(self, error: StreamError) -> bytes:
        # Fields that a vendor adds to an error belong to its dialect alone.
        same_dialect = self._stream.dialect == lookup(self._to).name
        return encoder(self._to, extras=same_dialect).error_body(error)


def _find_cloud(media_type: str) -> Cloud | None:
    """Return the cloud whose streams have a media type; None if no cloud uses the type.

    Clients of AWS tell errors apart by a header, which no other clients read.
    """
    return BEDROCK if media_type == MEDIA_TYPE else None


async def send_error(
    exchange: Exchange,
    error: StreamError,
    error_body: Callable[[StreamError], bytes],
    cloud: Cloud | None = None,
    media_type: str = "application/json",
) -> None:
    """Send the error response for a failed stream, with the status from `response_status`.

    Args:
        exchange: The exchange of the request.
        error: The failure of the stream.
        error_body: Returns the body, in the client's dialect.
        cloud: Cloud whose clients read the stream; None for the vendor's.
        media_type: `content-type` of the body.
    """
    status = response_status(error)
    error = structs.replace(error, status_hint=status)
    body = error_body(error)
    headers = [(b"content-type", media_type.encode())]
    if error.retry_after is not None:
        headers.append((b"retry-after", b"%d" % ceil(error.retry_after)))
    if cloud is not None:
        worded = write_cloud_error(status, error, body, cloud)
        body = worded.body
        headers += [(name.encode(), value.encode()) for name, value in worded.headers.items()]
    await send_json(exchange, status, headers, body)


async def send_json(
    exchange: Exchange, status: int, headers: list[tuple[bytes, bytes]], body: bytes
) -> None:
    """Send a whole JSON response."""
    await exchange.start(status, [*headers, (b"content-length", b"%d" % len(body))])
    await exchange.send(body, more=False)


Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]

_CLIENT_LEFT = 499  # nginx's, for its log: no status of HTTP says it
_DISCONNECT_S = 0.02  # in which a server that has closed a connection says so
_MAX_SENT_BYTES = 1024 * 1024  # at once: servers copy what they send, in the loop

EVENT_STREAM_HEADERS = {
    "content-type": "text/event-stream; charset=utf-8",
    # nginx with `gzip on` collects what it compresses; `no-transform` forbids that (RFC 9111,
    # section 5.2.2.6).
    "cache-control": "no-cache, no-transform",
    "x-accel-buffering": "no",  # nginx would collect the stream
}
"""Headers of a response that is an event stream."""


@asynccontextmanager
async def open_exchange(
    receive: Receive | None, send: Send, *, cancels: bool = True
) -> AsyncGenerator[Exchange]:
    """Open the exchange of one request; a client disconnect cancels the `async with` block.

    Args:
        receive: The server's `receive`; the request's body need not have been read.  None if the
            caller reports a disconnect, by `leave`.
        send: The server's `send`.
        cancels: Whether a disconnect cancels; if not, later sends are ignored.
    """
    tasks = anyio.create_task_group()
    exchange = Exchange(send, tasks, cancels=cancels)
    try:
        async with tasks:
            # Only `receive` reports a disconnect: without a call to it the upstream generates on
            # (uvicorn 0.54 and hypercorn 0.18, measured 2026-11-21).
            if receive is not None:
                tasks.start_soon(_watch_disconnect, receive, exchange)
            yield exchange
            tasks.cancel_scope.cancel()
        if receive is not None and exchange.has_left and not exchange.has_started:
            await exchange.end_unanswered()
    except BaseExceptionGroup as group:
        # Callers handle the error itself; the task group is an implementation detail.
        raise group.exceptions[0] from group.exceptions[0].__cause__


class Exchange:
    """The sending side of one HTTP exchange.

    Args:
        send: The server's `send`.  An `OSError` from it means that the client disconnected, and
            so does any error if the connection is closed.
        tasks: Task group of the request.
        cancels: Whether a disconnect cancels it.

    Attributes:
        tasks: Task group of the request, cancelled once it is answered or the client
            disconnects.
        has_left: Whether the client has disconnected.
        has_started: Whether status and headers were sent.
        has_status: Whether the response begins with a status, as over HTTP, which cannot be taken
            back once an event or a ping is sent.
        can_write: Whether the server can send a chunk without waiting, by `write`.
    """

    def __init__(self, send: Send, tasks: TaskGroup, *, cancels: bool = True) -> None:
        self.tasks = tasks
        self.has_left = self.has_started = False
        self.has_status = True
        self._server_send = send
        self._write = send.write if isinstance(send, WritingSend) else None
        self.can_write = self._write is not None
        self._cancels = cancels

    async def start(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        """Send status and headers."""
        if self.has_left and not self._cancels:
            return
        self.has_started = True
        try:
            await self._server_send(
                {"type": "http.response.start", "status": status, "headers": headers}
            )
        except Exception as exc:
            # uvicorn ignores what is sent to a client that has left; ASGI 2.4 raises `OSError`.
            if not await self._lose_client(exc):
                raise

    async def send(self, body: bytes, *, more: bool = True) -> None:
        """Send a chunk of the body; `more=False` ends the response."""
        if self.has_left and not self._cancels:
            return
        try:
            await self._server_send({"type": "http.response.body", "body": body, "more_body": more})
        except Exception as exc:
            if not await self._lose_client(exc):
                raise

    def write(self, body: bytes) -> bool:
        """Send a chunk of the body if the server need not wait; return whether it was sent."""
        if self._write is None or self.has_left:
            return False
        try:
            return self._write(body)
        except (OSError, RuntimeError):  # of a closed connection: `send` tells what it is
            return False

    def leave(self) -> None:
        """Record that the client has disconnected."""
        self.has_left = True
        if self._cancels:
            self.tasks.cancel_scope.cancel()

    async def end_unanswered(self) -> None:
        """Send an empty response, which no server passes on, for a client that has disconnected.

        Starlette's `BaseHTTPMiddleware` raises for an application that returns without a response.
        """
        with suppress(OSError, RuntimeError):  # of a closed connection
            start: Message = {"type": "http.response.start", "status": _CLIENT_LEFT}
            start["headers"] = []
            await self._server_send(start)
            await self._server_send({"type": "http.response.body", "body": b""})

    async def _lose_client(self, exc: Exception) -> bool:
        """Record a disconnect that made a send fail; return whether the client has disconnected."""
        if not _is_of_closed_transport(exc):
            # uvicorn closes a connection after an answer of its own to a wrong chunk, and reports
            # that a moment later; until then h11 refuses ours.
            await anyio.sleep(_DISCONNECT_S)
            return self.has_left
        self.leave()
        if self._cancels:
            await anyio.sleep_forever()
        return True


def _is_of_closed_transport(exc: Exception) -> bool:
    """Return whether a send failed because the connection is closed."""
    # The second is uvloop's, where uvicorn does not check for the end of a connection.
    is_of_uvloop = isinstance(exc, RuntimeError) and "handler is closed" in str(exc)
    return isinstance(exc, OSError) or is_of_uvloop


async def _watch_disconnect(receive: Receive, exchange: Exchange) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    exchange.leave()


class EventSender:
    """Sends the chunks of a stream, and a ping after each `keepalive_s` of silence.

    A ping never overlaps with a chunk, as a server blocks a send while its write buffer is full:
    a chunk waits for the ping before it, and no ping is sent meanwhile.  Two flags do that, since
    a lock or a timer for each chunk would cost more than the rest of its sending.

    Args:
        exchange: The exchange to send on.
        ping: Returns a ping in the client's dialect; empty once the stream has ended, or if the
            dialect has none.
        keepalive_s: Seconds from the end of one send to the next ping.
        clock: Returns the time in seconds.

    Attributes:
        ping: As above; may be replaced.
    """

    def __init__(
        self,
        exchange: Exchange,
        ping: Callable[[], bytes],
        keepalive_s: float,
        clock: Callable[[], float] = anyio.current_time,
    ) -> None:
        self.ping = ping
        self._exchange = exchange
        self._keepalive_s = keepalive_s
        self._clock = clock
        self._sent_at = clock()
        self._is_sending = False  # set before a chunk waits for a ping, so that none follows it
        self._is_ended = False
        self._pinged: anyio.Event | None = None  # set at the end of the ping that is being sent

    async def send(self, data: bytes, *, more: bool = True) -> None:
        """Send a chunk; `more=False` ends the response."""
        self._is_sending = True
        if self._pinged is not None:
            await self._pinged.wait()
        self._is_ended = not more
        if len(data) > _MAX_SENT_BYTES:
            data = await self._send_all_but_the_end(data)
        await self._exchange.send(data, more=more)
        self._sent_at = self._clock()
        self._is_sending = False

    def write(self, data: bytes) -> bool:
        """Send a chunk if nothing has to be waited for; return whether it was sent."""
        if self._is_sending or self._pinged is not None or len(data) > _MAX_SENT_BYTES:
            return False
        if not self._exchange.write(data):
            return False
        self._sent_at = self._clock()
        return True

    async def send_all(self, chunks: AsyncIterator[bytes]) -> None:
        """Send chunks as `send` does, then end the response."""
        send, now = self._exchange.send, self._clock
        async for chunk in chunks:
            self._is_sending = True
            if self._pinged is not None:
                await self._pinged.wait()
            if len(chunk) > _MAX_SENT_BYTES:
                chunk = await self._send_all_but_the_end(chunk)
            await send(chunk)
            self._sent_at = now()
            self._is_sending = False
        await self.send(b"", more=False)

    async def keep_alive(self) -> None:
        """Send pings until the stream ends or `ping` returns b""."""
        while True:
            await anyio.sleep(max(self._remaining_silence_s(), 0))
            # Claude Code ends a stream that is silent for 20 s, proxies one of 60 s.
            if self._remaining_silence_s() <= 0 and not await self._send_ping():
                return

    def _remaining_silence_s(self) -> float:
        """Return the seconds until the next ping."""
        # A ping within an event would be a part of its data.
        if self._is_sending:
            return self._keepalive_s
        return self._sent_at + self._keepalive_s - self._clock()

    async def _send_ping(self) -> bool:
        """Send a ping unless a chunk is being sent; return False if no further ping may be sent."""
        if self._is_sending:
            return True
        ping = b"" if self._is_ended else self.ping()
        if not ping:
            return False
        self._pinged = anyio.Event()
        await self._begin()
        await self._exchange.send(ping)
        self._sent_at = self._clock()
        self._pinged.set()
        self._pinged = None
        return True

    async def _begin(self) -> None:
        """Prepare to send a ping; a subclass may send the status first."""

    async def _send_all_but_the_end(self, data: bytes) -> bytes:
        """Send a large chunk in pieces, except the last piece, which is returned."""
        last = (len(data) - 1) // _MAX_SENT_BYTES * _MAX_SENT_BYTES
        for start in range(0, last, _MAX_SENT_BYTES):
            await self._exchange.send(data[start : start + _MAX_SENT_BYTES])
            self._sent_at = self._clock()
        return data[last:]


def encode_headers(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    """Return headers as pairs of bytes, the form that ASGI requires."""
    return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
