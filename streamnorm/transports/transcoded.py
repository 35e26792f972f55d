"""The transcoding transport of both families: another provider answers a client's requests."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Generic, Self, TypeAlias, cast

from anyio import to_thread

from streamnorm._bodies import codec_of
from streamnorm._core.bodies.projection import MissingTools
from streamnorm._core.bodies.token_count import TokenEstimator
from streamnorm._core.codec.framing import Framing
from streamnorm._core.events import Outcome
from streamnorm._core.losses import Loss, OnLoss
from streamnorm._exchange import Delete, ExchangeOptions, Find, Put, stores_responses
from streamnorm._registry import framing_of, lookup
from streamnorm._upstream.requests import Upstream
from streamnorm.http.urls import check_base_url, server_of
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
from streamnorm.transports.provider_body import read_whole, read_whole_async
from streamnorm.transports.transcoded_exchange import TranscodedExchange
from streamnorm.transports.transcoded_responses import ExchangeStatus

if TYPE_CHECKING:
    from streamnorm.aws import Signer

AnyStore: TypeAlias = ResponseStore | SyncResponseStore
"""A store for clients of either kind."""


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
        for dialect in (client, upstream):
            codec_of(dialect)
        known = lookup(client)
        provider = Upstream(
            dialect=lookup(upstream).name,
            base_url=check_base_url(base_url),
            server=server or server_of(base_url),
            profiles=profiles,
            model_map=dict(model_map or {}),
            headers={name.lower(): value for name, value in (headers or {}).items()},
            framing=framing_of(upstream, framing),
        )
        self._inner = inner
        self._signer = signer
        self._last = ExchangeStatus()
        # SDKs store by default: without a store the second step of an agent would fail.
        stores = stores_responses(known) and known.name != provider.dialect
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
        """Losses of the last exchange so far, of its request before its answer."""
        return self._last.losses

    @property
    def outcome(self) -> Outcome | None:
        """Outcome of the last exchange; None before its end."""
        return self._last.outcome

    def handle_request(self, request: RequestT) -> ResponseT:
        """Send a request to the provider, and return its answer in the client's dialect."""
        store = cast("SyncResponseStore", self._store)
        with self._begin(request) as exchange:
            for step in exchange:
                match step:
                    case Find():
                        exchange.result = store.find(step.scope, step.lookup)
                    case Put():
                        store.put(step.scope, step.response)
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
        """Send a request to the provider, and return its answer in the client's dialect."""
        store = cast("ResponseStore", self._store)
        with self._begin(request) as exchange:
            for step in exchange:
                match step:
                    case Find():
                        exchange.result = await store.afind(step.scope, step.lookup)
                    case Put():
                        await store.aput(step.scope, step.response)
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

    def _begin(self, request: RequestT) -> TranscodedExchange[RequestT, ResponseT]:
        """Return the exchange that a request begins."""
        exchange = TranscodedExchange(self._family, self._options, request)
        self._last = exchange.status
        return exchange
