"""The endpoint of messages, and the services that all endpoints share."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from functools import partial

from msgspec import Struct

from streamnorm._core.bodies.token_count import TokenEstimator
from streamnorm._core.codec import Dialect
from streamnorm._core.codec.framing import SSE
from streamnorm._core.events import Completed, Outcome, StreamError
from streamnorm._core.failures import error_outcome
from streamnorm._core.losses import Loss
from streamnorm._registry import encoder
from streamnorm._upstream.requests import (
    ClientRequest,
    RequestRefused,
    decode_request_body,
    refusals,
)
from streamnorm.asgi.responses import Exchange
from streamnorm.gateway.attempts import Attempts, CompleteResponse, FailedAttempt, StartedStream
from streamnorm.gateway.compaction import Compactor
from streamnorm.gateway.config import Config, answer_limits, request_limits
from streamnorm.gateway.large_bodies import BodyThread
from streamnorm.gateway.network import Network
from streamnorm.gateway.observing import CallRecord, add_loss
from streamnorm.gateway.pages import Pages
from streamnorm.gateway.response_state import ResponseStates
from streamnorm.gateway.routing import Balancer, Routing
from streamnorm.gateway.sending import ClientStream
from streamnorm.gateway.storing import GatewayStore

_POLL_INTERVAL_S = 0.01

_RETRY_S = 1  # another worker may answer at once


class Services(Struct, frozen=True, kw_only=True):
    """What the endpoints of a gateway share.

    Attributes:
        config: The configuration.
        routing: Chooses the upstreams of a model.
        pages: The routes of pages.
        network: Sends requests to them.
        estimator: Estimates tokens that an upstream does not count, and learns from those that
            upstreams report.
        store: Store of responses; None if none are stored.
        compactor: Opens what is sealed in requests, and compacts conversations.
        bodies: The thread for large bodies.
    """

    config: Config
    routing: Routing
    pages: Pages
    network: Network
    estimator: TokenEstimator
    store: GatewayStore | None
    compactor: Compactor
    bodies: BodyThread


class MessageEndpoint:
    """Answers the requests for messages.

    Args:
        services: Services that all endpoints share.
    """

    def __init__(self, services: Services) -> None:
        self._services = services
        self._config = services.config
        self._bodies = services.bodies
        self._limits = answer_limits(services.config)
        self._request_limits = request_limits(services.config)
        self._balancer = Balancer()
        self._states = ResponseStates(services.store, services.bodies)

    async def answer(
        self, received: ClientRequest, client: Dialect, exchange: Exchange, call: CallRecord
    ) -> None:
        """Answer a request.

        Args:
            received: The request.
            client: The client's dialect.
            exchange: Exchange to send the answer on.
            call: Record of the request, to be completed.

        Raises:
            RequestRefused: The request is wrong; nothing was sent.
        """
        page = self._services.pages.page_of(client)
        if page is not None:
            page.check_size(received.size)
        with refusals():
            body = await self._bodies.run(
                received.size, partial(decode_request_body, received, self._request_limits)
            )
        asked = client.endpoints.match(received.method, received.path, body)
        if asked is None:
            raise RequestRefused("another method, expected one that the endpoint has", 404)
        model = asked.model if page is None else page.options.model
        call.operation, call.model = asked.operation, model
        targets = self._services.routing.targets(model, client)
        if all(target.upstream.dialect != client.name for target in targets):
            received.release()  # which is a fifth of the memory that its translation takes
        is_whole = asked.operation == "compact"
        turn = await self._states.begin(received, client, body)
        targets = self._balancer.order(targets, received.headers, turn.body)
        compaction = await self._bodies.run(
            received.size, partial(self._services.compactor.begin, turn, client, is_whole=is_whole)
        )

        def end(outcome: Outcome) -> None:
            call.outcome = outcome
            if isinstance(outcome, Completed) and attempts.observe is not None:
                attempts.observe(outcome.usage.input_tokens)

        attempts = Attempts(
            turn,
            client,
            targets,
            self._services.network,
            self._bodies,
            self._services.estimator,
            retries=self._config.retries,
            limits=self._limits,
            request_limits=self._request_limits,
            on_loss=partial(add_loss, call),
            on_end=end,
            has_left=lambda: exchange.has_left,
            page=page,
        )
        # Other framings have no pings: a stream begins with its first event.
        has_pings = client.framing is SSE
        writer = encoder(client.name)
        stream = ClientStream(
            exchange,
            writer.ping if has_pings else bytes,
            self._config.keepalive_s,
            lambda seconds: has_pings and self._may_commit(attempts, seconds),
            client.framing,
            writer.response_headers,
        )
        is_stream = asked.operation == "stream"
        watched = (
            stream.watch(self._poll_interval_s, self._config.idle_s) if is_stream else nullcontext()
        )
        with watched:
            try:
                result = await attempts.run()
            finally:
                call.attempts, call.upstream = attempts.count, attempts.asked
                call.status = 200 if stream.is_started else 0
            if not isinstance(result, FailedAttempt):
                call.first_event_at = asyncio.get_running_loop().time()
            match result:
                case StartedStream():
                    call.status = 200
                    try:
                        if compaction is not None and turn.makes_answer:
                            await compaction.send(result, stream, call, streams=is_stream)
                        else:
                            await self._send_stream(result, stream, call)
                    finally:
                        call.reason = result.reason
                case CompleteResponse():
                    call.status = 200
                    await stream.send_body(200, result.headers, result.answer.body)
                case FailedAttempt():
                    call.outcome, call.reason = error_outcome(result.error), result.reason
                    await self._send_failure(result, client, stream, call)
        if turn.is_lost:
            add_loss(call, Loss("store", "response", detail="written as false"))

    async def _send_stream(
        self, begun: StartedStream, stream: ClientStream, call: CallRecord
    ) -> None:
        try:
            # Its own pings from here on: Anthropic's are events, and none may follow an ended
            # stream.
            stream.ping = begun.stream.ping
            await stream.start(begun.headers)
            if begun.first:
                await stream.send(begun.first)
            await stream.send_all(begun.stream)
        finally:
            call.partial_usage = begun.stream.usage
            await begun.stream.aclose()

    async def _send_failure(
        self, failure: FailedAttempt, client: Dialect, stream: ClientStream, call: CallRecord
    ) -> None:
        if stream.is_started:
            await stream.send(_error_event(client, failure.shown), more=False)
            return
        call.status = failure.status
        await stream.send_body(failure.status, failure.headers, failure.body)

    def _may_commit(self, attempts: Attempts, seconds: float) -> bool:
        """Return whether status 200 may be sent although no upstream has begun."""
        after = self._config.commit_after_s
        return attempts.commit(without_status=after is not None and seconds >= after)

    @property
    def _poll_interval_s(self) -> float:
        after = self._config.commit_after_s
        keepalive_s = self._config.keepalive_s
        return keepalive_s if after is None else min(max(after, _POLL_INTERVAL_S), keepalive_s)


def _error_event(client: Dialect, error: StreamError) -> bytes:
    return encoder(client.name).encode(error)


def stopping() -> RequestRefused:
    """Return the refusal of a request that comes too late."""
    headers = {"retry-after": str(_RETRY_S)}
    return RequestRefused("the gateway is stopping, try again", 503, headers=headers)
