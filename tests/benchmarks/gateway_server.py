"""The server under measurement: the gateway and a byte relay under the server of `serve`.

    python tests/benchmarks/gateway_server.py UPSTREAM_URL

Prints its port.  The first segment of a path chooses the application: `/relay` sends on the bytes
of the upstream as they arrive, `/gateway` is streamnorm's.  Both use aiohttp for the upstream.
The name of a request's model is that of the upstream's dialect.
"""

from __future__ import annotations

import sys

import aiohttp
from workloads import DIALECTS

from streamnorm import gateway
from streamnorm.asgi.responses import Receive, Scope, Send
from streamnorm.cli.serving import serve


class Relay:
    """ASGI application that forwards bytes between client and upstream unread."""

    def __init__(self, upstream_url: str) -> None:
        self._upstream_url = upstream_url
        self._session: aiohttp.ClientSession | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward one request."""
        body = b""
        while (message := await receive())["type"] == "http.request":
            body += message["body"]
            if not message["more_body"]:
                break
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0),
                timeout=aiohttp.ClientTimeout(total=None),
                auto_decompress=False,
            )
        url = self._upstream_url + scope["path"]
        headers = {"content-type": "application/json"}
        async with self._session.post(url, data=body, headers=headers) as response:
            event_stream = [(b"content-type", b"text/event-stream; charset=utf-8")]
            await send({"type": "http.response.start", "status": 200, "headers": event_stream})
            async for chunk in response.content.iter_any():
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def aclose(self) -> None:
        """Close the connections to the upstream."""
        if self._session is not None:
            await self._session.close()


class Applications:
    """Relay and gateway as one ASGI application, selected by the first path segment."""

    def __init__(self, upstream_url: str) -> None:
        self._relay = Relay(upstream_url)
        self._gateway = gateway.app(
            gateway.Config(
                upstreams={
                    dialect: gateway.UpstreamConfig(dialect=dialect, base_url=upstream_url)
                    for dialect in DIALECTS
                },
                models=[gateway.ModelConfig(match=dialect, to=[dialect]) for dialect in DIALECTS],
            )
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or the server's lifespan messages."""
        if scope["type"] == "lifespan":
            await self._gateway(scope, receive, send)
            await self._relay.aclose()
            return
        _, name, path = scope["path"].split("/", 2)
        application = self._relay if name == "relay" else self._gateway
        await application({**scope, "path": f"/{path}"}, receive, send)


def main(upstream_url: str) -> None:
    """Serve until the process is stopped, as `streamnorm serve` does."""

    def announce(url: str) -> None:
        print(url.rpartition(":")[2], flush=True)

    serve(Applications(upstream_url), 0, announce)


if __name__ == "__main__":
    main(*sys.argv[1:])
