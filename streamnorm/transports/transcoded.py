"""The transcoding transport of both families: another provider answers a client's requests."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import cached_property
from types import MappingProxyType, TracebackType
from typing import Any, Generic, Self

from streamnorm._bodies import codec_of
from streamnorm._core.errors import NotAStream, ProtocolError, UpstreamError
from streamnorm._core.events import Failed, Outcome, StreamError, Truncated
from streamnorm._core.losses import Loss, OnLoss
from streamnorm._core.provider_errors import error_outcome
from streamnorm._registry import lookup
from streamnorm._upstream.answers import error_answer, whole_answer
from streamnorm._upstream.headers import answer_headers
from streamnorm._upstream.requests import (
    ClientRequest,
    RequestRefused,
    Upstream,
    UpstreamRequest,
    upstream_request,
)
from streamnorm._upstream.url import check_base_url
from streamnorm.aio import Stream, SyncStream, iter_transcode, transcode
from streamnorm.profiles import Profiles
from streamnorm.recording.operations import path_of, server_of
from streamnorm.transports.family import (
    AnyTransport,
    AsyncTransport,
    Family,
    RequestT,
    ResponseT,
    SyncTransport,
    subclass,
)
from streamnorm.transports.transcoded_body import TranscodedBody, read_whole, read_whole_async
from streamnorm.transports.transcoded_exchange import Exchange

__all__ = ["GenericTranscodingTransport"]

# openai reads on after [DONE] if the response says HTTP/1.1.
_EXTENSIONS = MappingProxyType({"http_version": b"HTTP/1.1"})
_STREAM = {"content-type": "text/event-stream; charset=utf-8"}
_JSON = {"content-type": "application/json"}
_FAILURES = (UpstreamError, NotAStream, ProtocolError)


class GenericTranscodingTransport(Generic[RequestT, ResponseT]):
    """Sends the requests of a client to a provider of another dialect, and translates both ways.

    Every request goes to `base_url`, whatever URL the client has, and redirects are not
    followed: the client's API key, sent in the header that the provider reads, reaches no
    other server.  Of other headers only those of a list pass.

    Streams are transcoded as they arrive, whole answers and error responses translated.  What
    goes wrong is raised by the client's SDK as if its own provider had failed: a refused request
    or an error of the provider with its status, a broken connection as the package's own error,
    and what breaks off within a stream as an error event.

    Args:
        inner: Sends the requests: any transport of the package, such as a `RecordingTransport`
            or a `ReplayTransport`; None for one that reaches the network.  It is closed with
            this transport.
        client: Dialect of the client.
        upstream: Dialect of the provider.
        base_url: Base URL of the provider, with or without the version of its API:
            `https://host` or `https://host/v1`.
        model_map: Names of the provider's models by the names that the client uses.
        headers: Headers of every request to the provider.  With one that holds a key, the
            client's own key is not sent.
        server: Name of the server in profiles; None for the one that the host names.
        profiles: What models, servers and versions refuse; None = what streamnorm ships.
        strict: Whether to refuse requests that would lose something, before they are sent.
        on_loss: Called with each loss, of requests and of answers.

    Raises:
        UnknownDialect: A dialect does not exist, or has no whole bodies.
        ValueError: `base_url` is no http or https URL, or has a user, a query or a fragment.
    """

    _family: Family[RequestT, ResponseT]

    def __init__(
        self,
        inner: AnyTransport[RequestT, ResponseT] | None = None,
        *,
        client: str,
        upstream: str,
        base_url: str,
        model_map: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        server: str | None = None,
        profiles: Profiles | None = None,
        strict: bool = False,
        on_loss: OnLoss | None = None,
    ) -> None:
        for dialect in (client, upstream):
            codec_of(dialect)
        self._client = lookup(client)
        self._upstream = Upstream(
            dialect=lookup(upstream).name,
            base_url=check_base_url(base_url),
            server=server or server_of(base_url),
            profiles=profiles,
            model_map=dict(model_map or {}),
            headers={name.lower(): value for name, value in (headers or {}).items()},
        )
        self._inner = inner
        self._strict = strict
        self._on_loss = on_loss
        self._last = Exchange()

    @property
    def losses(self) -> tuple[Loss, ...]:
        """What the last exchange lost so far, its request before its answer."""
        return self._last.losses

    @property
    def outcome(self) -> Outcome | None:
        """How the last exchange ended; None before that."""
        return self._last.outcome

    def handle_request(self, request: RequestT) -> ResponseT:
        """Send a request to the provider, and return its answer in the client's dialect."""
        self._last = exchange = Exchange()
        try:
            asked = self._translate(request, exchange)
        except RequestRefused as refused:
            return self._refuse(refused, exchange)
        with exchange:
            response = self._network.handle_request(self._sent(request, asked))
            if asked.streams or not _is_success(response):
                return self._stream(response, asked, exchange)
            return self._whole(read_whole(response), response, asked, exchange)

    async def handle_async_request(self, request: RequestT) -> ResponseT:
        """Send a request to the provider, and return its answer in the client's dialect."""
        self._last = exchange = Exchange()
        try:
            asked = self._translate(request, exchange)
        except RequestRefused as refused:
            return self._refuse(refused, exchange)
        with exchange:
            response = await self._async_network.handle_async_request(self._sent(request, asked))
            if asked.streams or not _is_success(response):
                return await self._async_stream(response, asked, exchange)
            return self._whole(await read_whole_async(response), response, asked, exchange)

    def __enter__(self) -> Self:
        self._network.__enter__()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None = None,
        exc_value: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None:
        self._network.__exit__(exc_type, exc_value, traceback)

    async def __aenter__(self) -> Self:
        await self._async_network.__aenter__()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None = None,
        exc_value: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None:
        await self._async_network.__aexit__(exc_type, exc_value, traceback)

    def close(self) -> None:
        """Close the inner transport."""
        self._network.close()

    async def aclose(self) -> None:
        """Close the inner transport."""
        await self._async_network.aclose()

    @cached_property
    def _network(self) -> SyncTransport[RequestT, ResponseT]:
        return (
            self._family.network() if self._inner is None else self._family.sync_inner(self._inner)
        )

    @cached_property
    def _async_network(self) -> AsyncTransport[RequestT, ResponseT]:
        if self._inner is None:
            return self._family.async_network()
        return self._family.async_inner(self._inner)

    # Requests

    def _translate(self, request: RequestT, exchange: Exchange) -> UpstreamRequest:
        """Return a client's request as the request for the provider.

        Raises:
            RequestRefused: It has none.
        """
        wire = self._family.wire_request(request)
        headers: dict[str, str] = {}
        for name, value in wire.headers:
            known = headers.get(name.lower())
            headers[name.lower()] = value if known is None else f"{known}, {value}"
        received = ClientRequest(
            method=wire.method, path=path_of(wire.url), headers=headers, body=wire.body
        )
        asked = upstream_request(received, self._client.name, self._upstream, strict=self._strict)
        exchange.add_losses(asked.losses, self._on_loss)
        return asked

    def _sent(self, request: RequestT, asked: UpstreamRequest) -> RequestT:
        return self._family.request(
            "POST",
            asked.url,
            headers=asked.headers,
            content=asked.body,
            extensions=request.extensions,
        )

    # Answers

    def _stream(self, response: ResponseT, asked: UpstreamRequest, exchange: Exchange) -> ResponseT:
        """Return a response whose body is transcoded; an error response if it fails at once."""
        stream = iter_transcode(response, **self._options(asked))
        exchange.stream = stream
        try:
            first = next(stream, b"")
        except _FAILURES as exc:
            return self._fail(exc, stream, response, exchange)
        return self._begin(first, stream, response, self._family.sync_stream)

    async def _async_stream(
        self, response: ResponseT, asked: UpstreamRequest, exchange: Exchange
    ) -> ResponseT:
        stream = transcode(response, **self._options(asked))
        exchange.stream = stream
        try:
            first = await anext(stream, b"")
        except _FAILURES as exc:
            return self._fail(exc, stream, response, exchange)
        return self._begin(first, stream, response, self._family.async_stream)

    def _options(self, asked: UpstreamRequest) -> dict[str, Any]:
        return {
            "dialect": self._upstream.dialect,
            "to": self._client.name,
            "server": self._upstream.server,
            "reply": asked.reply,
            "include_usage": asked.include_usage,
            "keep_message": False,
            "on_loss": self._on_loss,
        }

    def _begin(
        self,
        first: bytes,
        stream: Stream[bytes] | SyncStream[bytes],
        response: ResponseT,
        kind: type[Any],
    ) -> ResponseT:
        body = subclass(TranscodedBody, kind)  # type: ignore[arg-type]  # classes are hashable
        return self._family.response(
            200,
            headers=self._headers(response, _STREAM),
            stream=body(first, stream, self._family),
            extensions=_EXTENSIONS,
        )

    def _fail(
        self,
        exc: Exception,
        stream: Stream[bytes] | SyncStream[bytes],
        response: ResponseT,
        exchange: Exchange,
    ) -> ResponseT:
        """Return the error response of a stream that failed before its first chunk.

        Raises:
            Exception: The connection broke: the package's own error.
        """
        match stream.outcome:
            case Truncated() if isinstance(cause := exc.__cause__, self._family.request_error):
                raise cause
            case Failed(error) | Truncated(error):
                pass
            case _:
                raise exc
        status = error_answer(error, self._client.name, upstream=self._upstream.dialect).status
        body = stream.error_body(error)
        return self._respond(status, body, self._headers(response, _JSON))

    def _whole(
        self, data: bytes, response: ResponseT, asked: UpstreamRequest, exchange: Exchange
    ) -> ResponseT:
        answer = whole_answer(
            data,
            self._client.name,
            self._upstream.dialect,
            server=self._upstream.server,
            reply=asked.reply,
            created=time.time(),
            on_loss=self._on_loss,
        )
        headers = self._headers(response, _JSON)
        if isinstance(answer, StreamError):
            exchange.end(error_outcome(answer))
            error = error_answer(answer, self._client.name, upstream=self._upstream.dialect)
            return self._respond(error.status, error.body, headers)
        exchange.add_losses(answer.losses, None)
        exchange.end(answer.outcome)
        return self._respond(200, answer.body, headers)

    def _refuse(self, refused: RequestRefused, exchange: Exchange) -> ResponseT:
        """Return the error response to a request that is not sent."""
        exchange.add_losses(refused.losses, self._on_loss)
        exchange.end(error_outcome(refused.error))
        error = error_answer(refused.error, self._client.name, upstream=None)
        return self._respond(error.status, error.body, _JSON)

    def _respond(self, status: int, body: bytes, headers: Mapping[str, str]) -> ResponseT:
        return self._family.response(status, headers=headers, content=body, extensions=_EXTENSIONS)

    def _headers(self, response: ResponseT, own: Mapping[str, str]) -> dict[str, str]:
        received = {name.lower(): value for name, value in response.headers.multi_items()}
        return {**answer_headers(received, self._client, lookup(self._upstream.dialect)), **own}


def _is_success(response: Any) -> bool:
    status: int = response.status_code
    return 200 <= status <= 299
