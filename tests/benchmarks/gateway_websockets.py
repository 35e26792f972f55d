"""Cost of an event as a WebSocket message, compared to a chunk over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from timing import Figure, Run, fastest
from workloads import chat

from streamnorm import Transcoder
from streamnorm.gateway.websocket_messages import MessageWriter

__all__ = ["report"]

_DELTAS = 2000
_BAR_US = 2.0  # an event, one a read, without compression
_TO = "openai_responses"

_SSE = [(b"content-type", b"text/event-stream")]


def report(rounds: int) -> list[Figure]:
    """Print and return the added cost of an event as a message."""
    transcoder = Transcoder("openai_chat", _TO)
    reads = [b"".join(transcoder.feed(chunk)) for chunk in chat.frames(chat.text(_DELTAS))]
    chunks = [chunk for chunk in reads if chunk]

    async def ignore(message: Any) -> None:
        """Accept a message like a server, without framing it."""

    async def send(text: str) -> None:
        await ignore({"type": "websocket.send", "text": text})

    runs: dict[str, Run] = {
        "http": _run(lambda: ignore, chunks),
        "message": _run(lambda: MessageWriter(send, None), chunks),
        "message of a lane": _run(lambda: MessageWriter(send, "lane"), chunks),
    }
    best = fastest(runs, rounds)
    print("\nan event over a WebSocket, more than over HTTP, in µs")
    figures: list[Figure] = []
    for name in ("message", "message of a lane"):
        added = (best[name] - best["http"]) / len(chunks) * 1e6
        figures.append(Figure(f"websocket, {name}", added, _BAR_US))
        print(f"{name:20}{added:8.2f}{figures[-1].mark}")
    return figures


def _run(make: Callable[[], Callable[[Any], Awaitable[None]]], chunks: list[bytes]) -> Run:
    async def send_all() -> None:
        send = make()
        await send({"type": "http.response.start", "status": 200, "headers": _SSE})
        for chunk in chunks:
            await send({"type": "http.response.body", "body": chunk, "more_body": True})

    return lambda: asyncio.run(send_all())
