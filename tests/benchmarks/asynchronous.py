"""Cost of the asynchronous layers above the core: `events` and `EventStreamResponse`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, MutableMapping
from typing import Any

from timing import Figure, Run, decode, fastest
from workloads import chat

import streamnorm

__all__ = ["report"]

_CHUNKS = 5000
_RESPONSE_BAR_US = 0.5

_Message = MutableMapping[str, Any]


class _Source:
    """A response body whose reads are always ready."""

    def __init__(self, chunks: list[bytes]) -> None:
        self._chunks = iter(chunks)

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        for chunk in self._chunks:
            return chunk
        raise StopAsyncIteration


def report(rounds: int) -> list[Figure]:
    """Print the costs; return the µs that a response adds to each chunk."""
    chunks = chat.frames(chat.text(_CHUNKS))
    runs: dict[str, Run] = {
        "iter_events": lambda: _iterate(chunks),
        "events": _on_loop(lambda: _events(chunks)),
        "feed, same source": _on_loop(lambda: _core(chunks)),
        "feed, list": decode(chunks, "openai_chat"),
        "response": _on_loop(lambda: _respond(chunks)),
        "bare response": _on_loop(lambda: _send_bare(chunks)),
    }
    # The cost of a chunk is a small difference of two large figures.
    best = fastest(runs, 2 * rounds)
    print()
    for other, name in (
        ("iter_events", "events(), to iter_events()"),
        ("feed, same source", "events(), to decoder.feed() on the same source"),
        ("feed, list", "events(), to decoder.feed() on a list"),
    ):
        print(f"{name:50}{best['events'] / best[other]:8.2f}")
    us = (best["response"] - best["bare response"]) / len(chunks) * 1e6
    figure = Figure("µs a chunk, EventStreamResponse", us, _RESPONSE_BAR_US)
    name = "EventStreamResponse, µs a chunk beside a bare loop"
    print(f"{name:50}{us:8.2f}{figure.mark} (bar {figure.bar})")
    return [figure]


def _on_loop(make: Callable[[], Coroutine[Any, Any, None]]) -> Run:
    loop = asyncio.new_event_loop()
    return lambda: loop.run_until_complete(make())


def _iterate(chunks: list[bytes]) -> None:
    for _ in streamnorm.iter_events(chunks, dialect="openai_chat"):
        pass


async def _events(chunks: list[bytes]) -> None:
    async for _ in streamnorm.events(_Source(chunks), dialect="openai_chat"):
        pass


async def _core(chunks: list[bytes]) -> None:
    decoder = streamnorm.codec.decoder("openai_chat")
    async for chunk in _Source(chunks):
        for _ in decoder.feed(chunk):
            pass


async def _respond(chunks: list[bytes]) -> None:
    """Serve an `EventStreamResponse` to a client that stays connected."""
    stays = asyncio.Event()

    async def receive() -> _Message:
        await stays.wait()
        return {"type": "http.disconnect"}

    response = streamnorm.asgi.EventStreamResponse(_transcoded(chunks))
    await response({"type": "http"}, receive, _send)


async def _send_bare(chunks: list[bytes]) -> None:
    """Send the same stream in a loop without an ASGI response."""
    async for chunk in _transcoded(chunks):
        await _send({"type": "http.response.body", "body": chunk, "more_body": True})


def _transcoded(chunks: list[bytes]) -> streamnorm.Stream[bytes]:
    return streamnorm.transcode(_Source(chunks), to="anthropic", dialect="openai_chat")


async def _send(message: _Message) -> None:
    """Accept an ASGI message without blocking."""
