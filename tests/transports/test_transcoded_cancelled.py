"""Requests that are cancelled at any point leave no more behind than those of the bare client."""

from __future__ import annotations

import random
from typing import Any

import anyio
import pytest
from support.http_families import FamilyUnderTest, each_family
from support.loopback import HEAD, Server, chunked
from support.transcoding import STREAMING, chat_stream

# The clients leave generators of their own to the garbage collector, which trio tells.
pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore:Async generator")]

REQUESTS = 500
# About half of the exchanges take fewer.
MAX_CHECKPOINTS = 30
ANSWER = [HEAD, *map(chunked, chat_stream("It snows in Oslo.")), b"0\r\n\r\n"]


async def used_after_cancellations(
    family: FamilyUnderTest, transport: Any, network: Any, url: str
) -> tuple[int, int]:
    """Return how many connections are in use after all requests, and how many were answered."""
    chosen = random.Random(7)  # noqa: S311 - no secret
    answered = 0
    async with family.http.AsyncClient(transport=transport, timeout=30) as client:

        async def ask() -> None:
            nonlocal answered
            async with client.stream("POST", url, json=STREAMING) as response:
                async for _ in response.aiter_raw():
                    pass
            answered += 1

        for _ in range(REQUESTS):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(ask)
                for _ in range(chosen.randrange(MAX_CHECKPOINTS)):
                    await anyio.lowlevel.checkpoint()
                tasks.cancel_scope.cancel()
        in_use = sum(not one.is_idle() for one in network._pool.connections)
    return in_use, answered


@each_family
async def test_cancelled_requests_leave_no_more_than_the_bare_client(
    family: FamilyUnderTest,
) -> None:
    limits = family.http.Limits(max_connections=2 * REQUESTS)
    async with Server(ANSWER).running() as server:
        bare = family.http.AsyncHTTPTransport(limits=limits)
        left_bare, _ = await used_after_cancellations(
            family, bare, bare, f"{server.url}/chat/completions"
        )
        network = family.http.AsyncHTTPTransport(limits=limits)
        transport = family.transports.TranscodingTransport(
            network, client="anthropic", upstream="openai_chat", base_url=server.url
        )
        left, answered = await used_after_cancellations(
            family, transport, network, "https://api.anthropic.com/v1/messages"
        )
    assert 0 < answered < REQUESTS  # they were cancelled before, within and after the answer
    assert left <= left_bare
