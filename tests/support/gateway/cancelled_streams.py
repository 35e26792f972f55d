"""Clients that leave a gateway at random points, and the resources left behind."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import random
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import httpx

from support.gateway.servers import ServerName, served_gateway
from support.gateway.upstreams import ANSWER, REQUESTS, Head, Records, Step, StepUpstream, opened
from support.openai_chat.chunks import content

__all__ = ["Leftovers", "cancel_streams"]

_AT_A_TIME = 16
_SETTLE_S = 15  # an idle connection of the pool closes after five
_SILENCE_S = 600.0
_ID = "x-client-request-id"  # passes to the upstream
_LARGE = content("x" * 100_000)
# What the upstream sends; the client leaves at any point of it.
_PHASES: tuple[list[Step], ...] = (
    [_SILENCE_S],
    [_SILENCE_S],
    [Head(), _SILENCE_S],
    [Head(), _SILENCE_S],
    [ANSWER[0], _SILENCE_S],
    [ANSWER[0], _SILENCE_S],
    [ANSWER[0], *[content("b"), 0.001] * 5000],
    [ANSWER[0], *[content("b"), 0.001] * 5000],
    [ANSWER[0], *[content("b"), 0.001] * 5000],
    [*ANSWER],
    [Head(503, {"content-type": "application/json", "retry-after": "60"}), b"{}"],
    [ANSWER[0], *[_LARGE] * 600, _SILENCE_S],  # of which the client reads little
)


class Leftovers(NamedTuple):
    """Resources left behind by cancelled streams.

    Attributes:
        answers: Answers of the upstream that are open.
        tasks: Tasks beyond those before.
        descriptors: File descriptors beyond those before, when all servers have stopped.
        next_request_s: Seconds that the next request took.
        release_s: Seconds from the leaving of a client to the release of its upstream, in order;
            without those in which the process waited for a processor.
        endings: How the requests ended in the gateway's records.
    """

    answers: int
    tasks: int
    descriptors: int
    next_request_s: float
    release_s: list[float]
    endings: Counter[str]

    def release_at(self, share: float) -> float:
        """Return the seconds within which a share of the upstreams was released."""
        return self.release_s[min(int(share * len(self.release_s)), len(self.release_s) - 1)]


class _Upstream(StepUpstream):
    """An upstream that records its release.

    Attributes:
        ended_at: When its answer to each request ended.
    """

    def __init__(self, *answers: Sequence[Step]) -> None:
        super().__init__(*answers)
        self.ended_at: dict[str, float] = {}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await super().__call__(scope, receive, send)
        names = [value.decode() for name, value in scope.get("headers", ()) if name == _ID.encode()]
        for name in names:
            self.ended_at[name] = _own_time()


async def cancel_streams(count: int, seed: int, server: ServerName, *, pause_s: float) -> Leftovers:
    """Cancel clients' streams at random points; return the leftovers.

    Args:
        count: Number of clients.
        seed: Of all that is random.
        server: Server of the gateway.
        pause_s: Longest pause before a client comes, so that the event loop keeps up.
    """
    dice = random.Random(seed)  # noqa: S311 - no secret
    upstream = _Upstream(*[ANSWER] * len(REQUESTS), *[dice.choice(_PHASES) for _ in range(count)])
    records, left_at = Records(), dict[str, float]()
    loop = asyncio.get_running_loop()
    turns = asyncio.Semaphore(_AT_A_TIME)
    gc.collect()
    descriptors = _descriptors()
    settings = {"server": server, "observers": (records,), "retries": 1, "keepalive_s": 0.01}
    async with (
        served_gateway(upstream, max_streams=4 * _AT_A_TIME, **settings) as gateway,
        httpx.AsyncClient() as http,
    ):
        for client in REQUESTS:  # of which the first is slow
            await _ask(http, gateway.url, client)
        tasks = len(asyncio.all_tasks())

        async def turn(number: int) -> None:
            async with turns:
                name = str(number)
                client = dice.choice([*REQUESTS])
                await asyncio.sleep(dice.uniform(0, pause_s))
                await _leave(gateway.url, client, name, dice)
                left_at[name] = _own_time()

        await asyncio.gather(*(turn(number) for number in range(count)))
        upstream.answer_all(ANSWER)
        start = loop.time()
        await _ask(http, gateway.url, "anthropic")
        next_request_s = loop.time() - start
        end = start + _SETTLE_S
        while upstream.open or len(asyncio.all_tasks()) > tasks:
            await asyncio.sleep(0.02)
            if loop.time() > end:
                break
        answers, tasks = upstream.open, len(asyncio.all_tasks()) - tasks
    while _descriptors() > descriptors and loop.time() < end:
        gc.collect()
        await asyncio.sleep(0.02)
    released = (
        ended_at - left_at[name]
        for name, ended_at in upstream.ended_at.items()
        if name in left_at and ended_at > left_at[name]
    )
    return Leftovers(
        answers,
        tasks,
        _descriptors() - descriptors,
        next_request_s,
        sorted(released),
        Counter(call.ending for call in records.ended),
    )


async def _ask(http: httpx.AsyncClient, url: str, client: str) -> None:
    async with opened(http, url, client) as response:
        if response.status_code != 200:
            raise RuntimeError(f"status {response.status_code}, expected 200")
        await response.aread()


async def _leave(url: str, client: str, name: str, dice: random.Random) -> None:
    """Send a request or most of it, read part of the answer, and disconnect."""
    path, body = REQUESTS[client]
    data = json.dumps({**body, "stream": dice.random() < 0.9}).encode()
    address = urlsplit(url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    try:
        head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        writer.write(f"{head}{_ID}: {name}\r\ncontent-length: {len(data)}\r\n\r\n".encode())
        missing = dice.choice((0,) * 15 + (1,))
        writer.write(data[: len(data) - missing])
        until = asyncio.timeout(dice.choice((0, 0.001, 0.005, 0.02, 0.05, 0.1)))
        size, most = 0, dice.choice((0, 1, 300, 1000, 5000, 100_000))
        try:
            async with until:
                while size <= most and (piece := await reader.read(4096)):
                    size += len(piece)
        except TimeoutError:
            pass
        except ConnectionError as exc:
            raise RuntimeError("the gateway hung up, expected the client to") from exc
    finally:
        # A reset, or the end of the connection; servers learn of them in different ways.
        if dice.random() < 0.5:
            writer.transport.abort()
        else:
            writer.close()


def _own_time() -> float:
    """Return a clock that excludes the time this process waited for a processor."""
    waited_ns = int(Path("/proc/self/schedstat").read_text().split()[1])
    return time.perf_counter() - waited_ns / 1e9


def _descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))
