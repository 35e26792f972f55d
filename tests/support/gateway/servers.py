"""ASGI applications on loopback ports, served in the loop of the test by one of three servers."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Literal, NamedTuple, TypeAlias

import hypercorn.asyncio
import hypercorn.config
import uvicorn

from streamnorm.cli.server import Connections, Server, choose_connection
from streamnorm.cli.websocket_connection import WebSocketConnection
from streamnorm.gateway import Config, Gateway, UpstreamConfig
from streamnorm.gateway.observing import Observer
from support.http.strict_upstreams import COMPATIBLE, StrictApp

__all__ = ["SERVERS", "RunningGateway", "ServerName", "gateway_config", "served", "served_gateway"]

ServerName: TypeAlias = Literal["streamnorm", "uvicorn", "hypercorn"]

SERVERS: tuple[ServerName, ...] = ("streamnorm", "uvicorn", "hypercorn")

_STOP_S = 1  # for requests that are still answered when the test ends
_MAX_CONNECTIONS = 1000
_IDLE_S = 75  # a connection that is closed as a busy machine writes to it loses the request


class RunningGateway(NamedTuple):
    """A served gateway with its upstream.

    Attributes:
        url: URL of the gateway, without a path.
        app: The gateway.
        upstream_url: URL of the upstream, without a path.
    """

    url: str
    app: Gateway
    upstream_url: str


@asynccontextmanager
async def served(
    app: Any,
    server: ServerName | None = None,
    *,
    stands_for: str | None = COMPATIBLE,
    strict: bool = True,
    has_websockets: bool = False,
) -> AsyncIterator[str]:
    """Serve an ASGI application with its lifespan; yield its URL.

    An upstream refuses what the provider that it stands for would refuse.

    Args:
        app: The application: a gateway, or an upstream.
        server: The server; None for the one of `streamnorm serve` in front of a gateway, and for
            uvicorn in front of an upstream.  It stops when the context ends, after a second at
            the latest.
        stands_for: Name of the provider's server; None is the vendor.
        strict: Whether an upstream refuses; not for what a client sends on purpose, and the
            gateway passes, since it is the client's affair.
        has_websockets: Whether the server knows WebSockets, as hypercorn always does; without,
            the application is asked over HTTP.
    """
    if strict and not isinstance(app, Gateway):
        app = StrictApp(app, stands_for)
    listener = socket.create_server(("127.0.0.1", 0))
    # asyncio sets it only for connections of sockets whose protocol is named.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    if server == "hypercorn":
        running = _hypercorn(app, listener)
    elif server == "uvicorn" or not isinstance(app, Gateway):
        running = _uvicorn(app, listener, has_websockets=has_websockets)
    else:
        running = _streamnorm(app, listener, has_websockets=has_websockets)
    async with running:
        yield url


@asynccontextmanager
async def served_gateway(
    upstream: Any,
    dialect: str = "openai_chat",
    *,
    server: ServerName = "streamnorm",
    has_websockets: bool = False,
    observers: tuple[Observer, ...] = (),
    options: Mapping[str, Any] | None = None,
    environ: Mapping[str, str] | None = None,
    **settings: Any,
) -> AsyncIterator[RunningGateway]:
    """Serve an upstream, and a gateway in front of it.

        async with served_gateway(FakeProvider(["Hi."]).app(), keepalive_s=0.02) as gateway:
            response = await client.post(f"{gateway.url}/v1/messages", json=...)

    Args:
        upstream: The upstream, an ASGI application; always served by uvicorn.
        dialect: Its dialect.
        server: Server of the gateway.
        has_websockets: Whether it knows WebSockets.
        observers: Observers of the gateway.
        options: Further options of the upstream, as `normalize`.
        environ: The environment of the gateway.
        settings: Settings of the gateway; see `Config`.
    """
    stands_for = (options or {}).get("server", COMPATIBLE)
    async with served(upstream, stands_for=stands_for) as upstream_url:
        config = gateway_config(upstream_url, dialect, options=options, **settings)
        app = Gateway(config, environ=environ or {}, observers=observers)
        async with served(app, server, has_websockets=has_websockets) as url:
            yield RunningGateway(url, app, upstream_url)


def gateway_config(
    upstream_url: str,
    dialect: str = "openai_chat",
    *,
    options: Mapping[str, Any] | None = None,
    **settings: Any,
) -> Config:
    """Return a gateway's configuration with one upstream named `local`."""
    upstream = UpstreamConfig(dialect=dialect, base_url=upstream_url, **(options or {}))
    return Config(upstreams={"local": upstream}, **settings)


class _InLoop(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield  # they belong to the test

    async def main_loop(self) -> None:
        # uvicorn would wait for a tenth of a second.
        while not await self.on_tick(0):  # noqa: ASYNC110 - it has no event for it
            await asyncio.sleep(0.002)


class _Server(_InLoop, Server):
    pass


def _config(app: Any, ws: Any) -> uvicorn.Config:
    config = uvicorn.Config(app, log_config=None, log_level="critical", lifespan="on", ws=ws)
    config.ws_per_message_deflate = False
    config.timeout_keep_alive = _IDLE_S
    config.timeout_graceful_shutdown = _STOP_S
    return config


@asynccontextmanager
async def _uvicorn(
    app: Any, listener: socket.socket, *, has_websockets: bool
) -> AsyncIterator[None]:
    server = _InLoop(_config(app, "websockets-sansio" if has_websockets else "none"))
    async with _running(server, [listener]):
        yield


@asynccontextmanager
async def _streamnorm(
    app: Any, listener: socket.socket, *, has_websockets: bool
) -> AsyncIterator[None]:
    config = _config(app, WebSocketConnection if has_websockets else "none")
    connections = Connections(_MAX_CONNECTIONS, keep_alive_s=_IDLE_S)
    async with _running(_Server(config, listener, connections, choose_connection()), None):
        yield


@asynccontextmanager
async def _running(
    server: uvicorn.Server, sockets: list[socket.socket] | None
) -> AsyncIterator[None]:
    task = asyncio.create_task(server.serve(sockets))
    try:
        while not server.started:
            if task.done():
                raise RuntimeError("the application did not start")
            await asyncio.sleep(0.002)
        yield
    finally:
        server.should_exit = True
        await task


@asynccontextmanager
async def _hypercorn(app: Any, listener: socket.socket) -> AsyncIterator[None]:
    config = hypercorn.config.Config()
    config.bind = [f"fd://{listener.detach()}"]  # hypercorn closes it
    config.loglevel = "CRITICAL"
    config.graceful_timeout = _STOP_S
    stop = asyncio.Event()
    serving = hypercorn.asyncio.serve(app, config, shutdown_trigger=stop.wait)
    task = asyncio.create_task(serving)
    try:
        yield  # connections wait until it has started
    finally:
        stop.set()
        await task
