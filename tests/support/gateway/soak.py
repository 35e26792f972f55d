"""Soak of a gateway process with streams of all kinds, and its memory."""

from __future__ import annotations

import asyncio
import json
import os
import random
import tempfile
from collections import Counter
from pathlib import Path

import aiohttp

from support.gateway.processes import gateway_process
from support.gateway.servers import served
from support.gateway.upstreams import ABORT, ANSWER, REQUESTS, Head, Step, StepUpstream
from support.openai_chat.chunks import content

__all__ = ["resident_bytes", "soak"]

_AT_A_TIME = 16
_SETTLE_S = 0.3
_ERROR = b'{"error":{"message":"Busy."}}'
_ANSWERS: tuple[list[Step], ...] = (
    *([ANSWER[0], *[content("word ")] * length, *ANSWER[1:]] for length in (1, 5, 20, 80, 200)),
    [ANSWER[0], *[content("x" * 20_000)] * 5, *ANSWER[1:]],
    [ANSWER[0], ABORT],
    [ANSWER[0], b'data: {"error":{"message":"Broken."}}\n\n'],
    [Head(503, {"content-type": "application/json"}), _ERROR],
)


async def soak(count: int, seed: int) -> tuple[list[int], Counter[int]]:
    """Send streams in ten rounds; return the resident bytes after each, and all statuses."""
    dice = random.Random(seed)  # noqa: S311 - no secret
    samples: list[int] = []
    statuses = Counter[int]()
    turns = asyncio.Semaphore(_AT_A_TIME)
    with tempfile.TemporaryDirectory() as directory:
        upstream = StepUpstream(*[dice.choice(_ANSWERS) for _ in range(count)])
        async with (
            served(upstream) as upstream_url,
            gateway_process(upstream_url, Path(directory)) as gateway,
            aiohttp.ClientSession() as http,
        ):

            async def turn() -> None:
                async with turns:
                    path, body = REQUESTS[dice.choice([*REQUESTS])]
                    data = json.dumps({**body, "stream": dice.random() < 0.9})
                    leaves = dice.random() < 0.1
                    headers = {"content-type": "application/json"}
                    request = http.post(gateway.url + path, data=data, headers=headers)
                    async with request as response:
                        statuses[response.status] += 1
                        await (response.content.readany() if leaves else response.read())
                    # A response that was not read to its end is closed here.

            for _ in range(10):
                await asyncio.gather(*(turn() for _ in range(count // 10)))
                await asyncio.sleep(_SETTLE_S)
                samples.append(resident_bytes(gateway.process.pid))
    return samples, statuses


def resident_bytes(process: int) -> int:
    """Return the resident memory of a process."""
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
