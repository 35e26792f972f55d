"""Servers that are told to stop by a signal, as processes: streams get their grace and an end."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from pathlib import Path

import httpx
import pytest
from support.gateway_servers import served
from support.gateway_upstreams import ANSWER, StepUpstream, opened

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

CONFIG = """
drain_grace_s = 0.2

[upstreams.local]
dialect = "openai_chat"
base_url = "{url}"
"""
# What each server runs as, and its exit status; uvicorn raises the signal again.
COMMANDS = {
    "serve": (["streamnorm", "serve", "--config", "CONFIG", "--port", "PORT"], 0),
    "uvicorn": (["uvicorn", "--factory", "APP", "--port", "PORT"], -signal.SIGTERM),
    "uvicorn_workers": (["uvicorn", "--factory", "APP", "--port", "PORT", "--workers", "2"], 0),
    "hypercorn": (["hypercorn", "APP()", "--bind", "127.0.0.1:PORT", "--workers", "0"], 0),
}


async def started(http: httpx.AsyncClient, url: str) -> None:
    """Wait until a server answers."""
    async with asyncio.timeout(30):
        while True:
            try:
                await http.get(f"{url}/healthz")
            except httpx.TransportError:
                await asyncio.sleep(0.05)
            else:
                return


@pytest.mark.parametrize("command", COMMANDS)
async def test_running_stream_gets_its_grace_and_an_error_event(
    command: str, tmp_path: Path
) -> None:
    upstream = StepUpstream([ANSWER[0], 60.0])
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    arguments, expected = COMMANDS[command]
    values = {"CONFIG": str(tmp_path / "gateway.toml"), "PORT": str(port)}
    values["APP"] = "streamnorm.gateway:from_environment"
    for name, value in values.items():
        arguments = [argument.replace(name, value) for argument in arguments]
    url = f"http://127.0.0.1:{port}"
    async with served(upstream) as upstream_url:
        (tmp_path / "gateway.toml").write_text(CONFIG.format(url=upstream_url))
        process = await asyncio.create_subprocess_exec(
            *[sys.executable, "-m", *arguments],
            env={**os.environ, "STREAMNORM_CONFIG": values["CONFIG"]},
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        try:
            async with httpx.AsyncClient() as http:
                await started(http, url)
                async with opened(http, url, "anthropic") as response:
                    body = response.aiter_raw()
                    await anext(body)
                    process.send_signal(signal.SIGTERM)
                    rest = b"".join([chunk async for chunk in body])
            async with asyncio.timeout(30):
                status = await process.wait()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
    assert rest.startswith(b"event: error\n")
    assert b"connection lost: the gateway stopped after 1 event" in rest
    assert status == expected
    assert upstream.left == 1
