"""Gateways with a log of streams."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from streamnorm.gateway import LogConfig
from support.gateway.servers import RunningGateway, served_gateway

__all__ = ["logged"]

_KEYS = {"CLIENT_KEYS": "key-of-a,key-of-b"}


@asynccontextmanager
async def logged(upstream: Any, **settings: Any) -> AsyncIterator[RunningGateway]:
    """Provide a gateway with a log in memory, for clients with `key-of-a` or `key-of-b`.

    Args:
        upstream: The upstream.
        settings: Settings of the gateway in place of these.
    """
    settings = {"client_keys": "env:CLIENT_KEYS", "log": LogConfig(url="memory:"), **settings}
    async with served_gateway(upstream, environ=_KEYS, **settings) as gateway:
        yield gateway
