"""Gateways that make responses in the background, and their clients."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import openai

from streamnorm.gateway import LogConfig
from support.gateway.servers import RunningGateway, served_gateway

__all__ = ["gateway_with_log", "polled", "sdk"]


@asynccontextmanager
async def gateway_with_log(upstream: Any, **settings: Any) -> AsyncIterator[RunningGateway]:
    more = {"log": LogConfig(url="memory:"), "state": "memory:", **settings}
    async with served_gateway(upstream, **more) as gateway:
        yield gateway


@asynccontextmanager
async def sdk(gateway: RunningGateway, key: str = "k") -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(
        base_url=f"{gateway.url}/v1", api_key=key, max_retries=0
    ) as client:
        yield client


async def polled(client: openai.AsyncOpenAI, id: str) -> Any:
    """Return a response once it is no longer under way."""
    async with asyncio.timeout(30):
        while True:
            response = await client.responses.retrieve(id)
            if response.status not in ("queued", "in_progress"):
                return response
            await asyncio.sleep(0.01)
