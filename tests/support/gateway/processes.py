"""Gateways as separate processes."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from asyncio.subprocess import DEVNULL, Process, create_subprocess_exec
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import IO, NamedTuple

import httpx

__all__ = ["COMMANDS", "SERVE", "GatewayProcess", "gateway_process", "missing_for"]

SERVE = ("streamnorm", "serve", "--config", "CONFIG", "--port", "PORT")
_UVICORN = ("uvicorn", "--factory", "APP", "--port", "PORT", "--no-access-log")
COMMANDS: dict[str, tuple[str, ...]] = {
    "serve": SERVE,
    "uvicorn_h11": (*_UVICORN, "--http", "h11"),
    "uvicorn_httptools": (*_UVICORN, "--http", "httptools"),
    "uvicorn_workers": (*_UVICORN, "--workers", "2"),
    "hypercorn": (
        *("hypercorn", "APP()", "--bind", "127.0.0.1:PORT", "--workers", "0"),
        *("--graceful-timeout", "30"),
    ),
}
"""What each server runs as; see `gateway_process`."""

# What a server needs that uvicorn does not install.
_NEEDS = {"uvicorn_httptools": "httptools"}

_CONFIG = """
{settings}

[upstreams.local]
dialect = "{dialect}"
base_url = "{url}"
{upstream}
"""


class GatewayProcess(NamedTuple):
    """A running gateway.

    Attributes:
        url: Its URL, without a path.
        process: Its process.
    """

    url: str
    process: Process


def missing_for(server: str) -> str | None:
    """Return why a server cannot run here; None if it can."""
    needed = _NEEDS.get(server)
    return None if needed is None or find_spec(needed) else f"{needed} is not installed"


@asynccontextmanager
async def gateway_process(
    upstream_url: str,
    directory: Path,
    command: Sequence[str] = SERVE,
    *,
    dialect: str = "openai_chat",
    settings: str = "",
    upstream: str = "",
    log: int | IO[str] = DEVNULL,
    environ: Mapping[str, str] | None = None,
) -> AsyncIterator[GatewayProcess]:
    """Run a gateway with an upstream; kill its process group at the end.

    Args:
        upstream_url: URL of the upstream.
        directory: Where to write the configuration.
        command: The Python module to run, and its arguments; in these, `CONFIG`, `PORT` and
            `APP` stand for the configuration file, a free port and the factory of the gateway.
        dialect: Dialect of the upstream.
        settings: Settings of the gateway, in TOML.
        upstream: Further settings of the upstream, and tables behind it, in TOML; `{url}`
            stands for its URL.
        log: Takes what the gateway prints.
        environ: Variables of its environment, besides those of this process.
    """
    config = directory / "gateway.toml"
    further = upstream.replace("{url}", upstream_url)
    text = _CONFIG.format(url=upstream_url, dialect=dialect, settings=settings, upstream=further)
    config.write_text(text)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    values = {"CONFIG": str(config), "PORT": port, "APP": "streamnorm.gateway:from_environment"}
    arguments = [*command]
    for name, value in values.items():
        arguments = [argument.replace(name, value) for argument in arguments]
    process = await create_subprocess_exec(
        *[sys.executable, "-m", *arguments],
        env={**os.environ, "STREAMNORM_CONFIG": str(config), **(environ or {})},
        stdout=log,
        stderr=log,
        start_new_session=True,
    )
    try:
        url = f"http://127.0.0.1:{port}"
        await _wait(url)
        yield GatewayProcess(url, process)
    finally:
        # Its workers, too, which go on without it.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


async def _wait(url: str) -> None:
    """Wait until a server answers."""
    async with asyncio.timeout(300), httpx.AsyncClient() as http:
        while True:
            try:
                await http.get(f"{url}/healthz")
            except httpx.TransportError:
                await asyncio.sleep(0.05)
            else:
                return
