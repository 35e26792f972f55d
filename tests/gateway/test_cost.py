"""The cost of an event to the gateway, in calls of functions, without a clock."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Self

from support.gateway.passing import cut, passing, receive
from support.openai_chat.chunks import DONE, content
from support.operation_counts import operations

from streamnorm import Transcoder
from streamnorm.asgi.responses import Message, open_exchange
from streamnorm.gateway.messages import ClientStream


class Chunks:
    """So many chunks, which are there at once."""

    def __init__(self, count: int) -> None:
        self._left = count

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        if not self._left:
            raise StopAsyncIteration
        self._left -= 1
        return b"data: {}\n\n"


async def send(message: Message) -> None:
    """Accept a message, as a server does whose buffers have room."""


async def send_directly(chunks: Chunks) -> None:
    async for chunk in chunks:
        await send({"type": "http.response.body", "body": chunk, "more_body": True})


async def send_to_client(chunks: Chunks) -> None:
    async with open_exchange(receive, send) as exchange:
        stream = ClientStream(exchange, lambda: b": ping\n\n", 15.0, lambda _: True)
        with stream.watch(15.0, 120.0):
            await stream.start({})
            await stream.send_all(chunks)


def calls_per_chunk(send_all: Callable[[Chunks], Awaitable[None]]) -> float:
    """Return how many functions are called per chunk, Python's and C's."""

    def calls(count: int) -> int:
        async def main() -> None:
            await send_all(Chunks(count))

        # Not the loop of a policy, which some versions of uvicorn set: uvloop's clock is no call.
        with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
            return operations(lambda: runner.run(main()))

    calls(1)  # imports and caches of first use
    return (calls(600) - calls(100)) / 500


def test_chunk_with_keep_alive_costs_four_calls_more_than_a_bare_send() -> None:
    """The exchange's, two of the clock, and one for its size.

    A lock or a timer for each chunk takes more.
    """
    more = calls_per_chunk(send_to_client) - calls_per_chunk(send_directly)
    assert round(more) == 4


def calls_per_event(pass_events: Callable[[list[bytes]], Coroutine[None, None, None]]) -> float:
    """Return how many functions are called per event of a text, Python's and C's."""

    def calls(count: int) -> int:
        with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
            return operations(lambda: runner.run(pass_events([content("a")] * count)))

    calls(1)
    return (calls(600) - calls(100)) / 500


async def transcode_directly(events: list[bytes]) -> None:
    pump = Transcoder("openai_chat", "openai_chat")
    for event in events:
        pump.feed(event)


async def pass_on(events: list[bytes]) -> None:
    async with passing() as p:
        sending = await p.begin()
        for chunk in [cut(events[0])] * len(events):
            p.body.feed(chunk)
        p.body.feed(cut(DONE))
        await sending


def test_event_that_is_passed_on_wakes_no_task() -> None:
    """It calls 35 functions more than its transcoding does, and 49 more where it wakes one."""
    more = calls_per_event(pass_on) - calls_per_event(transcode_directly)
    assert more < 40
