"""A stream as an ASGI response, for Starlette, FastAPI or no framework at all."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Self

from streamnorm._core.errors import NotAStream, ProtocolError, UpstreamError
from streamnorm._core.events import Failed, Truncated
from streamnorm.aio import Stream
from streamnorm.asgi.error_response import send_error
from streamnorm.asgi.exchange import Exchange, Receive, Scope, Send, open_exchange
from streamnorm.asgi.frameworks import any_schema, framework_class
from streamnorm.asgi.keep_alive import KeepAlive

__all__ = ["EventStreamResponse"]

_HEADERS = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-cache, no-transform",
    "x-accel-buffering": "no",  # nginx would collect the stream
}


class EventStreamResponse:
    """Send a stream of bytes to an ASGI server.

        @app.post("/v1/messages")
        async def messages(request: Request) -> Response:
            stream = streamnorm.connect(client, "POST", url, json=..., to="anthropic")
            return streamnorm.EventStreamResponse(stream)

    The first chunk is read before the headers are sent: a failure until then becomes an
    error response in the client's dialect, with the provider's status, 504 for a timeout or
    502 for all else.  A later failure is reported by the stream itself, as an error event;
    if it cannot, the response is left incomplete.  The stream is closed on every path, as
    soon as the client disconnects.

    If Starlette is imported, an instance is also a `starlette.responses.Response`.

    Args:
        stream: The stream to send, from `connect` with `to`, `transcode` or `tap`.
        status: HTTP status of the response if the stream begins.
        headers: Further headers; they override the default ones.
        keepalive_s: Seconds of silence after which a ping in the client's dialect is
            sent; None to send none.

    Attributes:
        status_code: The HTTP status.
        raw_headers: The headers as sent.
        background: Called after the response if it is not None; FastAPI sets it.
    """

    media_type = "text/event-stream"

    def __new__(
        cls,
        stream: Stream[bytes],
        *,
        status: int = 200,
        headers: Mapping[str, str] | None = None,
        keepalive_s: float | None = None,
    ) -> Self:
        """Make the instance a Starlette response, too, if Starlette is imported."""
        return super().__new__(framework_class(cls))

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: object, _handler: object) -> Any:
        """Let a FastAPI path operation declare the class as its return type."""
        return any_schema()

    def __init__(
        self,
        stream: Stream[bytes],
        *,
        status: int = 200,
        headers: Mapping[str, str] | None = None,
        keepalive_s: float | None = None,
    ) -> None:
        self.status_code = status
        given = {name.lower(): value for name, value in (headers or {}).items()}
        self.raw_headers = [
            (name.encode("latin-1"), value.encode("latin-1"))
            for name, value in {**_HEADERS, **given}.items()
        ]
        self.background: Callable[[], Awaitable[None]] | None = None
        self._stream = stream
        self._keepalive_s = keepalive_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response.

        Raises:
            StreamnormError: The stream failed, and no error event or response reports it.
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
        first = None
        try:
            first = await anext(stream)
        except StopAsyncIteration:
            pass
        except (UpstreamError, NotAStream, ProtocolError):
            match stream.outcome:
                case Failed(error) | Truncated(error):
                    await send_error(exchange, error, stream.error_body)
                    return
                case _:  # the caller passed a stream that was closed or broken already
                    raise
        await exchange.start(self.status_code, self.raw_headers)
        send = exchange.send
        if first is not None:
            await send(first)
            if self._keepalive_s is not None:
                keep_alive = KeepAlive(exchange, stream.ping, self._keepalive_s)
                exchange.tasks.start_soon(keep_alive.run)
                send = keep_alive.send
            async for chunk in stream:
                await send(chunk)
        await send(b"", more=False)
