"""Servers that are told to stop by a signal, as processes: streams get their grace and an end."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import aclosing
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from support.gateway.processes import COMMANDS, gateway_process
from support.gateway.servers import served
from support.gateway.upstreams import ANSWER, REQUESTS, StepUpstream, opened

from streamnorm._exchange import scope_of_keys
from streamnorm.log import open_log

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

# The exit status of each server; uvicorn raises the signal again.
STATUSES = {"serve": 0, "uvicorn_h11": -signal.SIGTERM, "uvicorn_workers": 0, "hypercorn": 0}


@pytest.mark.parametrize("command", STATUSES)
async def test_running_stream_gets_its_grace_and_an_error_event(
    command: str, tmp_path: Path
) -> None:
    upstream = StepUpstream([ANSWER[0], 60.0])
    arguments, expected = COMMANDS[command], STATUSES[command]
    async with (
        served(upstream) as upstream_url,
        gateway_process(
            upstream_url, tmp_path, arguments, settings="drain_grace_s = 0.2"
        ) as gateway,
    ):
        async with (
            httpx.AsyncClient() as http,
            opened(http, gateway.url, "anthropic") as response,
        ):
            body = response.aiter_raw()
            await anext(body)
            gateway.process.send_signal(signal.SIGTERM)
            rest = b"".join([chunk async for chunk in body])
        async with asyncio.timeout(30):
            status = await gateway.process.wait()
    assert rest.startswith(b"event: error\n")
    assert b"connection lost: the gateway stopped after 1 event" in rest
    assert status == expected
    assert upstream.left == 1


async def test_hypercorn_leaves_a_stream_the_grace_of_its_documented_command(
    tmp_path: Path,
) -> None:
    """By itself it cuts a stream after 3 s, without an event."""
    upstream = StepUpstream([ANSWER[0], 3.5, *ANSWER[1:]])
    async with (
        served(upstream) as upstream_url,
        gateway_process(
            upstream_url, tmp_path, COMMANDS["hypercorn"], settings="drain_grace_s = 20"
        ) as gateway,
        httpx.AsyncClient() as http,
        opened(http, gateway.url, "anthropic") as response,
    ):
        body = response.aiter_raw()
        await anext(body)
        gateway.process.send_signal(signal.SIGTERM)
        rest = b"".join([chunk async for chunk in body])
    assert b"message_stop" in rest


@pytest.mark.parametrize("is_short", [True, False])
@pytest.mark.parametrize("command", ["serve", "uvicorn_h11", "hypercorn"])
async def test_stream_without_a_client_has_its_grace(
    command: str, is_short: bool, tmp_path: Path
) -> None:
    upstream = StepUpstream([ANSWER[0], 0.5 if is_short else 60.0, *ANSWER[1:]])
    grace_s, url = (20 if is_short else 0.2), f"sqlite:{tmp_path}/log.db"
    settings, log = f"drain_grace_s = {grace_s}", f'[log]\nurl = "{url}"'
    async with (
        served(upstream) as upstream_url,
        gateway_process(
            upstream_url, tmp_path, COMMANDS[command], settings=settings, upstream=log
        ) as gateway,
    ):
        path, body = REQUESTS["anthropic"]
        headers = {"x-streamnorm-stream": "s-1"}
        async with (
            httpx.AsyncClient() as http,
            http.stream("POST", gateway.url + path, json=body, headers=headers) as response,
        ):
            id = response.headers["x-streamnorm-stream"]
            await anext(response.aiter_raw())
        gateway.process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(30):
            await gateway.process.wait()
    async with aclosing(open_log(url)) as stored:
        state = (await stored.status(id, scope=scope_of_keys(()))).state
    assert state == ("complete" if is_short else "truncated")


@pytest.mark.parametrize("command", ["serve", "uvicorn_h11", "hypercorn"])
async def test_second_sigterm_ends_at_once(command: str, tmp_path: Path) -> None:
    upstream = StepUpstream([ANSWER[0], 60.0])
    arguments, expected = COMMANDS[command], STATUSES[command]
    async with (
        served(upstream) as upstream_url,
        gateway_process(
            upstream_url, tmp_path, arguments, settings="drain_grace_s = 50"
        ) as gateway,
        httpx.AsyncClient() as http,
        opened(http, gateway.url, "anthropic") as response,
    ):
        body = response.aiter_raw()
        await anext(body)
        gateway.process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(30):
            await refusing(gateway.url)
            gateway.process.send_signal(signal.SIGTERM)
            rest = b"".join([chunk async for chunk in body])
            status = await gateway.process.wait()
    assert rest.startswith(b"event: error\n")
    assert status == expected
    assert upstream.left == 1


@pytest.mark.parametrize("command", ["serve", "uvicorn_workers"])
async def test_sigterm_that_a_supervisor_repeats_is_one(command: str, tmp_path: Path) -> None:
    """As systemd sends it to all processes of a unit, and their parent to its children."""
    upstream = StepUpstream([ANSWER[0], 2.0, *ANSWER[1:]])
    arguments = COMMANDS[command]
    async with (
        served(upstream) as upstream_url,
        gateway_process(
            upstream_url, tmp_path, arguments, settings="drain_grace_s = 50"
        ) as gateway,
        httpx.AsyncClient() as http,
        opened(http, gateway.url, "anthropic") as response,
    ):
        body = response.aiter_raw()
        await anext(body)
        for _ in range(2):
            os.killpg(gateway.process.pid, signal.SIGTERM)
        rest = b"".join([chunk async for chunk in body])
    assert b"message_stop" in rest


async def test_second_sigterm_waits_for_no_upload(tmp_path: Path) -> None:
    async with gateway_process(
        "http://127.0.0.1:9", tmp_path, settings="drain_grace_s = 50"
    ) as gateway:
        port = urlsplit(gateway.url).port
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST /v1/messages HTTP/1.1\r\nhost: 127.0.0.1\r\n")
        writer.write(b"content-type: application/json\r\ncontent-length: 99\r\n\r\n{")
        await writer.drain()
        gateway.process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(30):
            await refusing(gateway.url)
            gateway.process.send_signal(signal.SIGTERM)
            assert await gateway.process.wait() == 0
        writer.close()


async def refusing(url: str) -> None:
    """Wait until a server accepts no more connections, and then some more."""
    async with httpx.AsyncClient() as http:
        while True:
            try:
                await http.get(f"{url}/healthz")
            except httpx.TransportError:
                break
            await asyncio.sleep(0.05)
    await asyncio.sleep(0.2)
