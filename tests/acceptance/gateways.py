"""Gateways to one upstream that speaks all dialects, each of them over real connections."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from acceptance.transcoding_clients import SDKS
from support.gateway.servers import gateway_config, served
from support.http.strict_upstreams import StrictApp

from streamnorm.gateway import Gateway

__all__ = ["Gateways", "Upstream", "gateways", "gateways_to_upstream"]


class Upstream:
    """An upstream whose application each test sets.

    Attributes:
        app: The application, which serves requests alone.
        strict: Whether it refuses what the provider that it stands for would refuse.
    """

    def __init__(self) -> None:
        self.app: Any = None
        self.strict = True

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            app = StrictApp(self.app) if self.strict else self.app
            await app(scope, receive, send)
            return
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await send({"type": "lifespan.shutdown.complete"})


class Gateways:
    """Running gateways, by the dialect of their upstream.

    Attributes:
        upstream: The upstream, if its application can be set.
        urls: URL of each gateway.
        apps: Each gateway.
    """

    def __init__(self) -> None:
        self.upstream = Upstream()
        self.urls: dict[str, str] = {}
        self.apps: dict[str, Gateway] = {}

    async def connections_in_use(self, dialect: str) -> int:
        """Return how many connections to the upstream are in use, once that cannot change."""
        session = self.apps[dialect]._network._sessions.get(True)
        if session is None:
            return 0
        connector: Any = session.connector
        for _ in range(100):  # the server may end the request a moment after its client
            if not connector._acquired:
                break
            await asyncio.sleep(0.01)
        return len(connector._acquired)


@asynccontextmanager
async def gateways(
    upstream_url: str,
    *,
    options: Mapping[str, Any] | None = None,
    environ: Mapping[str, str] | None = None,
    observers: tuple[Any, ...] = (),
    has_websockets: bool = False,
    dialects: Iterable[str] = tuple(SDKS),
    **settings: Any,
) -> AsyncIterator[Gateways]:
    """Serve gateways to one upstream, one for each dialect that it speaks.

    Args:
        upstream_url: URL of the upstream, without a path.
        options: Further options of the upstream.
        environ: The environment.
        observers: Observers of the gateways.
        has_websockets: Whether their server knows WebSockets.
        dialects: The dialects.
        settings: Settings of the gateways.
    """
    running = Gateways()
    async with AsyncExitStack() as stack:
        for dialect in dialects:
            config = gateway_config(upstream_url, dialect, options=options, **settings)
            app = Gateway(config, environ=environ or {}, observers=observers)
            running.apps[dialect] = app
            serving = served(app, has_websockets=has_websockets)
            running.urls[dialect] = await stack.enter_async_context(serving)
        yield running


@asynccontextmanager
async def gateways_to_upstream(**settings: Any) -> AsyncIterator[Gateways]:
    """Serve gateways, and an upstream whose application can be set; see `gateways`."""
    upstream = Upstream()
    async with served(upstream, strict=False) as url, gateways(url, **settings) as running:
        running.upstream = upstream
        yield running
