"""A stream as an ASGI response, for Starlette, FastAPI or no framework at all."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Mapping
from functools import lru_cache
from typing import Any, Self, TypeVar, cast

from msgspec import structs

from streamnorm.aio import Stream
from streamnorm.asgi.exchange import Exchange, Receive, Scope, Send, exchanging
from streamnorm.errors import (
    NotAStream,
    ProtocolError,
    StreamnormError,
    UpstreamError,
)
from streamnorm.events import Failed, Truncated

__all__ = ["EventStreamResponse"]

T = TypeVar("T")

_HEADERS = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-cache, no-transform",
    "x-accel-buffering": "no",  # nginx would collect the stream
}


class EventStreamResponse:
    """Send a stream of bytes to an ASGI server.

        @app.post("/v1/messages")
        async def messages(request: Request) -> Response:
            upstream = await client.send(..., stream=True)
            stream = streamnorm.transcode(upstream, to="anthropic")
            return streamnorm.EventStreamResponse(stream)

    The first chunk is read before the headers go out: what fails until then becomes an
    error response in the client's dialect.  What fails later is the stream's to tell;
    where it cannot, the response breaks off and does not look complete.  The stream is
    closed on every path, as soon as the client leaves.

    Where Starlette is in use, an instance is a Starlette response, too.

    Args:
        stream: What to send; `transcode` or `tap` make it.
        status: HTTP status of a stream that begins.
        headers: More headers, which win over ours.
        keepalive_s: Seconds of silence after which a ping of the client's dialect is
            sent; None for never.

    Attributes:
        status_code: The status.
        raw_headers: The headers as they are sent.
        background: Called when the response is over, if set; FastAPI does.
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
        """Make an instance of Starlette's class, too, where Starlette is in use.

        FastAPI passes on such instances and nothing else.  Who runs it has imported the
        class; nobody else has to.
        """
        starlette = sys.modules.get("starlette.responses")
        if starlette is None:
            return super().__new__(cls)
        joined: type[Self] = _joined(cls, starlette.Response)  # type: ignore[arg-type]  # classes are hashable
        return super().__new__(joined)

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: object, _handler: object) -> Any:
        """Let a FastAPI path operation name the class as what it returns."""
        from pydantic_core import core_schema

        return core_schema.any_schema()

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
            StreamnormError: The stream failed in a way that its bytes cannot tell.
        """
        try:
            pings = self._keepalive_s is not None
            async with exchanging(receive, send, pings=pings) as exchange:
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
        except (UpstreamError, NotAStream, ProtocolError) as exc:
            await self._refuse(exchange, exc)
            return
        await exchange.start(self.status_code, self.raw_headers)
        if first is not None:
            await exchange.send(first)
            if self._keepalive_s is not None:
                exchange.keep_alive(stream.ping, self._keepalive_s)
            async for chunk in stream:
                await exchange.send(chunk)
        await exchange.send(b"", more=False)

    async def _refuse(self, exchange: Exchange, exc: StreamnormError) -> None:
        """Send an error response in place of a stream that never began."""
        match self._stream.outcome:
            case Failed(error) | Truncated(error):
                pass
            case _:  # it was closed or broken before it came here
                raise exc
        status = exc.status if isinstance(exc, UpstreamError) else None
        if status is None or status < 400:  # a redirect of the provider is none of the client's
            status = 502
        body = self._stream.error_body(structs.replace(error, status_hint=status))
        length = b"%d" % len(body)
        headers = [(b"content-type", b"application/json"), (b"content-length", length)]
        await exchange.start(status, headers)
        await exchange.send(body, more=False)


@lru_cache
def _joined(cls: type[T], base: type) -> type[T]:
    """Return a class that is both."""
    if issubclass(cls, base):
        return cls
    return cast("type[T]", type(cls.__name__, (cls, base), {}))  # the first of its bases
