"""Requests for messages: an upstream is found that answers, and its answer sent."""

from __future__ import annotations

import asyncio

from streamnorm._core.codec import Dialect
from streamnorm._core.events import Outcome, StreamError
from streamnorm._core.json import object_in
from streamnorm._core.limits import Limits
from streamnorm._core.losses import Loss
from streamnorm._core.provider_errors import error_outcome
from streamnorm._registry import encoder
from streamnorm._upstream.requests import ClientRequest, RequestRefused, json_body
from streamnorm.asgi.exchange import Exchange
from streamnorm.gateway.attempts import Attempts, Begun, Failure, Whole
from streamnorm.gateway.config import Config
from streamnorm.gateway.network import Network
from streamnorm.gateway.records import CallRecord
from streamnorm.gateway.routing import Routing
from streamnorm.gateway.sending import ClientStream

__all__ = ["Messages"]


class Messages:
    """Answers the requests for messages.

    Args:
        config: The configuration.
        routing: Chooses the upstreams.
        network: Asks them.
    """

    def __init__(self, config: Config, routing: Routing, network: Network) -> None:
        self._config = config
        self._routing = routing
        self._network = network
        self._limits = Limits(max_event_bytes=config.max_event_bytes)

    async def answer(
        self, received: ClientRequest, client: Dialect, exchange: Exchange, call: CallRecord
    ) -> None:
        """Answer a request.

        Args:
            received: The request.
            client: The client's dialect.
            exchange: Where to send the answer.
            call: Takes what becomes known.

        Raises:
            RequestRefused: The request is wrong; nothing was sent.
        """
        body = object_in(json_body(received).decode("utf-8", "replace"))
        asked = client.endpoints.asked(received.method, received.path, body)
        if asked is None:
            raise RequestRefused("another method, expected one that the endpoint has", 404)
        call.operation, call.model = asked.operation, asked.model
        targets = self._routing.targets(asked.model, client)
        if not targets:
            raise RequestRefused("a model that is not configured", 404, code="model_not_found")

        def count(loss: Loss) -> None:
            call.losses[loss.feature] = call.losses.get(loss.feature, 0) + loss.count

        def end(outcome: Outcome) -> None:
            call.outcome = outcome

        attempts = Attempts(
            received,
            client,
            targets,
            self._network,
            retries=self._config.retries,
            limits=self._limits,
            on_loss=count,
            on_end=end,
            has_left=lambda: exchange.has_left,
        )
        stream = ClientStream(
            exchange,
            encoder(client.name).ping,
            self._config.keepalive_s,
            lambda seconds: self._may_commit(attempts, seconds),
        )
        if asked.operation == "stream":
            exchange.tasks.start_soon(stream.keep_alive, self._look_s)
        result = await attempts.run()
        call.attempts = attempts.count
        if not isinstance(result, Failure):
            call.first_event_at = asyncio.get_running_loop().time()
        match result:
            case Begun():
                call.upstream, call.status = result.target.name, 200
                await self._send_stream(result, stream, call)
            case Whole():
                call.upstream, call.status = result.target.name, 200
                await stream.send_body(200, result.headers, result.answer.body)
            case Failure():
                call.outcome = error_outcome(result.error)
                if result.target is not None:
                    call.upstream = result.target.name
                await self._send_failure(result, client, stream, call)

    async def _send_stream(self, begun: Begun, stream: ClientStream, call: CallRecord) -> None:
        try:
            stream.ping = begun.stream.ping
            await stream.start(begun.headers)
            if begun.first:
                await stream.send(begun.first)
            async for chunk in begun.stream:
                await stream.send(chunk)
            await stream.send(b"", more=False)
        finally:
            call.partial_usage = begun.stream.usage
            await begun.stream.aclose()

    async def _send_failure(
        self, failure: Failure, client: Dialect, stream: ClientStream, call: CallRecord
    ) -> None:
        if stream.is_started:
            call.status = 200
            await stream.send(_error_event(client, failure.error), more=False)
            return
        call.status = failure.status
        await stream.send_body(failure.status, failure.headers, failure.body)

    def _may_commit(self, attempts: Attempts, seconds: float) -> bool:
        """Return whether status 200 may be sent although no upstream has begun."""
        after = self._config.commit_after_s
        return attempts.commit(without_status=after is not None and seconds >= after)

    @property
    def _look_s(self) -> float:
        after = self._config.commit_after_s
        return self._config.keepalive_s if after is None else min(after, self._config.keepalive_s)


def _error_event(client: Dialect, error: StreamError) -> bytes:
    return encoder(client.name).encode(error)
