"""The state of a gateway of several worker processes."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from asyncio.subprocess import DEVNULL, PIPE, create_subprocess_exec
from pathlib import Path

import pytest
from support.gateway.stored_conversations import Report, converse

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

CONFIG = """
state = "memory:"
[upstreams.local]
dialect = "openai_chat"
base_url = "http://127.0.0.1:9"
"""


@pytest.mark.parametrize("state", ["sqlite", "redis"], indirect=True)
async def test_workers_share_the_state_and_one_is_killed(state: str, tmp_path: Path) -> None:
    report = await converse(tmp_path, state, conversations=12, kills=1, workers=3)
    assert report == Report(answers=48, repeated=report.repeated, refused=report.refused, killed=1)


async def test_workers_share_no_memory(tmp_path: Path) -> None:
    config = tmp_path / "gateway.toml"
    config.write_text(CONFIG)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    arguments = ("--factory", "streamnorm.gateway:from_environment", "--port", port)
    process = await create_subprocess_exec(
        *[sys.executable, "-m", "uvicorn", *arguments, "--workers", "2"],
        env={**os.environ, "STREAMNORM_CONFIG": str(config)},
        stdout=DEVNULL,
        stderr=PIPE,
    )
    assert process.stderr is not None
    try:
        async with asyncio.timeout(60):
            lines = b""
            while b"expected sqlite: or redis:, which all workers share" not in lines:
                line = await process.stderr.readline()
                assert line, lines
                lines += line
    finally:
        if process.returncode is None:
            process.terminate()
        await process.communicate()
    assert b"state: memory: in a worker process" in lines
