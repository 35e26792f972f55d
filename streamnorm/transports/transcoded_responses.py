"""The responses of a transcoding transport to its client, and how each exchange ended."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from types import MappingProxyType, TracebackType
from typing import Any, Generic, Self

from msgspec import structs

from streamnorm._bodies import Encoded
from streamnorm._core.codec import Dialect
from streamnorm._core.errors import NotAStream, ProtocolError, UpstreamError
from streamnorm._core.events import (
    Abandoned,
    Completed,
    Failed,
    Outcome,
    StreamError,
    Truncated,
)
from streamnorm._core.failures import broken_connection, error_outcome
from streamnorm._core.json import dumps
from streamnorm._core.losses import Loss, OnLoss
from streamnorm._upstream.answers import TranslatedAnswer, encode_error_response, error_status
from streamnorm._upstream.passthrough import PassthroughAnswer
from streamnorm.aio import Stream, SyncStream
from streamnorm.aio.pump import Head, Pump
from streamnorm.aio.sources import AsyncReader, Reader
from streamnorm.http.headers import response_headers
from streamnorm.transports.family import Family, HTTPResponse, RequestT, ResponseT, subclass
from streamnorm.transports.provider_body import open_body
from streamnorm.transports.transcoded_state import StoredTurn, last_response

# openai reads on after [DONE] if the response says HTTP/1.1.
_EXTENSIONS = MappingProxyType({"http_version": b"HTTP/1.1"})
_STREAM = {"content-type": "text/event-stream; charset=utf-8"}
_JSON = {"content-type": "application/json"}
_FAILURES = (UpstreamError, NotAStream, ProtocolError)


class TranscodedExchange:
    """Losses and outcome of a request; an exception from the `with` block is an outcome, too."""

    def __init__(self) -> None:
        self.stream: Stream[bytes] | SyncStream[bytes] | None = None
        self._losses: tuple[Loss, ...] = ()
        self._outcome: Outcome | None = None

    @property
    def losses(self) -> tuple[Loss, ...]:
        """The losses so far."""
        return self._losses if self.stream is None else self._losses + self.stream.losses

    @property
    def outcome(self) -> Outcome | None:
        """Outcome of the exchange; None before its end."""
        return self._outcome if self.stream is None else self.stream.outcome

    def add_losses(self, losses: tuple[Loss, ...], on_loss: OnLoss | None) -> None:
        """Add losses, and report each."""
        self._losses += losses
        if on_loss is not None:
            for loss in losses:
                on_loss(loss)

    def end(self, outcome: Outcome) -> None:
        """Set the outcome."""
        self._outcome = outcome

    def end_auxiliary(self, answer: object) -> None:
        """Set the outcome of a failed request to an auxiliary endpoint; a success has none."""
        error = answer.error if isinstance(answer, PassthroughAnswer) else answer
        if isinstance(error, StreamError):
            self.end(error_outcome(error))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if isinstance(exc, Exception):
            self.end(Truncated(broken_connection(exc, 0)))
        elif exc is not None:
            self.end(Abandoned())


class ClientResponses(Generic[RequestT, ResponseT]):
    """Builds the responses of one transport.

    Args:
        family: Package of the client.
        client: The client's dialect.
        upstream: The provider's dialect.
    """

    def __init__(
        self, family: Family[RequestT, ResponseT], client: Dialect, upstream: Dialect
    ) -> None:
        self._family = family
        self._client = client
        self._upstream = upstream

    def stream(
        self,
        pump: Callable[[Head], Pump[bytes]],
        turn: StoredTurn | None,
        response: ResponseT,
        exchange: TranscodedExchange,
    ) -> ResponseT:
        """Return a response whose body is a stream; an error response if that fails at once.

        Args:
            pump: Factory of the stream's pump.
            turn: Turn that stores the answer; None if it is not stored.
            response: The provider's response.
            exchange: The exchange, which follows the stream.

        Raises:
            Exception: The connection broke before the first chunk: the package's own error.
        """
        kind = subclass(SyncTranscodedBody, self._family.sync_stream)  # type: ignore[arg-type]  # classes are hashable
        exchange.stream = body = kind(response, self._family, turn, pump)
        try:
            body.begin()
        except _FAILURES as exc:
            return self._failed(exc, body, response)
        return self._start_stream(body, response)

    async def stream_async(
        self,
        pump: Callable[[Head], Pump[bytes]],
        turn: StoredTurn | None,
        response: ResponseT,
        exchange: TranscodedExchange,
    ) -> ResponseT:
        """Return a response whose body is a stream; the twin of `stream`."""
        kind = subclass(TranscodedBody, self._family.async_stream)  # type: ignore[arg-type]  # classes are hashable
        exchange.stream = body = kind(response, self._family, turn, pump)
        try:
            await body.begin()
        except _FAILURES as exc:
            return self._failed(exc, body, response)
        return self._start_stream(body, response)

    def _start_stream(
        self, body: TranscodedBody | SyncTranscodedBody, response: ResponseT
    ) -> ResponseT:
        """Return a response whose body is a stream with its first chunk read."""
        headers = self._headers(response, _STREAM)
        return self._family.response(200, headers=headers, stream=body, extensions=_EXTENSIONS)

    def complete(self, answer: TranslatedAnswer | StreamError, response: ResponseT) -> ResponseT:
        """Return the response with a complete answer, or the error response in its place."""
        if isinstance(answer, StreamError):
            return self.error(answer, response)
        return self._respond(200, answer.body, self._headers(response, _JSON))

    def auxiliary(
        self, answer: Encoded | PassthroughAnswer | StreamError, response: ResponseT | None
    ) -> ResponseT:
        """Return the response of an auxiliary endpoint.

        Args:
            answer: The answer.
            response: The provider's last response; None if it was not asked.
        """
        if isinstance(answer, StreamError):
            return self.error(answer, response)
        if isinstance(answer, PassthroughAnswer):
            kind = {"content-type": answer.content_type} if answer.content_type else {}
            return self._respond(answer.status, answer.body, self._headers(response, kind))
        headers = self._headers(response, _JSON) | answer.headers
        return self._respond(200, dumps(answer.body), headers)

    def error(self, error: StreamError, response: ResponseT | None) -> ResponseT:
        """Return an error response.

        Args:
            error: The error.
            response: The provider's response; None if the request was not sent.
        """
        upstream = None if response is None else self._upstream.name
        answer = encode_error_response(error, self._client.name, upstream=upstream)
        return self._respond(answer.status, answer.body, self._headers(response, _JSON))

    def _failed(
        self, exc: Exception, stream: Stream[bytes] | SyncStream[bytes], response: ResponseT
    ) -> ResponseT:
        """Return the error response of a stream that failed before its first chunk.

        Raises:
            Exception: The connection broke: the package's own error.
        """
        match stream.outcome:
            case Truncated() if isinstance(cause := exc.__cause__, self._family.request_error):
                raise cause
            case Failed(error) | Truncated(error):
                status = error_status(error, self._client.name, upstream=self._upstream.name)
                body = stream.error_body(structs.replace(error, status_hint=status))
                return self._respond(status, body, self._headers(response, _JSON))
            case _:
                raise exc

    def _respond(self, status: int, body: bytes, headers: Mapping[str, str]) -> ResponseT:
        return self._family.response(status, headers=headers, content=body, extensions=_EXTENSIONS)

    def _headers(self, response: ResponseT | None, own: Mapping[str, str]) -> dict[str, str]:
        if response is None:
            return dict(own)
        received = {name.lower(): value for name, value in response.headers.multi_items()}
        return {**response_headers(received, self._client, self._upstream), **own}


class TranscodedBody(Stream[bytes]):
    """The body of a transcoded response: the stream itself.

    The provider's response is closed with the chunk that reports a failure: some SDKs raise
    at it, and close nothing.

    Args:
        response: The provider's response.
        family: Package of the client.
        turn: Turn that stores the answer before its last chunk is returned; None if it is not
            stored.
        pump: Factory of the stream's pump.
    """

    def __init__(
        self,
        response: HTTPResponse,
        family: Family[Any, Any],
        turn: StoredTurn | None,
        pump: Callable[[Head], Pump[bytes]],
    ) -> None:
        reader = AsyncReader(open_body(response))
        super().__init__(pump(reader), reader)
        self._family = family
        self._turn = turn

    async def begin(self) -> None:
        """Read the first chunk, which a failure may precede; the client still gets it.

        Raises:
            StreamnormError: The stream failed before it.
        """
        if first := await anext(self, b""):
            self._pump.pending.append(first)

    async def aclose(self) -> None:
        """Close the provider's response."""
        self._finished = False  # a later read raises, as that of any closed body of the package
        if self._closed:
            self._pump.abandon()  # the first chunk, if it was the last
        await super().aclose()

    async def _last(self) -> bytes:
        data = await super()._last()
        match self.outcome:
            case Failed() | Truncated():
                with suppress(StopAsyncIteration):
                    await self._end()
            case Completed() if self._turn is not None and self._turn.stores:
                await self._turn.put_async(last_response(data))
            case _:
                pass
        return data

    def _misuse(self) -> Exception:
        return _closed_error(self._family) if self._closed else super()._misuse()


class SyncTranscodedBody(SyncStream[bytes]):
    """The synchronous twin of `TranscodedBody`."""

    def __init__(
        self,
        response: HTTPResponse,
        family: Family[Any, Any],
        turn: StoredTurn | None,
        pump: Callable[[Head], Pump[bytes]],
    ) -> None:
        reader = Reader(open_body(response))
        super().__init__(pump(reader), reader)
        self._family = family
        self._turn = turn

    def begin(self) -> None:
        """Read the first chunk, which a failure may precede; the client still gets it."""
        if first := next(self, b""):
            self._pump.pending.append(first)

    def close(self) -> None:
        """Close the provider's response."""
        self._finished = False
        if self._closed:
            self._pump.abandon()
        super().close()

    def _last(self) -> bytes:
        data = super()._last()
        match self.outcome:
            case Failed() | Truncated():
                with suppress(StopIteration):
                    self._end()
            case Completed() if self._turn is not None and self._turn.stores:
                self._turn.put(last_response(data))
            case _:
                pass
        return data

    def _misuse(self) -> Exception:
        return _closed_error(self._family) if self._closed else super()._misuse()


def _closed_error(family: Family[Any, Any]) -> Exception:
    return family.read_error("read of a body that was closed, expected none")
