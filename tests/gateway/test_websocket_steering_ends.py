"""Input for a running response whose client leaves, or whose gateway stops."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from support.gateway.socket_upstream import SocketUpstream, asked_over_websocket
from support.gateway.sockets import connected
from support.gateway.steering import (
    STEER,
    accepted,
    answering,
    begin,
    following,
    send,
    steered_end,
    until,
)
from websockets.asyncio.server import ServerConnection

pytestmark = pytest.mark.anyio


async def test_client_that_leaves_before_the_successor_closes_the_connection() -> None:
    async def answer(upstream: SocketUpstream, socket: ServerConnection, sent: Any) -> None:
        await send(upstream, socket, accepted(), steered_end())

    upstream = SocketUpstream(answering(answer))
    async with asked_over_websocket(upstream) as app:
        async with connected(app) as socket:
            await begin(socket)
            await socket.say({**STEER, "previous_response_id": "resp_1"})
            await until(socket, "response.incomplete")
        async with asyncio.timeout(5):
            await upstream.has_closed.wait()


async def test_gateway_that_stops_does_not_wait_for_a_successor() -> None:
    async def answer(upstream: SocketUpstream, socket: ServerConnection, sent: Any) -> None:
        await send(upstream, socket, accepted(), steered_end())

    upstream = SocketUpstream(answering(answer))
    async with asked_over_websocket(upstream) as app, connected(app) as socket:
        await begin(socket)
        await socket.say({**STEER, "previous_response_id": "resp_1"})
        await until(socket, "response.incomplete")
        app.begin_drain(0.01)
        found = await socket.next()
        assert found["error"]["code"] == "successor_creation_failed"
        assert (await socket.next_text(), socket.closed) == (None, 1001)


async def test_successor_begins_in_the_grace_of_a_stop() -> None:
    is_draining = asyncio.Event()

    async def answer(upstream: SocketUpstream, socket: ServerConnection, sent: Any) -> None:
        await send(upstream, socket, accepted(), steered_end())
        await is_draining.wait()
        await send(upstream, socket, *following("resp_9", "Stopped.", "resp_1"))

    upstream = SocketUpstream(answering(answer))
    async with asked_over_websocket(upstream) as app, connected(app) as socket:
        await begin(socket)
        await socket.say({**STEER, "previous_response_id": "resp_1"})
        await until(socket, "response.incomplete")
        app.begin_drain(10)
        is_draining.set()
        last = (await until(socket, "response.completed", "error"))[-1]
        assert (await socket.next_text(), socket.closed) == (None, 1001)
    assert (last["type"], last["response"]["id"]) == ("response.completed", "resp_9")


async def test_gateway_that_stops_returns_the_input_before_it_ends() -> None:
    async def answer(upstream: SocketUpstream, socket: ServerConnection, sent: Any) -> None:
        await send(upstream, socket, accepted(), steered_end())

    upstream = SocketUpstream(answering(answer))
    async with asked_over_websocket(upstream) as app, connected(app) as socket:
        await begin(socket)
        await socket.say({**STEER, "previous_response_id": "resp_1"})
        await until(socket, "response.incomplete")
        socket.can_send.clear()  # the client reads slowly
        app.begin_drain(0.01)
        ended = asyncio.create_task(app._draining.wait())
        while not socket.is_held:  # noqa: ASYNC110 - a server has no event for it
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        has_ended_first = ended.done()
        socket.can_send.set()
        found = await socket.next()
        await ended
    assert not has_ended_first
    assert found["error"]["code"] == "successor_creation_failed"
