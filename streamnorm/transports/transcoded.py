"""The transcoding transport of both families: another provider answers a client's requests."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from functools import cached_property, partial
from types import TracebackType
from typing import Any, Generic, Self

from msgspec import structs

from streamnorm._bodies import Encoded, codec_of
from streamnorm._core.bodies.projection import MissingTools
from streamnorm._core.bodies.token_count import TokenEstimator
from streamnorm._core.codec import RequestedOperation
from streamnorm._core.events import Completed, Outcome, StreamError
from streamnorm._core.failures import error_outcome
from streamnorm._core.json import object_in
from streamnorm._core.losses import Loss, OnLoss
from streamnorm._registry import lookup
from streamnorm._upstream.answers import TranslatedAnswer, translate_answer
from streamnorm._upstream.auxiliary import CallSteps, UpstreamCall, UpstreamReply, call_steps
from streamnorm._upstream.requests import (
    ClientRequest,
    RequestRefused,
    Upstream,
    UpstreamRequest,
    build_upstream_request,
    match_operation,
)
from streamnorm.aio.transcoding import PassthroughPump, TranscodePump
from streamnorm.http.servers import server_of
from streamnorm.http.urls import check_base_url, path_of, query_of
from streamnorm.profiles import Profiles
from streamnorm.state import MemoryStore, read_operation
from streamnorm.transports.family import (
    AnyTransport,
    AsyncTransport,
    Family,
    HTTPResponse,
    RequestT,
    ResponseT,
    SyncTransport,
)
from streamnorm.transports.provider_body import read_whole, read_whole_async
from streamnorm.transports.transcoded_responses import ClientResponses, TranscodedExchange
from streamnorm.transports.transcoded_state import AnyStore, StoredTurn, stores_responses

_MESSAGES = ("message", "stream")


class GenericTranscodingTransport(Generic[RequestT, ResponseT]):
    """Sends the requests of a client to a provider of another dialect, and translates both ways.

    Every request goes to `base_url`, whatever URL the client has, and redirects are not
    followed: the client's API key, sent in the header that the provider reads, reaches no
    other server.  Other headers are forwarded by an allow-list.

    Streams are transcoded as they arrive, whole answers and error responses translated.  What
    goes wrong is raised by the client's SDK as if its own provider had failed: a refused request
    or an error of the provider with its status, a broken connection as the package's own error,
    and what breaks off within a stream as an error event.

    Args:
        inner: Transport that sends the requests, of any kind, such as a `RecordingTransport` or
            a `ReplayTransport`; None for the network.  It is closed with this transport.
        client: Dialect of the client.
        upstream: Dialect of the provider.
        base_url: Base URL of the provider, with or without the version of its API:
            `https://host` or `https://host/v1`.
        model_map: Names of the provider's models by the names that the client uses.
        headers: Headers of every request to the provider.  With one that holds a key, the
            client's own key is not sent.
        server: Name of the server in profiles; None for the name that its host implies.
        profiles: Refusals of models, servers and versions; None for the shipped profiles.
        strict: Whether to refuse requests that would lose something, before they are sent.
        missing_tools: Handling of a search, or of another tool that its provider executes, which
            this provider lacks: the request is refused (`error`), or sent without it (`drop`).
        on_loss: Called with each loss, of requests and of answers.
        store: Store for the responses of a Responses client whose provider is of another
            dialect; None for memory.

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
        missing_tools: MissingTools = "error",
        on_loss: OnLoss | None = None,
        store: AnyStore | None = None,
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
        self._responses = ClientResponses(self._family, self._client, lookup(upstream))
        self._inner = inner
        self._strict = strict
        self._missing_tools: MissingTools = missing_tools
        self._on_loss = on_loss
        self._last = TranscodedExchange()
        self._estimator = TokenEstimator()
        self._auxiliary = AuxiliaryRequests(
            self._responses,
            self._client.name,
            self._upstream,
            self._estimator,
            strict=strict,
            on_loss=on_loss,
        )
        is_native = self._client.name == self._upstream.dialect
        self._store: AnyStore | None = None
        if stores_responses(self._client) and not is_native:
            self._store = MemoryStore() if store is None else store

    @property
    def losses(self) -> tuple[Loss, ...]:
        """Losses of the last exchange so far, of its request before its answer."""
        return self._last.losses

    @property
    def outcome(self) -> Outcome | None:
        """Outcome of the last exchange; None before its end."""
        return self._last.outcome

    def handle_request(self, request: RequestT) -> ResponseT:
        """Send a request to the provider, and return its answer in the client's dialect."""
        self._last = exchange = TranscodedExchange()
        with exchange:
            try:
                received = self._read_request(request)
                asked = match_operation(received, self._client.name)
                if asked.operation not in _MESSAGES:
                    return self._answer_auxiliary(received, asked, request, exchange)
                turn = self._turn(received)
                sent = self._translate_request(
                    received if turn is None else turn.expand(), turn, exchange
                )
            except RequestRefused as refused:
                return self._refuse(refused, exchange)
            response = self._network.handle_request(self._build_request(request, sent))
            if sent.streams or not response.is_success:
                pump = partial(TranscodePump, **self._options(sent))
                return self._responses.stream(pump, turn, response, exchange)
            answer = self._translate_answer(read_whole(response), sent, exchange)
            if turn is not None and turn.stores and isinstance(answer, TranslatedAnswer):
                turn.put(object_in(answer.body.decode()))
            return self._responses.complete(answer, response)

    async def handle_async_request(self, request: RequestT) -> ResponseT:
        """Send a request to the provider, and return its answer in the client's dialect."""
        self._last = exchange = TranscodedExchange()
        with exchange:
            try:
                received = self._read_request(request)
                asked = match_operation(received, self._client.name)
                if asked.operation not in _MESSAGES:
                    return await self._answer_auxiliary_async(received, asked, request, exchange)
                turn = self._turn(received)
                whole = received if turn is None else await turn.expand_async()
                sent = self._translate_request(whole, turn, exchange)
            except RequestRefused as refused:
                return self._refuse(refused, exchange)
            response = await self._async_network.handle_async_request(
                self._build_request(request, sent)
            )
            if sent.streams or not response.is_success:
                pump = partial(TranscodePump, **self._options(sent))
                return await self._responses.stream_async(pump, turn, response, exchange)
            answer = self._translate_answer(await read_whole_async(response), sent, exchange)
            if turn is not None and turn.stores and isinstance(answer, TranslatedAnswer):
                await turn.put_async(object_in(answer.body.decode()))
            return self._responses.complete(answer, response)

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

    def _read_request(self, request: RequestT) -> ClientRequest:
        wire = self._family.wire_request(request)
        headers: dict[str, str] = {}
        for name, value in wire.headers:
            known = headers.get(name.lower())
            headers[name.lower()] = value if known is None else f"{known}, {value}"
        return ClientRequest(
            method=wire.method,
            path=path_of(wire.url),
            headers=headers,
            body=wire.body,
            query=tuple(query_of(wire.url)),
        )

    def _turn(self, received: ClientRequest) -> StoredTurn | None:
        """Return the turn of a request if the client's responses are stored; else None."""
        return None if self._store is None else StoredTurn(received, self._client, self._store)

    def _translate_request(
        self, received: ClientRequest, turn: StoredTurn | None, exchange: TranscodedExchange
    ) -> UpstreamRequest:
        """Translate a client's request for the provider.

        Raises:
            RequestRefused: The request has no legal form in the provider's dialect.
        """
        sent = build_upstream_request(
            received,
            self._client.name,
            self._upstream,
            strict=self._strict,
            missing_tools=self._missing_tools,
        )
        exchange.add_losses(sent.losses, self._on_loss)
        if turn is None or turn.turn is None:
            return sent
        return structs.replace(sent, reply=turn.turn.reply(sent.reply))

    def _build_request(self, request: RequestT, sent: UpstreamRequest | UpstreamCall) -> RequestT:
        return self._family.request(
            sent.method,
            sent.url,
            headers=sent.headers,
            content=sent.body,
            extensions=request.extensions,
        )

    def _answer_auxiliary(
        self,
        received: ClientRequest,
        asked: RequestedOperation,
        request: RequestT,
        exchange: TranscodedExchange,
    ) -> ResponseT:
        """Answer a request to an auxiliary endpoint."""
        operation = read_operation(received.method, received.path, dict(received.query))
        if operation is not None and (turn := self._turn(received)) is not None:
            return self._responses.auxiliary(Encoded(turn.answer(operation)), None)

        def send(sent: UpstreamCall) -> ResponseT:
            return self._network.handle_request(self._build_request(request, sent))

        return self._auxiliary.answer(received, asked, send, exchange)

    async def _answer_auxiliary_async(
        self,
        received: ClientRequest,
        asked: RequestedOperation,
        request: RequestT,
        exchange: TranscodedExchange,
    ) -> ResponseT:
        """Answer a request to an auxiliary endpoint."""
        operation = read_operation(received.method, received.path, dict(received.query))
        if operation is not None and (turn := self._turn(received)) is not None:
            return self._responses.auxiliary(Encoded(await turn.answer_async(operation)), None)

        async def send(sent: UpstreamCall) -> ResponseT:
            return await self._async_network.handle_async_request(
                self._build_request(request, sent)
            )

        return await self._auxiliary.answer_async(received, asked, send, exchange)

    # Answers

    def _options(self, sent: UpstreamRequest) -> dict[str, Any]:
        return {
            "dialect": self._upstream.dialect,
            "to": self._client.name,
            "server": self._upstream.server,
            "reply": sent.reply,
            "include_usage": sent.include_usage,
            "keep_message": False,
            "on_loss": self._on_loss,
            "on_end": partial(self._observe, sent),
        }

    def _translate_answer(
        self, data: bytes | StreamError, sent: UpstreamRequest, exchange: TranscodedExchange
    ) -> TranslatedAnswer | StreamError:
        answer = data if isinstance(data, StreamError) else self._translate_body(data, sent)
        if isinstance(answer, StreamError):
            exchange.end(error_outcome(answer))
            return answer
        exchange.add_losses(answer.losses, None)
        exchange.end(answer.outcome)
        self._observe(sent, answer.outcome)
        return answer

    def _translate_body(self, data: bytes, sent: UpstreamRequest) -> TranslatedAnswer | StreamError:
        return translate_answer(
            data,
            self._client.name,
            self._upstream.dialect,
            server=self._upstream.server,
            reply=sent.reply,
            created=time.time(),
            on_loss=self._on_loss,
        )

    def _refuse(self, refused: RequestRefused, exchange: TranscodedExchange) -> ResponseT:
        """Return the error response for a request that is not sent."""
        exchange.add_losses(refused.losses, self._on_loss)
        exchange.end(error_outcome(refused.error))
        return self._responses.error(refused.error, None)

    def _observe(self, sent: UpstreamRequest, outcome: Outcome) -> None:
        """Improve the estimates of token counts by a count that the provider reported."""
        if isinstance(outcome, Completed) and sent.request is not None:
            self._estimator.observe(sent.request, outcome.usage.input_tokens)


class AuxiliaryRequests(Generic[RequestT, ResponseT]):
    """Serves token counts, model lists and operations on responses.

    Args:
        answers: Builder of the responses to the client.
        client: The client's dialect.
        upstream: The provider.
        estimator: Estimates tokens that the provider does not count.
        strict: Whether to refuse requests that would lose something.
        on_loss: Called with each loss.
    """

    def __init__(
        self,
        answers: ClientResponses[RequestT, ResponseT],
        client: str,
        upstream: Upstream,
        estimator: TokenEstimator,
        *,
        strict: bool,
        on_loss: OnLoss | None,
    ) -> None:
        self._responses = answers
        self._client = client
        self._upstream = upstream
        self._estimator = estimator
        self._strict = strict
        self._on_loss = on_loss

    def answer(
        self,
        received: ClientRequest,
        asked: RequestedOperation,
        send: Callable[[UpstreamCall], ResponseT],
        exchange: TranscodedExchange,
    ) -> ResponseT:
        """Return the answer to a request.

        Args:
            received: The request.
            asked: The requested operation.
            send: Function that sends a call to the provider.
            exchange: The exchange.

        Raises:
            RequestRefused: The request is not of the dialect, or the provider cannot answer it.
        """
        steps = self._steps(received, asked)
        response: ResponseT | None = None
        answer: UpstreamReply | None = None
        while True:
            try:
                sent = next(steps) if answer is None else steps.send(answer)
            except StopIteration as done:
                exchange.end_auxiliary(done.value)
                return self._responses.auxiliary(done.value, response)
            exchange.add_losses(sent.losses, self._on_loss)
            response = send(sent)
            if sent.streams:
                pump = partial(PassthroughPump, dialect=self._upstream.dialect)
                return self._responses.stream(pump, None, response, exchange)
            body = read_whole(response)
            if isinstance(body, StreamError) and response.is_success:
                exchange.end_auxiliary(body)
                return self._responses.auxiliary(body, response)
            answer = _reply_of(response, body)

    async def answer_async(
        self,
        received: ClientRequest,
        asked: RequestedOperation,
        send: Callable[[UpstreamCall], Awaitable[ResponseT]],
        exchange: TranscodedExchange,
    ) -> ResponseT:
        """Return the answer to a request; the twin of `answer`."""
        steps = self._steps(received, asked)
        response: ResponseT | None = None
        answer: UpstreamReply | None = None
        while True:
            try:
                sent = next(steps) if answer is None else steps.send(answer)
            except StopIteration as done:
                exchange.end_auxiliary(done.value)
                return self._responses.auxiliary(done.value, response)
            exchange.add_losses(sent.losses, self._on_loss)
            response = await send(sent)
            if sent.streams:
                pump = partial(PassthroughPump, dialect=self._upstream.dialect)
                return await self._responses.stream_async(pump, None, response, exchange)
            body = await read_whole_async(response)
            if isinstance(body, StreamError) and response.is_success:
                exchange.end_auxiliary(body)
                return self._responses.auxiliary(body, response)
            answer = _reply_of(response, body)

    def _steps(self, received: ClientRequest, asked: RequestedOperation) -> CallSteps:
        return call_steps(
            received,
            asked,
            self._client,
            self._upstream,
            self._estimator,
            strict=self._strict,
        )


def _reply_of(response: HTTPResponse, body: bytes | StreamError) -> UpstreamReply:
    """Return a provider's reply; the body is empty if an error response could not be decoded."""
    return UpstreamReply(
        status=response.status_code,
        content_type=response.headers.get("content-type", ""),
        body=b"" if isinstance(body, StreamError) else body,
    )
