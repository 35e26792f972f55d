"""Reading of providers' responses within bounds, and building of responses to the client."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Any, Generic, Self

import anyio
import anyio.lowlevel
from msgspec import structs

from streamnorm._core.codec import Dialect
from streamnorm._core.codec.framing import SSE
from streamnorm._core.errors import NotAStream, ProtocolError, RemoteProtocolError, UpstreamError
from streamnorm._core.events import Completed, Failed, Outcome, StreamError, Truncated
from streamnorm._core.json import dumps
from streamnorm._core.limits import Limits
from streamnorm._core.losses import Loss
from streamnorm._core.source_failures import broken_connection
from streamnorm._exchange import Answer, UpstreamExchange
from streamnorm._upstream.answers import TranslatedAnswer, encode_error_response, error_status
from streamnorm._upstream.passthrough import PassthroughAnswer
from streamnorm.aio import Stream, SyncStream
from streamnorm.aio.pump import Head, Pump
from streamnorm.aio.sources import AsyncReader, Reader
from streamnorm.http.codings import CONTENT_ENCODING, ResponseDecoder, content_codings
from streamnorm.http.headers import join_retry_after, response_headers
from streamnorm.state import ResponseStore, SyncResponseStore
from streamnorm.transports.family import Family, HTTPResponse, RequestT, ResponseT, subclass

# Closing must end even if the network no longer answers.
_CLOSE_S = 1.0
# Decoders accept no more of one answer.
_MAX_BYTES = Limits().max_accumulated_bytes

# openai reads on after [DONE] if the response says HTTP/1.1.
_EXTENSIONS = MappingProxyType({"http_version": b"HTTP/1.1"})
_STREAM = {"content-type": "text/event-stream; charset=utf-8"}
_JSON = {"content-type": "application/json"}
_FAILURES = (UpstreamError, NotAStream, ProtocolError)


class ProviderResponse:
    """A provider's response whose body this library decodes, instead of the HTTP package.

    HTTP packages decode in nested generators, which cost more than the transcoding of a small
    event, and they inflate a read at once, without a bound on its size.

    Args:
        response: The response, of which nothing was read.
    """

    def __init__(self, response: HTTPResponse) -> None:
        self.status_code = response.status_code
        self.headers = response.headers
        self._coding = response.headers.get(CONTENT_ENCODING, "")
        self._is_coded = bool(content_codings(self._coding))
        self._response = response
        self._decoded: _DecodedReads | None = None

    def iter_bytes(self) -> Iterator[bytes]:
        """Iterate over the decoded body."""
        source: Iterator[bytes] = iter(self._response.stream)
        return _DecodedReads(source, self._coding) if self._is_coded else source

    def aiter_bytes(self) -> AsyncIterator[bytes]:
        """Iterate over the decoded body of an asynchronous response."""
        source: AsyncIterator[bytes] = aiter(self._response.stream)
        if not self._is_coded:
            return source
        self._decoded = _DecodedReads(source, self._coding)
        return self._decoded

    def close(self) -> None:
        """Close the response."""
        self._response.close()

    async def aclose(self) -> None:
        """Close the asynchronous response."""
        if self._decoded is not None:
            self._decoded.discard()  # so that the next read ends the generators of the source
        await self._response.aclose()


class _DecodedReads:
    """Iterator, synchronous or asynchronous, over the decoded pieces of a compressed body.

    Args:
        source: Iterator over the reads of the body.
        coding: The `content-encoding`.
    """

    def __init__(self, source: Any, coding: str) -> None:
        self._source = source
        self._coding = coding
        self._decoder: ResponseDecoder | None = None
        self._pieces: Iterator[bytes] = iter(())

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> bytes:
        decoder = self._begin_decoding()
        while (piece := next(self._pieces, None)) is None:
            self._pieces = decoder.feed(next(self._source))
        return piece

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        decoder = self._begin_decoding()
        if (piece := next(self._pieces, None)) is not None:
            await anyio.lowlevel.checkpoint()  # a read may become thousands of pieces
            return piece
        while piece is None:
            self._pieces = decoder.feed(await anext(self._source))
            piece = next(self._pieces, None)
        return piece

    def discard(self) -> None:
        """Drop the decoded pieces that were not returned."""
        self._pieces = iter(())

    def _begin_decoding(self) -> ResponseDecoder:
        """Return the decoder, created at the first read.

        Raises:
            RemoteProtocolError: The coding is not supported.
        """
        if self._decoder is None:
            self._decoder = ResponseDecoder(self._coding)
        return self._decoder


def open_body(response: ResponseT) -> ResponseT | ProviderResponse:
    """Return a response whose decoded body is read in bounded pieces."""
    return response if response.is_closed else ProviderResponse(response)


def read_whole(response: HTTPResponse, max_bytes: int = _MAX_BYTES) -> bytes | StreamError:
    """Return a response's whole body, cut above `max_bytes`, and close the response.

    A body that cannot be decoded is returned as an error.
    """
    reader = Reader(open_body(response))
    parts: list[bytes] = []
    size = 0
    try:
        while size <= max_bytes:
            try:
                parts.append(reader.read())
            except StopIteration:
                break
            size += len(parts[-1])
    except RemoteProtocolError as exc:
        return broken_connection(exc, 0)
    finally:
        reader.close()
    return b"".join(parts)


async def read_whole_async(
    response: HTTPResponse, max_bytes: int = _MAX_BYTES
) -> bytes | StreamError:
    """Return a response's whole body; like `read_whole`."""
    reader = AsyncReader(open_body(response))
    parts: list[bytes] = []
    size = 0
    try:
        while size <= max_bytes:
            try:
                parts.append(await reader.read())
            except StopAsyncIteration:
                break
            size += len(parts[-1])
    except RemoteProtocolError as exc:
        return broken_connection(exc, 0)
    finally:
        with anyio.move_on_after(_CLOSE_S, shield=True):
            await reader.close()
    return b"".join(parts)


class ExchangeStatus:
    """Losses and outcome of an exchange.

    Attributes:
        stream: The stream that answers the client, which goes on after the exchange; None for a
            complete answer.
        own_losses: Losses of the request and of a complete answer.
        own_outcome: Outcome of a complete answer; None before it.
    """

    def __init__(self) -> None:
        self.stream: Stream[bytes] | SyncStream[bytes] | None = None
        self.own_losses: tuple[Loss, ...] = ()
        self.own_outcome: Outcome | None = None

    @property
    def losses(self) -> tuple[Loss, ...]:
        """The losses so far."""
        return self.own_losses if self.stream is None else self.own_losses + self.stream.losses

    @property
    def outcome(self) -> Outcome | None:
        """Outcome of the exchange; None until its end."""
        return self.own_outcome if self.stream is None else self.stream.outcome


class ClientResponses(Generic[RequestT, ResponseT]):
    """Builder of a transport's responses to the client.

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
        response: ResponseT,
        exchange: UpstreamExchange,
        store: SyncResponseStore | None,
        status: ExchangeStatus,
    ) -> ResponseT:
        """Return a streamed response; an error response if the stream fails at once.

        Args:
            pump: Factory of the stream's pump.
            response: The provider's response.
            exchange: The exchange.
            store: Store of the answer, if the exchange stores one.
            status: Status of the exchange, which follows the stream.

        Raises:
            Exception: The connection broke before the first chunk: the package's own error.
        """
        kind = subclass(SyncTranscodedBody, self._family.sync_stream)  # type: ignore[arg-type]  # classes are hashable
        status.stream = body = kind(response, self._family, pump, exchange, store)
        try:
            body.begin()
        except _FAILURES as exc:
            return self._answer_failure(exc, body, response)
        return self._start_stream(body, response)

    async def stream_async(
        self,
        pump: Callable[[Head], Pump[bytes]],
        response: ResponseT,
        exchange: UpstreamExchange,
        store: ResponseStore | None,
        status: ExchangeStatus,
    ) -> ResponseT:
        """Return a streamed response; like `stream`."""
        kind = subclass(TranscodedBody, self._family.async_stream)  # type: ignore[arg-type]  # classes are hashable
        status.stream = body = kind(response, self._family, pump, exchange, store)
        try:
            await body.begin()
        except _FAILURES as exc:
            return self._answer_failure(exc, body, response)
        return self._start_stream(body, response)

    def _start_stream(
        self, body: TranscodedBody | SyncTranscodedBody, response: ResponseT
    ) -> ResponseT:
        """Return a response with status 200 and a body whose first chunk was read."""
        framing = self._client.framing
        kind = _STREAM
        if framing is not SSE:
            kind = {"content-type": framing.media_type, **framing.headers}
        headers = self._headers(response, kind)
        # Status and length of the provider's response belong to its own body.
        return self._family.response(200, headers=headers, stream=body, extensions=_EXTENSIONS)

    def complete(self, answer: Answer, response: ResponseT | None) -> ResponseT:
        """Return a response with a whole answer, or an error response.

        Args:
            answer: The answer.
            response: The provider's last response; None if it was not asked.
        """
        match answer:
            case StreamError():
                upstream = None if response is None else self._upstream.name
                return self._refuse(answer, response, upstream)
            case TranslatedAnswer():
                return self._respond(200, answer.body, self._headers(response, _JSON))
            case PassthroughAnswer():
                kind = {"content-type": answer.content_type} if answer.content_type else {}
                return self._respond(answer.status, answer.body, self._headers(response, kind))
            case _:
                headers = self._headers(response, _JSON) | answer.headers
                return self._respond(200, dumps(answer.body), headers)

    def _answer_failure(
        self, exc: Exception, stream: Stream[bytes] | SyncStream[bytes], response: ResponseT
    ) -> ResponseT:
        """Return the error response for a stream that failed before its first chunk.

        Raises:
            Exception: The connection broke: the package's own error.
        """
        match stream.outcome:
            # The SDKs wrap errors of their package, and send the request again.
            case Truncated() if isinstance(cause := exc.__cause__, self._family.request_error):
                raise cause
            case Failed(error) | Truncated(error):
                if self._client.cloud is not None:
                    return self._refuse(error, response, self._upstream.name)
                status = error_status(error, self._client.name, upstream=self._upstream.name)
                error, headers = join_retry_after(
                    error, self._headers(response, _JSON), time.time()
                )
                body = stream.error_body(structs.replace(error, status_hint=status))
                return self._respond(status, body, headers)
            case _:
                raise exc

    def _refuse(
        self, error: StreamError, response: ResponseT | None, upstream: str | None
    ) -> ResponseT:
        client = self._client
        error, headers = join_retry_after(error, self._headers(response, _JSON), time.time())
        failed = encode_error_response(error, client.name, upstream=upstream, cloud=client.cloud)
        headers |= failed.headers
        return self._respond(failed.status, failed.body, headers)

    def _respond(self, status: int, body: bytes, headers: Mapping[str, str]) -> ResponseT:
        # Clients measure `elapsed`, and count bytes, while they read a body: `content` would be
        # read already.
        return self._family.response(
            status,
            headers={**headers, "content-length": str(len(body))},
            stream=self._family.body(body),
            extensions=_EXTENSIONS,
        )

    def _headers(self, response: ResponseT | None, own: Mapping[str, str]) -> dict[str, str]:
        if response is None:
            return dict(own)
        received = {name.lower(): value for name, value in response.headers.multi_items()}
        return {**response_headers(received, self._client, self._upstream), **own}


class TranscodedBody(Stream[bytes]):
    """Body of a transcoded response.

    The provider's response is closed with the chunk that reports a failure: some SDKs raise
    at it, and close nothing.

    Args:
        response: The provider's response.
        family: Package of the client.
        pump: Factory of the stream's pump.
        exchange: The exchange; its answer is stored before the last chunk is returned.
        store: Store of the answer; None if it is not stored.
    """

    def __init__(
        self,
        response: HTTPResponse,
        family: Family[Any, Any],
        pump: Callable[[Head], Pump[bytes]],
        exchange: UpstreamExchange,
        store: ResponseStore | None,
    ) -> None:
        reader = AsyncReader(open_body(response))
        super().__init__(pump(reader), reader)
        self._family = family
        self._exchange = exchange
        self._store = store

    async def begin(self) -> None:
        """Read the first chunk, so that an early failure becomes an error response.

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
            # A client continues an answer as soon as it has read its end.
            case Completed() if self._store is not None:
                put = self._exchange.put_of(data, lambda: self.message)
                if put is not None and await self._store.aput(put.scope, put.response) is False:
                    data = self._exchange.mark_unstored(data)
            case _:
                pass
        return data

    def _misuse(self) -> Exception:
        return _closed_error(self._family) if self._closed else super()._misuse()


class SyncTranscodedBody(SyncStream[bytes]):
    """Body of a synchronous transcoded response; like `TranscodedBody`."""

    def __init__(
        self,
        response: HTTPResponse,
        family: Family[Any, Any],
        pump: Callable[[Head], Pump[bytes]],
        exchange: UpstreamExchange,
        store: SyncResponseStore | None,
    ) -> None:
        reader = Reader(open_body(response))
        super().__init__(pump(reader), reader)
        self._family = family
        self._exchange = exchange
        self._store = store

    def begin(self) -> None:
        """Read the first chunk, so that an early failure becomes an error response."""
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
            case Completed() if self._store is not None:
                put = self._exchange.put_of(data, lambda: self.message)
                if put is not None and self._store.put(put.scope, put.response) is False:
                    data = self._exchange.mark_unstored(data)
            case _:
                pass
        return data

    def _misuse(self) -> Exception:
        return _closed_error(self._family) if self._closed else super()._misuse()


def _closed_error(family: Family[Any, Any]) -> Exception:
    return family.read_error("read of a body that was closed, expected none")
