"""Many WebSockets, and long conversations, through one gateway process, and the memory of that."""

from __future__ import annotations

import asyncio
import json
import tempfile
from pathlib import Path
from typing import Any

from websockets.asyncio.client import ClientConnection, connect

from support.gateway.processes import gateway_process
from support.gateway.servers import served
from support.gateway.soak import resident_bytes
from support.gateway.sockets import ENDS, create
from support.gateway.upstreams import ANSWER, StepUpstream

__all__ = ["soak"]

_AT_A_TIME = 32
_SETTLE_S = 0.3


async def soak(connections: int, turns: int, rounds: int = 12) -> list[int]:
    """Run conversations of some turns in rounds; return the resident bytes after each.

    Args:
        connections: Number of connections in all.
        turns: Turns of each; all but the first send only what is new.
        rounds: Number of rounds.

    Raises:
        AssertionError: A turn did not complete.
    """
    samples: list[int] = []
    free = asyncio.Semaphore(_AT_A_TIME)
    with tempfile.TemporaryDirectory() as directory:
        async with (
            served(StepUpstream([*ANSWER])) as upstream_url,
            gateway_process(upstream_url, Path(directory)) as gateway,
        ):

            async def converse() -> None:
                url = f"ws{gateway.url[4:]}/v1/responses"
                async with free, connect(url, ping_interval=None) as client:
                    known: dict[str, Any] = {}
                    for turn in range(turns):
                        await client.send(json.dumps(create(f"turn {turn} " * 50, **known)))
                        known = {"previous_response_id": await _response_id(client)}

            for _ in range(rounds):
                await asyncio.gather(*(converse() for _ in range(connections // rounds)))
                await asyncio.sleep(_SETTLE_S)
                samples.append(resident_bytes(gateway.process.pid))
    return samples


async def _response_id(client: ClientConnection) -> str:
    while (event := json.loads(await client.recv()))["type"] not in ENDS:
        pass
    assert event["type"] == "response.completed", event["type"]
    id: str = event["response"]["id"]
    return id
