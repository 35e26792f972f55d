"""The gateway: an ASGI application that answers the clients of any dialect from any upstream."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import anyio

from streamnorm._core.errors import LocalProtocolError
from streamnorm._core.events import Abandoned, StreamError
from streamnorm._core.provider_errors import error_outcome
from streamnorm._upstream.answers import error_answer
from streamnorm._upstream.requests import RequestRefused
from streamnorm.asgi.error_response import send_json
from streamnorm.asgi.exchange import Exchange, Receive, Scope, Send, open_exchange
from streamnorm.gateway.config import Config
from streamnorm.gateway.door import asked_of, read_body, received_request
from streamnorm.gateway.draining import Draining, chained_signals
from streamnorm.gateway.messages import Messages
from streamnorm.gateway.network import Network
from streamnorm.gateway.records import CallRecord, Observer
from streamnorm.gateway.routing import Routing

__all__ = ["Gateway"]

_JSON = [(b"content-type", b"application/json")]
_CLOSE_S = 1.0
_REFUSED = StreamError("upstream", "the gateway is stopping", status_hint=503, retryable=True)
_RETRY_AFTER = (b"retry-after", b"1")


class Gateway:
    """An ASGI application; see `streamnorm.gateway`.

    Args:
        config: The configuration.
        environ: The environment that holds the keys; None for that of the process.
        observers: Those who are told of each request.

    Raises:
        ConfigError: The configuration is wrong.
    """

    def __init__(
        self,
        config: Config,
        *,
        environ: Mapping[str, str] | None = None,
        observers: tuple[Observer, ...] = (),
    ) -> None:
        self._config = config
        self._network = Network(config)
        self._messages = Messages(config, Routing(config, environ), self._network)
        self._observers = observers
        self._draining = Draining(self._network.stop)

    def begin_drain(self, grace_s: float | None = None) -> None:
        """Refuse new requests, and end running ones after their grace.

        A stream then ends with an error event.  Under uvicorn this is called at SIGTERM and
        SIGINT; under other servers it may come only with the lifespan's shutdown, when they
        have waited for all streams or cancelled them.

        Args:
            grace_s: Seconds that running requests have; None for `drain_grace_s`.
        """
        self._draining.begin(self._config.drain_grace_s if grace_s is None else grace_s)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or the server's lifespan messages.

        Raises:
            LocalProtocolError: The scope is of another type.
        """
        match scope["type"]:
            case "http":
                await self._serve(scope, receive, send)
            case "lifespan":
                await self._live(receive, send)
            case other:
                raise LocalProtocolError(f"scope of type {other!r}, expected http or lifespan")

    async def _live(self, receive: Receive, send: Send) -> None:
        try:
            with chained_signals(self.begin_drain):
                while (await receive())["type"] != "lifespan.shutdown":
                    await send({"type": "lifespan.startup.complete"})
        finally:  # also if the server is cancelled
            self.begin_drain(0.0)
            with anyio.move_on_after(_CLOSE_S, shield=True):
                await self._draining.wait()
            self._draining.close()
            with anyio.move_on_after(_CLOSE_S, shield=True):
                await self._network.aclose()
        await send({"type": "lifespan.shutdown.complete"})

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = await read_body(receive, self._config.max_body_bytes)
        if body is None:
            return
        cancels = self._config.on_disconnect == "cancel"
        async with open_exchange(receive, send, cancels=cancels) as exchange:
            with self._draining.running(exchange):
                await self._respond(scope, body, exchange)

    async def _respond(self, scope: Scope, body: bytes, exchange: Exchange) -> None:
        received = received_request(scope, body)
        known = asked_of(received)
        if known is None:
            await send_json(exchange, 404, _JSON, b'{"error":{"message":"not found"}}')
            return
        client, asked = known
        if self._draining.has_begun:
            answer = error_answer(_REFUSED, client.name, upstream=None)
            await send_json(exchange, answer.status, [*_JSON, _RETRY_AFTER], answer.body)
            return
        loop = asyncio.get_running_loop()
        call = CallRecord(client=client.name, operation=asked.operation, started_at=loop.time())
        for observer in self._observers:
            observer.begin(call)
        try:
            await self._messages.answer(received, client, exchange, call)
        except RequestRefused as refused:
            answer = error_answer(refused.error, client.name, upstream=None)
            call.status, call.outcome = answer.status, error_outcome(refused.error)
            await send_json(exchange, answer.status, _JSON, answer.body)
        except BaseException:
            call.outcome = call.outcome or Abandoned()
            raise
        finally:
            call.ended_at = loop.time()
            for observer in self._observers:
                observer.end(call)
