"""Soak of a gateway process with WebSockets and long conversations, and its memory."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from websockets.asyncio.client import ClientConnection, connect

from support.gateway.processes import gateway_process
from support.gateway.servers import served, served_gateway
from support.gateway.soak import resident_bytes
from support.gateway.sockets import ENDS, create
from support.gateway.upstreams import ANSWER, StepUpstream

__all__ = ["Left", "find_left", "soak"]

_AT_A_TIME = 32
_SETTLE_S = 0.3
_LONGEST_SETTLE_S = 10.0


class Left(NamedTuple):
    """Resources left behind by ended connections.

    Attributes:
        tasks: Tasks.
        answers: Open answers of the upstream.
        history_bytes: Bytes of the histories that could be continued.
        descriptors: File descriptors, once the gateway is closed, too.
    """

    tasks: int
    answers: int
    history_bytes: int
    descriptors: int


async def soak(connections: int, turns: int, rounds: int = 12) -> list[int]:
    """Run conversations in rounds; return the resident bytes after each round.

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
                async with free, _open(gateway.url) as client:
                    await _take_turns(client, turns)

            for _ in range(rounds):
                await asyncio.gather(*(converse() for _ in range(connections // rounds)))
                await asyncio.sleep(_SETTLE_S)
                samples.append(resident_bytes(gateway.process.pid))
    return samples


async def find_left(connections: int, turns: int) -> Left:
    """Return the resources left by simultaneous connections with conversations.

    Every second client leaves without a close, within one more answer.

    Args:
        connections: Number of connections.
        turns: Turns of each.

    Raises:
        AssertionError: A turn did not complete.
    """
    upstream = StepUpstream([*ANSWER])
    gc.collect()
    descriptors = _descriptors()
    async with served_gateway(upstream, has_websockets=True) as gateway:
        async with _open(gateway.url) as first:  # of which all later ones reuse something
            await _take_turns(first, 1)
        tasks = len(asyncio.all_tasks())
        clients = await asyncio.gather(*(_open(gateway.url) for _ in range(connections)))

        async def converse(number: int, client: ClientConnection) -> None:
            await _take_turns(client, turns)
            if number % 2:
                await client.close()
                return
            await client.send(json.dumps(create("one more")))
            await client.recv()
            client.transport.abort()

        await asyncio.gather(*(converse(*each) for each in enumerate(clients)))
        histories = gateway.app._websockets.histories
        end = asyncio.get_running_loop().time() + _LONGEST_SETTLE_S
        # A closed connection to the upstream, and one of a client, end in the loop's next steps.
        while len(asyncio.all_tasks()) > tasks or upstream.open or histories.size:
            await asyncio.sleep(0.02)
            if asyncio.get_running_loop().time() > end:
                break
        left = (len(asyncio.all_tasks()) - tasks, upstream.open, histories.size)
    del clients
    while _descriptors() > descriptors and asyncio.get_running_loop().time() < end:
        gc.collect()
        await asyncio.sleep(0.02)
    return Left(*left, _descriptors() - descriptors)


def _open(url: str) -> connect:
    return connect(f"ws{url[4:]}/v1/responses", ping_interval=None)


async def _take_turns(client: ClientConnection, turns: int) -> None:
    """Run a conversation of some turns, sending only new input after the first."""
    known: dict[str, Any] = {}
    for turn in range(turns):
        await client.send(json.dumps(create(f"turn {turn} " * 50, **known)))
        known = {"previous_response_id": await _response_id(client)}


def _descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


async def _response_id(client: ClientConnection) -> str:
    while (event := json.loads(await client.recv()))["type"] not in ENDS:
        pass
    assert event["type"] == "response.completed", event["type"]
    id: str = event["response"]["id"]
    return id
