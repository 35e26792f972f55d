"""WebSockets of servers that run as processes: that they are answered, and how they end."""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path
from typing import Any

import pytest
from support.gateway.processes import COMMANDS, GatewayProcess, gateway_process
from support.gateway.servers import served
from support.gateway.socket_soak import find_left, soak
from support.gateway.sockets import create
from support.gateway.upstreams import ANSWER, StepUpstream
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


def open_socket(gateway: GatewayProcess) -> connect:
    return connect(f"ws{gateway.url[4:]}/v1/responses", ping_interval=None)


async def rest(client: ClientConnection) -> tuple[list[dict[str, Any]], int | None]:
    """Return what comes to the end of a connection, and the code of its close."""
    events: list[dict[str, Any]] = []
    async with asyncio.timeout(20):
        try:
            while True:
                events.append(json.loads(await client.recv()))
        except ConnectionClosed:
            return events, client.close_code


async def test_answer_ends_within_the_grace_and_the_connection_behind_it(tmp_path: Path) -> None:
    upstream = StepUpstream([ANSWER[0], 2.0, *ANSWER[1:]])
    async with (
        served(upstream) as upstream_url,
        gateway_process(upstream_url, tmp_path, settings="drain_grace_s = 20") as gateway,
        open_socket(gateway) as client,
        open_socket(gateway) as idle,
    ):
        await client.send(json.dumps(create()))
        await client.recv()
        gateway.process.send_signal(signal.SIGTERM)
        assert await rest(idle) == ([], 1001)
        events, code = await rest(client)
        assert (events[-1]["type"], code) == ("response.completed", 1001)
        async with asyncio.timeout(30):
            assert await gateway.process.wait() == 0


@pytest.mark.parametrize("command", ["serve", "hypercorn"])
async def test_answer_that_outlasts_the_grace_fails(command: str, tmp_path: Path) -> None:
    upstream = StepUpstream([ANSWER[0], 60.0])
    async with (
        served(upstream) as upstream_url,
        gateway_process(
            upstream_url, tmp_path, COMMANDS[command], settings="drain_grace_s = 0.2"
        ) as gateway,
        open_socket(gateway) as client,
    ):
        await client.send(json.dumps(create()))
        await client.recv()
        gateway.process.send_signal(signal.SIGTERM)
        events, code = await rest(client)
        assert (events[-1]["type"], code) == ("response.failed", 1001)
        async with asyncio.timeout(30):
            await gateway.process.wait()
        assert upstream.left == 1


async def test_plain_uvicorn_closes_connections_at_once(tmp_path: Path) -> None:
    """With a code at which clients open another one."""
    upstream = StepUpstream([ANSWER[0], 60.0])
    async with (
        served(upstream) as upstream_url,
        gateway_process(upstream_url, tmp_path, COMMANDS["uvicorn_httptools"]) as gateway,
        open_socket(gateway) as client,
    ):
        await client.send(json.dumps(create()))
        await client.recv()
        gateway.process.send_signal(signal.SIGTERM)
        _, code = await rest(client)
        assert code == 1012
        async with asyncio.timeout(10):
            await upstream.closed.wait()


async def test_memory_stays_flat_over_many_connections_and_long_conversations() -> None:
    """A share of tests/stress/gateway_websockets.py."""
    for connections, turns in ((240, 1), (24, 20)):
        samples = await soak(connections, turns)
        assert min(samples[-3:]) - samples[1] < 8 * 1024 * 1024  # of which most fills caches


async def test_nothing_is_left_of_connections_that_were_open_together() -> None:
    """A share of tests/stress/gateway_websockets.py."""
    for connections, turns in ((100, 1), (10, 10)):
        assert not any(await find_left(connections, turns))
