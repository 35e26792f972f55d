"""Servers that are told to stop by a signal, as processes: streams get their grace and an end."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import httpx
import pytest
from support.gateway_processes import SERVE, gateway_process
from support.gateway_servers import served
from support.gateway_upstreams import ANSWER, StepUpstream, opened

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

# What each server runs as, and its exit status; uvicorn raises the signal again.
COMMANDS = {
    "serve": (SERVE, 0),
    "uvicorn": (("uvicorn", "--factory", "APP", "--port", "PORT"), -signal.SIGTERM),
    "uvicorn_workers": (("uvicorn", "--factory", "APP", "--port", "PORT", "--workers", "2"), 0),
    "hypercorn": (("hypercorn", "APP()", "--bind", "127.0.0.1:PORT", "--workers", "0"), 0),
}


@pytest.mark.parametrize("command", COMMANDS)
async def test_running_stream_gets_its_grace_and_an_error_event(
    command: str, tmp_path: Path
) -> None:
    upstream = StepUpstream([ANSWER[0], 60.0])
    arguments, expected = COMMANDS[command]
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
