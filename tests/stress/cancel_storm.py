"""Stress test: five thousand clients of a gateway disconnect in mid-answer.

    python tests/stress/cancel_storm.py [--streams 5000]

A provider, a gateway and its clients talk over loopback.  Clients leave at once, while they
wait, and in the middle of the stream.  At the end the provider has no open answer, the
gateway's pool no connection in use, and the process no task that it did not have before.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import random
import sys
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import httpx2
import uvicorn

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.streams.corpus import recordings

import streamnorm

_CLIENTS = 40  # at a time
_SETTLE_S = 10
_BODIES = [recording.body for recording in recordings("openai_chat") if len(recording.body) > 2000]


class Provider:
    """Upstream that sends the beginning of an answer, then waits for the disconnect.

    Attributes:
        open: Answers that have begun and not ended.
        asked: All requests.
    """

    def __init__(self) -> None:
        self.open = 0
        self.asked = 0

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        self.asked += 1
        self.open += 1
        body = _BODIES[self.asked % len(_BODIES)]
        try:
            headers = [(b"content-type", b"text/event-stream")]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            for frame in body.split(b"\n\n")[:-2]:
                chunk = frame + b"\n\n"
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
                await asyncio.sleep(0.001)
            while (await receive())["type"] != "http.disconnect":
                pass
        finally:
            self.open -= 1


@contextlib.asynccontextmanager
async def _served(app: Any) -> AsyncIterator[str]:
    config = uvicorn.Config(app, port=0, log_config=None, lifespan="off", ws="none")
    server = uvicorn.Server(config)
    task = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110 - uvicorn has no event for it
        await asyncio.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        await task


async def _leave(client: httpx2.AsyncClient, url: str, dice: random.Random) -> str:
    """Send a request, disconnect, and return how far the answer came."""
    chunks = dice.choice((0, 0, 1, 3, 8, 20))
    got = 0
    with anyio.move_on_after(dice.choice((0.001, 0.02, 0.1, 0.3, 5, 5))):
        async with client.stream("POST", url) as response:
            async for _ in response.aiter_raw():
                got += 1
                if got > chunks:
                    return "left in the stream"
    return "cancelled in the stream" if got else "cancelled before the first byte"


async def _storm(count: int, seed: int) -> list[str]:
    dice = random.Random(seed)  # noqa: S311 - no secret
    provider, ways = Provider(), Counter[str]()
    async with _served(provider) as upstream_url:
        limits = httpx2.Limits(max_connections=2 * _CLIENTS)
        async with httpx2.AsyncClient(limits=limits, timeout=30) as upstream:

            async def gateway(scope: Any, receive: Any, send: Any) -> None:
                asked = upstream.build_request("POST", f"{upstream_url}/v1/chat/completions")
                answer = await upstream.send(asked, stream=True)
                stream = streamnorm.transcode(answer, to="anthropic")
                await streamnorm.asgi.EventStreamResponse(stream)(scope, receive, send)

            async with _served(gateway) as url, httpx2.AsyncClient(timeout=30) as client:
                before = len(asyncio.all_tasks())
                turns = asyncio.Semaphore(_CLIENTS)

                async def turn() -> None:
                    async with turns:
                        ways[await _leave(client, url, dice)] += 1

                for start in range(0, count, 500):
                    batch = min(500, count - start)
                    await asyncio.gather(*(turn() for _ in range(batch)))
                    print(f"{start + batch:,} clients, {dict(ways)}", flush=True)
                with anyio.move_on_after(_SETTLE_S):
                    while provider.open or len(asyncio.all_tasks()) > before:  # noqa: ASYNC110
                        await asyncio.sleep(0.05)
                left = {
                    "answers of the provider are open": provider.open,
                    "tasks are left": len(asyncio.all_tasks()) - before,
                    "connections of the gateway are in use": sum(
                        not connection.is_idle()
                        for connection in upstream._transport._pool.connections
                    ),
                }
    print(f"{provider.asked:,} requests reached the provider")
    return [f"{number} {what}" for what, number in left.items() if number > 0]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    found = asyncio.run(_storm(options.streams, options.seed))
    print("\n".join(found) or "nothing is left")
    return bool(found)


if __name__ == "__main__":
    raise SystemExit(main())
