"""Google's Interactions SDK as a client of a gateway."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
from google import genai
from google.genai import types

from support.gateway.stateful_clients import KEY

__all__ = ["create", "sdk"]


@asynccontextmanager
async def sdk(url: str, key: str = KEY) -> AsyncIterator[Any]:
    """Provide Google's SDK client, without retries."""
    async with httpx.AsyncClient() as http:
        retries = types.HttpRetryOptions(attempts=1)
        options = types.HttpOptions(base_url=url, httpx_async_client=http, retry_options=retries)
        yield genai.Client(api_key=key, http_options=options).aio.interactions


async def create(client: Any, input: Any, *, stream: bool = False, **more: Any) -> str:
    """Create an interaction; return its id."""
    answer = await client.create(model="m", input=input, stream=stream, **more)
    if not stream:
        return str(answer.id)
    events = [event async for event in answer]
    assert events[-1].event_type == "interaction.completed"
    assert events[0].interaction.id == events[1].interaction_id == events[-1].interaction.id
    return str(events[-1].interaction.id)
