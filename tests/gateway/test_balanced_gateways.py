"""Gateways of several machines over one Valkey: a stream goes on, whoever answers its reader."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest
from support.gateway.balancers import BALANCERS, balancer, find_balancer
from support.gateway.processes import GatewayProcess, gateway_process
from support.gateway.servers import served
from support.gateway.upstreams import ANSWER, REQUESTS, StepUpstream
from support.openai_chat.chunks import content
from support.state.valkey_servers import valkey_server

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

LEASE_S = 1.0
ID = "x-streamnorm-stream"
_CURSOR = re.compile(rb"^id: (\S+)\n", re.MULTILINE)


class Balanced(NamedTuple):
    """Two gateways with one log behind a load balancer.

    Attributes:
        url: URL of the load balancer.
        gateways: The gateways.
        upstreams: The upstream of each.
    """

    url: str
    gateways: list[GatewayProcess]
    upstreams: list[StepUpstream]


@asynccontextmanager
async def balanced(name: str, steps: list[bytes | float], folder: Path) -> AsyncIterator[Balanced]:
    """Run two gateways, each with an upstream of its own, and a load balancer."""
    command = find_balancer(name)
    async with AsyncExitStack() as stack:
        server = stack.enter_context(valkey_server())
        settings = f'[log]\nurl = "{server.connection_url}"\nlease_s = {LEASE_S}'
        upstreams = [StepUpstream(steps), StepUpstream(steps)]
        gateways = []
        for number, upstream in enumerate(upstreams):
            place = folder / str(number)
            place.mkdir()
            url = await stack.enter_async_context(served(upstream))
            running = gateway_process(url, place, settings=settings)
            gateways.append(await stack.enter_async_context(running))
        urls = [gateway.url for gateway in gateways]
        url = await stack.enter_async_context(balancer(command, urls, folder))
        yield Balanced(url, gateways, upstreams)


class Client:
    """A client that reads a stream with as many connections as it takes.

    Attributes:
        received: The events that it has, each with its cursor.
        id: Id of the stream.
        answered_by: Who answered its requests.
    """

    def __init__(self, url: str) -> None:
        self.received = b""
        self.id = ""
        self.answered_by: set[str] = set()
        self._url = url

    async def read(self, events: int | None = None) -> None:
        """Read on, to the end or until so many events came; ask first if there is no stream."""
        path, body = REQUESTS["anthropic"]
        async with httpx.AsyncClient(timeout=60) as http:
            if self.id:
                *_, last = _CURSOR.findall(self.received) or [b""]
                headers = {"last-event-id": last.decode()} if last else {}
                url = f"{self._url}/streams/{self.id}"
                request = http.build_request("GET", url, headers=headers)
            else:
                request = http.build_request(
                    "POST", self._url + path, json={**body, "stream": True}, headers={ID: "s-1"}
                )
            response = await http.send(request, stream=True)
            try:
                assert response.status_code == 200, await response.aread()
                self.id = response.headers[ID]
                self.answered_by.add(response.headers["x-answered-by"])
                await self._read(response, events)
            finally:
                await response.aclose()

    async def _read(self, response: httpx.Response, events: int | None) -> None:
        pending, count = b"", 0
        async for data in response.aiter_raw():
            *whole, pending = (pending + data).split(b"\n\n")
            for event in whole:
                self.received += event + b"\n\n"
                count += 1
                if count == events:
                    return


@pytest.mark.parametrize("name", BALANCERS)
async def test_gateway_that_is_killed_truncates_its_streams(name: str, tmp_path: Path) -> None:
    async with balanced(name, [ANSWER[0], 60.0], tmp_path) as running:
        client = Client(running.url)
        await client.read(3)
        [dead] = [
            gateway
            for gateway, upstream in zip(running.gateways, running.upstreams, strict=True)
            if upstream.requests
        ]
        dead.process.kill()
        await dead.process.wait()
        async with asyncio.timeout(10 * LEASE_S):
            await client.read()
        assert b"event: error\n" in client.received
        assert b"its producer died" in client.received
        # The same for all that read it later, and the end of their dialect for those of another.
        again = Client(running.url)
        again.id = client.id
        await again.read()
        assert again.received == client.received
        for to in ("openai_chat", "openai_responses", "gemini", "ui_message_stream"):
            async with httpx.AsyncClient() as http:
                url = f"{running.url}/streams/{client.id}"
                body = (await http.get(url, params={"to": to})).content
            assert b"its producer died" in body
            assert b'"finish_reason":"stop"' not in body


@pytest.mark.parametrize("name", BALANCERS)
async def test_client_that_is_moved_continues_byte_for_byte(name: str, tmp_path: Path) -> None:
    steps: list[bytes | float] = [ANSWER[0]]
    for number in range(30):
        steps += [content(f"{number} "), 0.02]
    async with balanced(name, [*steps, *ANSWER[1:]], tmp_path) as running:
        client = Client(running.url)
        async with asyncio.timeout(60):
            while b"message_stop" not in client.received:
                await client.read(5)
        whole = Client(running.url)
        whole.id = client.id
        await whole.read()
        assert client.received == whole.received
        assert len(_CURSOR.findall(whole.received)) == whole.received.count(b"\n\n") > 30
        assert len(client.answered_by) == 2
        assert sum(len(upstream.requests) for upstream in running.upstreams) == 1
