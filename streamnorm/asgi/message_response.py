"""A whole message as an ASGI response, for a client that asked for no stream."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Self

from msgspec import structs

from streamnorm._bodies import encode_message
from streamnorm._core.bodies.request import Reply
from streamnorm._core.errors import EncodeError, NotAStream, ProtocolError, UpstreamError
from streamnorm._core.events import Event, Failed, MessageStop, StreamError, Truncated
from streamnorm._core.failures import answer_failure
from streamnorm._core.json import compact
from streamnorm._core.losses import Loss
from streamnorm._core.messages import MessageSource
from streamnorm._registry import encoder, lookup
from streamnorm.aio import Stream
from streamnorm.asgi.error_response import send_error, send_json
from streamnorm.asgi.exchange import Exchange, Receive, Scope, Send, open_exchange
from streamnorm.asgi.frameworks import any_schema, framework_class

__all__ = ["MessageResponse"]


class MessageResponse:
    """Read a stream to its end, and send its message to an ASGI server as one JSON body.

        @app.post("/v1/messages")
        async def messages(request: Request) -> Response:
            stream = streamnorm.connect(client, "POST", url, json=...)
            return streamnorm.MessageResponse(stream, to="anthropic")

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
        reply: What `encode_request` returned for the request that is answered.
        model: Model to name in place of the one that answered.
        created: When the message was made, in seconds since 1970; None = as the provider
            says, or 0.

    Raises:
        UnknownDialect: There is no such dialect, or it cannot be written.

    Attributes:
        status_code: The HTTP status.
        raw_headers: The headers as sent, without the length.
        background: Called after the response if it is not None; FastAPI sets it.
        losses: What the client's dialect could not carry, once the response is sent.
    """

    media_type = "application/json"

    def __new__(
        cls,
        stream: Stream[Event],
        *,
        to: str,
        status: int = 200,
        headers: Mapping[str, str] | None = None,
        reply: Reply | None = None,
        model: str | None = None,
        created: float | None = None,
    ) -> Self:
        """Make the instance a Starlette response, too, if Starlette is imported."""
        return super().__new__(framework_class(cls))

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: object, _handler: object) -> Any:
        """Let a FastAPI path operation declare the class as its return type."""
        return any_schema()

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
        self.status_code = status
        given = {name.lower(): value for name, value in (headers or {}).items()}
        self.raw_headers = [
            (name.encode("latin-1"), value.encode("latin-1"))
            for name, value in {"content-type": self.media_type, **given}.items()
        ]
        self.background: Callable[[], Awaitable[None]] | None = None
        self.losses: tuple[Loss, ...] = ()
        self._stream = stream
        self._to = encoder(to).dialect
        self._reply = reply
        self._model = model
        self._created = created

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response.

        Raises:
            LocalProtocolError: The stream was closed before it ended.
        """
        try:
            async with open_exchange(receive, send) as exchange:
                await self._respond(exchange)
        finally:
            await self._stream.aclose()
        if self.background is not None:
            await self.background()

    async def _respond(self, exchange: Exchange) -> None:
        stream = self._stream
        try:
            async for event in stream:
                if isinstance(event, MessageStop) and event.choice:
                    choice = f"choice {event.choice}"
                    self.losses += (Loss("choices", choice, 1, "dropped"),)
        except (UpstreamError, NotAStream, ProtocolError):
            if not isinstance(stream.outcome, Failed | Truncated):
                raise  # the caller passed a stream that was closed or broken already
        match stream.outcome:
            case Failed(error) | Truncated(error):
                await send_error(exchange, error, self._error_body)
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
            await send_error(exchange, answer_failure(exc), self._error_body)
            return
        self.losses += encoded.losses
        body = compact(encoded.body).encode()
        await send_json(exchange, self.status_code, self.raw_headers, body)

    def _error_body(self, error: StreamError) -> bytes:
        # The vendor's own fields of an error belong to its dialect alone.
        is_own = self._stream.dialect == lookup(self._to).name
        return encoder(self._to, extras=is_own).error_body(error)
