"""Streams, and their complete messages, as ASGI responses: with Starlette, FastAPI or neither."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Mapping
from functools import lru_cache
from typing import Any, Self, TypeVar, cast

from msgspec import structs

from streamnorm._bodies import encode_message
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
from streamnorm._upstream.answers import word_for_cloud
from streamnorm.aio import Stream
from streamnorm.asgi.exchange import (
    EVENT_STREAM_HEADERS,
    EventSender,
    Exchange,
    Receive,
    Scope,
    Send,
    encode_headers,
    open_exchange,
)


class _StreamResponse:
    """An ASGI response made from a stream, and Starlette's if that is imported.

    Args:
        stream: The stream; it is closed on every path.
        status: HTTP status of the response if the stream begins.
        defaults: Headers that the response has, by lower-case name.
        headers: Further headers; they override the default ones.
    """

    def __new__(cls, *_args: Any, **_options: Any) -> Self:
        """Make the instance a Starlette response, too, if Starlette is imported."""
        return super().__new__(_framework_class(cls))

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: object, _handler: object) -> Any:
        """Let a FastAPI path operation declare the class as its return type."""
        from pydantic_core import core_schema

        return core_schema.any_schema()

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
        self.background: Callable[[], Awaitable[None]] | None = None
        self._stream = stream

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response.

        Raises:
            StreamnormError: The stream failed, and no error event or response reports it; or it
                was closed before it ended.
        """
        try:
            async with open_exchange(receive, send) as exchange:
                await self._respond(exchange)
        finally:
            # Starlette closes no iterator of a body: the provider would generate on.
            await self._stream.aclose()
        if self.background is not None:
            await self.background()

    async def _respond(self, exchange: Exchange) -> None:
        raise NotImplementedError


class EventStreamResponse(_StreamResponse):
    """Send a stream of bytes to an ASGI server.

        @app.post("/v1/messages")
        async def messages(request: Request) -> Response:
            stream = streamnorm.connect(client, "POST", url, json=..., to="anthropic")
            return streamnorm.asgi.EventStreamResponse(stream)

    The first chunk is read before the headers are sent: a failure until then becomes an
    error response in the client's dialect, with the provider's status, 504 for a timeout or
    502 for all else.  A later failure is reported by the stream itself, as an error event;
    if it cannot, the response is left incomplete.  The stream is closed on every path, as
    soon as the client disconnects.

    Its headers are those of the protocol that is written: the `content-type` of its framing, and
    for `to="ui_message_stream"` the one by which front ends know it.

    If Starlette is imported, an instance is also a `starlette.responses.Response`.

    Args:
        stream: The stream to send, from `connect` with `to`, `transcode` or `tap`.
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
        if first is not None:
            await exchange.send(first)
        if first is not None and self._keepalive_s is not None:
            sender = EventSender(exchange, stream.ping, self._keepalive_s)
            exchange.tasks.start_soon(sender.keep_alive)
            await sender.send_all(stream)
            return
        # An exception leaves the response without its last HTTP chunk: a clean end would look
        # complete.
        async for chunk in stream:
            await exchange.send(chunk)
        await exchange.send(b"", more=False)


class MessageResponse(_StreamResponse):
    """Read a stream to its end, and send its message to an ASGI server as one JSON body.

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
    """Return the cloud whose clients read streams of a type; None if those of vendors do.

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
    """Send an error response: with the provider's status, 504 for a timeout or 502 for all else.

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
    if cloud is not None:
        worded = word_for_cloud(status, error, body, cloud)
        body = worded.body
        headers += [(name.encode(), value.encode()) for name, value in worded.headers.items()]
    await send_json(exchange, status, headers, body)


async def send_json(
    exchange: Exchange, status: int, headers: list[tuple[bytes, bytes]], body: bytes
) -> None:
    """Send a complete response with its length."""
    await exchange.start(status, [*headers, (b"content-length", b"%d" % len(body))])
    await exchange.send(body, more=False)


T = TypeVar("T")


def _framework_class(cls: type[T]) -> type[T]:
    """Return a subclass of a class and of Starlette's `Response`, if Starlette is imported.

    FastAPI sends only instances of that unchanged, and has always imported Starlette.
    """
    starlette = sys.modules.get("starlette.responses")
    if starlette is None:
        return cls
    return _join_classes(cls, starlette.Response)  # type: ignore[arg-type]  # classes are hashable


@lru_cache
def _join_classes(cls: type[T], base: type) -> type[T]:
    """Return a subclass of both, or `cls` if it is one already."""
    if issubclass(cls, base):
        return cls
    return cast("type[T]", type(cls.__name__, (cls, base), {}))  # its first base
