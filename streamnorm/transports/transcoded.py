"""Transcoding transports for httpx and httpx2."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Mapping
from functools import partial
from threading import Lock
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeAlias, cast
from uuid import uuid4

from anyio import to_thread
from msgspec import structs

from streamnorm._bodies import codec_of
from streamnorm._core.bodies.projection.tools import MissingTools
from streamnorm._core.bodies.token_count import TokenEstimator
from streamnorm._core.codec import Dialect
from streamnorm._core.codec.framing import Framing
from streamnorm._core.events import Abandoned, Outcome, StreamError, Truncated
from streamnorm._core.failures import error_outcome
from streamnorm._core.losses import Loss, OnLoss
from streamnorm._core.source_failures import broken_connection
from streamnorm._exchange import (
    Answer,
    Delete,
    ExchangeOptions,
    Find,
    Put,
    Step,
    UpstreamExchange,
)
from streamnorm._registry import framing_of, lookup
from streamnorm._upstream.answers import TranslatedAnswer
from streamnorm._upstream.auxiliary import UpstreamCall, UpstreamReply
from streamnorm._upstream.passthrough import PassthroughAnswer
from streamnorm._upstream.requests import (
    ClientRequest,
    RequestRefused,
    Upstream,
    UpstreamRequest,
    identify_reply,
)
from streamnorm.aio.pump import Head, PassthroughPump, Pump, TranscodePump
from streamnorm.http.headers import error_type_in
from streamnorm.http.urls import check_base_url, path_of, query_of, server_of, split_url
from streamnorm.profiles import Profiles
from streamnorm.state import MemoryStore, ResponseStore, SyncResponseStore
from streamnorm.transports.family import (
    AnyTransport,
    AsyncTransport,
    Family,
    RequestT,
    ResponseT,
    SyncTransport,
)
from streamnorm.transports.transcoded_responses import (
    ClientResponses,
    ExchangeStatus,
    read_whole,
    read_whole_async,
)

if TYPE_CHECKING:
    from streamnorm.aws import Signer

AnyStore: TypeAlias = ResponseStore | SyncResponseStore
"""A store for clients of either kind."""


class GenericTranscodingTransport(Generic[RequestT, ResponseT]):
    """Transport that sends requests to a provider of another dialect, translating both ways.

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
        signer: Signs the requests to the provider, as those to Amazon Bedrock with the credentials
            of AWS; their `headers` then need no key.
        framing: Framing of the provider's streams, such as `INVOKE_CHUNKS` of Amazon Bedrock; None
            for the framing of the dialect.
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
        signer: Signer | None = None,
        framing: Framing | None = None,
        store: AnyStore | None = None,
    ) -> None:
        known, spoken = lookup(client), lookup(upstream)
        for dialect in (known, spoken):
            codec_of(dialect)
        provider = Upstream(
            dialect=spoken.name,
            base_url=check_base_url(base_url),
            server=server or server_of(base_url),
            profiles=profiles,
            model_map=dict(model_map or {}),
            headers={name.lower(): value for name, value in (headers or {}).items()},
            framing=framing_of(upstream, framing),
        )
        self._inner = inner
        # A client may be shared by threads, whose first requests open one network.
        self._opening = Lock()
        self._opened: SyncTransport[RequestT, ResponseT] | None = None
        self._async_opened: AsyncTransport[RequestT, ResponseT] | None = None
        self._signer = signer
        self._last = ExchangeStatus()
        # SDKs store by default: without a store the second step of an agent would fail.
        stores = known.stored is not None and known.name != provider.dialect
        self._store = MemoryStore() if store is None and stores else store
        self._options = ExchangeOptions(
            client=known,
            upstream=provider,
            stores=stores,
            estimator=TokenEstimator(),
            strict=strict,
            missing_tools=missing_tools,
            on_loss=on_loss,
        )

    @property
    def losses(self) -> tuple[Loss, ...]:
        """Losses of the last exchange: its request's, then its answer's."""
        return self._last.losses

    @property
    def outcome(self) -> Outcome | None:
        """Outcome of the last exchange; None until its end."""
        return self._last.outcome

    def handle_request(self, request: RequestT) -> ResponseT:
        """Send a request to the provider; return its answer in the client's dialect."""
        store = cast("SyncResponseStore", self._store)
        with self._begin(request) as exchange:
            for step in exchange:
                match step:
                    case Find():
                        exchange.result = store.find(step.scope, step.lookup)
                    case Put():
                        exchange.result = store.put(step.scope, step.response)
                    case Delete():
                        store.delete(step.scope, step.id)
                    case _:
                        sent = step if self._signer is None else self._signer.sign_request(step)
                        response = self._network.handle_request(exchange.build_request(sent))
                        # The body belongs to the client's response from here on, and is closed with
                        # it.
                        if exchange.starts_stream(step, response):
                            return exchange.stream(step, response, store)
                        exchange.receive(response, read_whole(response))
            return exchange.respond()

    async def handle_async_request(self, request: RequestT) -> ResponseT:
        """Send a request to the provider; return its answer in the client's dialect."""
        store = cast("ResponseStore", self._store)
        with self._begin(request) as exchange:
            for step in exchange:
                match step:
                    case Find():
                        exchange.result = await store.afind(step.scope, step.lookup)
                    case Put():
                        exchange.result = await store.aput(step.scope, step.response)
                    case Delete():
                        await store.adelete(step.scope, step.id)
                    case _:
                        sent = step
                        if self._signer is not None:  # which may read files, or ask the network
                            sent = await to_thread.run_sync(self._signer.sign_request, step)
                        response = await self._async_network.handle_async_request(
                            exchange.build_request(sent)
                        )
                        if exchange.starts_stream(step, response):
                            return await exchange.stream_async(step, response, store)
                        exchange.receive(response, await read_whole_async(response))
            return exchange.respond()

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

    @property
    def _network(self) -> SyncTransport[RequestT, ResponseT]:
        if self._inner is not None:
            return self._family.sync_inner(self._inner)
        with self._opening:
            if self._opened is None:
                self._opened = self._family.network()
            return self._opened

    @property
    def _async_network(self) -> AsyncTransport[RequestT, ResponseT]:
        if self._inner is not None:
            return self._family.async_inner(self._inner)
        with self._opening:
            if self._async_opened is None:
                self._async_opened = self._family.async_network()
            return self._async_opened

    def _begin(self, request: RequestT) -> TranscodedExchange[RequestT, ResponseT]:
        """Return the exchange for a request."""
        exchange = TranscodedExchange(self._family, self._options, request)
        self._last = exchange.status
        return exchange


class TranscodedExchange(Generic[RequestT, ResponseT]):
    """One exchange with a provider: yields its steps, and builds the client's response.

    An exception from the `with` block is an outcome, too.

    Args:
        family: Package of the client.
        options: Client and provider.
        request: The client's request.

    Attributes:
        status: Losses and outcome.
        result: Result of the last step.
    """

    def __init__(
        self, family: Family[RequestT, ResponseT], options: ExchangeOptions, request: RequestT
    ) -> None:
        self.status = ExchangeStatus()
        self.result: object = None
        self._family = family
        received = _read_request(family, request, options.client)
        options = structs.replace(options, client=options.client.adapt_to_path(received.path))
        self._options = options
        self._request = request
        self._exchange = UpstreamExchange(received, options, created=time.time())
        self._responses = ClientResponses(family, options.client, options.upstream.dialect_record)
        self._response: ResponseT | None = None
        self._answer: Answer | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if isinstance(exc, Exception):
            self.status.own_outcome = Truncated(broken_connection(exc, 0))
        elif exc is not None:
            self.status.own_outcome = Abandoned()

    def __iter__(self) -> Iterator[Step]:
        """Yield the steps of the exchange until the answer is known."""
        try:
            steps: Generator[Step, Any, Answer] = self._exchange.steps()
            while self._answer is None:
                result, self.result = self.result, None
                step = steps.send(result)
                if isinstance(step, UpstreamRequest | UpstreamCall):
                    self._add_losses(step.losses)
                yield step
        except StopIteration as done:
            self._answer = done.value
        except RequestRefused as refused:
            self._add_losses(refused.losses)
            self._answer = refused.error

    def build_request(self, step: UpstreamRequest | UpstreamCall) -> RequestT:
        """Return the request to the provider for a step."""
        return self._family.request(
            step.method,
            step.url,
            headers=step.headers,
            content=step.body,
            extensions=self._request.extensions,
        )

    def starts_stream(self, step: UpstreamRequest | UpstreamCall, response: ResponseT) -> bool:
        """Return whether a response is read as a stream; errors of message requests always are."""
        # An error of a message may have any size and form, which the gate of a stream bounds and
        # judges.
        return step.streams or (isinstance(step, UpstreamRequest) and not response.is_success)

    def receive(self, response: ResponseT, body: bytes | StreamError) -> None:
        """Set a whole response as the result of a step.

        Args:
            response: The provider's response.
            body: The body, or why that could not be decoded.
        """
        self._response = response
        if isinstance(body, StreamError) and response.is_success:
            self._answer = body
            return
        self.result = UpstreamReply(
            status=response.status_code,
            content_type=response.headers.get("content-type", ""),
            body=b"" if isinstance(body, StreamError) else body,
            unreadable=body.message if isinstance(body, StreamError) else "",
            error_type=error_type_in(dict(response.headers.multi_items())),
            request_id=self._request_id(response),
        )

    def respond(self) -> ResponseT:
        """Return the client's response with the whole answer."""
        answer, status = cast("Answer", self._answer), self.status
        error = answer.error if isinstance(answer, PassthroughAnswer) else answer
        if isinstance(error, StreamError):
            status.own_outcome = error_outcome(error)
        elif isinstance(answer, TranslatedAnswer):
            status.own_losses += answer.losses
            status.own_outcome = answer.outcome
        return self._responses.complete(answer, self._response)

    def stream(
        self,
        step: UpstreamRequest | UpstreamCall,
        response: ResponseT,
        store: SyncResponseStore | None,
    ) -> ResponseT:
        """Return the client's response, which streams the provider's answer.

        Args:
            step: The request that the provider has answered.
            response: The provider's response.
            store: Store of the answer, if the exchange stores it.
        """
        return self._responses.stream(
            self._pump(step, response), response, self._exchange, store, self.status
        )

    async def stream_async(
        self,
        step: UpstreamRequest | UpstreamCall,
        response: ResponseT,
        store: ResponseStore | None,
    ) -> ResponseT:
        """Return the client's response to an asynchronous client; like `stream`."""
        return await self._responses.stream_async(
            self._pump(step, response), response, self._exchange, store, self.status
        )

    def _pump(
        self, step: UpstreamRequest | UpstreamCall, response: ResponseT
    ) -> Callable[[Head], Pump[bytes]]:
        upstream = self._options.upstream
        if isinstance(step, UpstreamCall):
            return partial(PassthroughPump, dialect=upstream.dialect)
        return partial(
            TranscodePump,
            dialect=upstream.dialect,
            to=self._options.client.name,
            server=upstream.server,
            reply=identify_reply(step.reply, self._request_id(response)),
            include_usage=step.include_usage,
            keep_message=self._exchange.needs_message,
            on_loss=self._options.on_loss,
            on_end=partial(self._exchange.observe, step),
            framing=upstream.framing,
            to_framing=self._options.client.framing,
        )

    def _request_id(self, response: ResponseT) -> str:
        """Return the request id in the headers of the provider's response, or a new id."""
        endpoints = self._options.upstream.dialect_record.endpoints
        return response.headers.get(endpoints.request_id_header, "") or str(uuid4())

    def _add_losses(self, losses: tuple[Loss, ...]) -> None:
        self.status.own_losses += losses
        if (on_loss := self._options.on_loss) is not None:
            for loss in losses:
                on_loss(loss)


def _read_request(
    family: Family[RequestT, ResponseT], request: RequestT, client: Dialect
) -> ClientRequest:
    wire = family.wire_request(request)
    spelt = split_url(wire.url).path
    at_cloud = client.endpoints.cloud_route(spelt) is not None
    headers: dict[str, str] = {}
    for name, value in wire.headers:
        known = headers.get(name.lower())
        # RFC 9110, section 5.3: repeated headers are one list.
        headers[name.lower()] = value if known is None else f"{known}, {value}"
    return ClientRequest(
        method=wire.method,
        path=spelt if at_cloud else path_of(wire.url),
        headers=headers,
        body=wire.body,
        query=tuple(query_of(wire.url)),
    )
