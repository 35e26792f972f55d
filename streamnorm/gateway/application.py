"""The gateway: an ASGI application that answers the clients of any dialect from any upstream."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Mapping

import anyio

from streamnorm._core.errors import LocalProtocolError
from streamnorm._core.events import Abandoned
from streamnorm._core.provider_errors import error_outcome
from streamnorm._upstream.answers import error_answer
from streamnorm._upstream.requests import RequestRefused
from streamnorm.asgi.error_response import send_json
from streamnorm.asgi.exchange import Exchange, Receive, Scope, Send, open_exchange
from streamnorm.gateway.config import Config, ConfigError, read_config
from streamnorm.gateway.door import asked_of, path_of, read_body, received_request
from streamnorm.gateway.messages import Messages
from streamnorm.gateway.network import Network
from streamnorm.gateway.observing import Observers
from streamnorm.gateway.records import CallRecord, Observer
from streamnorm.gateway.routing import Routing

__all__ = ["Gateway", "from_environment"]

_LOG = logging.getLogger("streamnorm.gateway")

_JSON = [(b"content-type", b"application/json")]
_CLOSE_S = 1.0
# With which uvicorn and gunicorn end too, and start no worker again.
_STARTUP_FAILURE = 3
_TRACE = ("traceparent", "tracestate")  # W3C Trace Context


class Gateway:
    """An ASGI application; see `streamnorm.gateway`.

    Args:
        config: The configuration.
        environ: The environment that holds the keys; None for that of the process.
        observers: Those who are told of each request, besides the log, the metrics and the
            spans.

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
        self._observers = Observers(config, observers)

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
            while (await receive())["type"] != "lifespan.shutdown":
                await send({"type": "lifespan.startup.complete"})
        finally:  # also if the server is cancelled
            with anyio.move_on_after(_CLOSE_S, shield=True):
                await self._network.aclose()
        await send({"type": "lifespan.shutdown.complete"})

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        metrics = self._observers.metrics
        if metrics is not None and path_of(scope) == "/metrics":
            await metrics(scope, receive, send)
            return
        body = await read_body(receive, self._config.max_body_bytes)
        if body is None:
            return
        async with open_exchange(receive, send) as exchange:
            await self._respond(scope, body, exchange)

    async def _respond(self, scope: Scope, body: bytes, exchange: Exchange) -> None:
        received = received_request(scope, body)
        known = asked_of(received)
        if known is None:
            await send_json(exchange, 404, _JSON, b'{"error":{"message":"not found"}}')
            return
        client, asked = known
        loop = asyncio.get_running_loop()
        call = CallRecord(
            client=client.name,
            operation=asked.operation,
            model=asked.model,
            trace={name: received.headers[name] for name in _TRACE if name in received.headers},
            started_at=loop.time(),
        )
        self._observers.begin(call)
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
            self._observers.end(call)


def from_environment() -> Gateway:
    """Return the gateway of the configuration file that `STREAMNORM_CONFIG` names.

        STREAMNORM_CONFIG=gateway.toml uvicorn --factory streamnorm.gateway:from_environment

    Raises:
        SystemExit: The configuration is wrong; one line in the log says why.
    """
    try:
        path = os.environ.get("STREAMNORM_CONFIG", "")
        if not path:
            raise ConfigError("STREAMNORM_CONFIG: not set, expected the path of a configuration")
        return Gateway(read_config(path))
    except ConfigError as exc:
        _LOG.critical("%s", exc)
        raise SystemExit(_STARTUP_FAILURE) from exc
