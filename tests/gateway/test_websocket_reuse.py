"""Which connection to an upstream over WebSockets a create takes, and how many there are."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from support.gateway.calls import called
from support.gateway.socket_upstream import (
    ANTHROPIC,
    MESSAGES,
    SocketUpstream,
    ask,
    asked_over_websocket,
    echo,
    said,
    text_of,
)
from websockets.asyncio.server import ServerConnection

from streamnorm.gateway import websocket_upstreams

pytestmark = pytest.mark.anyio


async def test_conversations_and_keys_have_their_own_connections() -> None:
    upstream = SocketUpstream(echo)
    options = {"key": "client", "insecure": True}
    async with asked_over_websocket(upstream, options=options) as app:
        further = ("One.", "It is 1.", "And?")
        for key, turns in (("a", ["One."]), ("b", ["One."]), ("a", ["Two."]), ("a", further)):
            request = {**MESSAGES, "messages": said(*turns)}
            headers = [("content-type", "application/json"), ("x-api-key", f"sk-{key}")]
            caller = await called(app, ANTHROPIC, request, headers=[("host", "here"), *headers])
            assert caller.status == 200
    keys = [each["authorization"] for each in upstream.handshakes]
    assert keys == ["Bearer sk-a", "Bearer sk-b", "Bearer sk-a"]
    assert [len(upstream.sockets), len(upstream.creates)] == [3, 4]


async def test_conversations_with_one_beginning_have_their_own_connections() -> None:
    """As those of a page that offers questions: each is sent what is new of it alone."""
    upstream = SocketUpstream(echo)
    chats = [["Hi."], ["Hi."], ["Hi."]]
    async with asked_over_websocket(upstream) as app:
        for turn in range(3):
            for number, chat in enumerate(chats):
                _, body = await ask(app, *chat)
                assert text_of(body) == f"It is {3 * turn + number + 1}."
                chat += [text_of(body), f"And {number}?"]
    assert len(upstream.sockets) == 3
    previous = [sent.get("previous_response_id") for sent in upstream.creates]
    assert previous == [None] * 3 + [f"resp_{number}" for number in range(1, 7)]
    assert [sent["input"][-1]["content"] for sent in upstream.creates[3:6]] == [
        *("And 0?", "And 1?", "And 2?")
    ]
    assert [len(sent["input"]) for sent in upstream.creates] == [1] * 9


async def test_connections_of_conversations_with_one_beginning_are_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(websocket_upstreams, "_MAX_ALIKE", 2)
    upstream = SocketUpstream(echo)
    async with asked_over_websocket(upstream) as app:
        for _ in range(3):
            await ask(app, "Hi.")
        assert len(upstream.sockets) == 2
        # The one that was not used for the longest time has been taken.
        await ask(app, "Hi.", "It is 2.", "And?")
        await ask(app, "Hi.", "It is 3.", "And?")
    assert len(upstream.sockets) == 2
    previous = [sent.get("previous_response_id") for sent in upstream.creates]
    assert previous == [None, None, None, "resp_2", "resp_3"]


async def test_client_that_does_not_return_all_that_it_got_has_one_connection() -> None:
    upstream = SocketUpstream(echo)
    turns = ["Hi."]
    async with asked_over_websocket(upstream) as app:
        for _ in range(4):
            assert (await ask(app, *turns))[0] == 200
            turns += ["What I keep of it.", "And?"]
    assert len(upstream.sockets) == 1
    assert not any("previous_response_id" in sent for sent in upstream.creates)


async def test_two_answers_of_a_conversation_at_a_time_have_two_connections() -> None:
    both = asyncio.Event()

    async def answer(upstream: SocketUpstream, socket: ServerConnection, sent: Any) -> None:
        if len(upstream.creates) == 2:
            both.set()
        await both.wait()
        await echo(upstream, socket, sent)

    upstream = SocketUpstream(answer)
    async with asked_over_websocket(upstream) as app:
        answers = await asyncio.gather(ask(app, "Hi."), ask(app, "Hi."))
        assert [status for status, _ in answers] == [200, 200]
        assert len(upstream.sockets) == 2
        # The next create goes where its beginning is.
        await ask(app, "Hi.", text_of(answers[0][1]), "And?")
    assert len(upstream.sockets) == 2


async def test_idle_connections_are_bounded_and_live_for_their_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(websocket_upstreams, "_MAX_IDLE", 2)
    upstream = SocketUpstream(echo)
    async with asked_over_websocket(upstream) as app:
        for text in ("One.", "Two.", "Three."):
            await ask(app, text)
        await upstream.has_closed.wait()
        assert upstream.closed == [1000]
        await ask(app, "One.")
        assert len(upstream.sockets) == 4
        monkeypatch.setattr(websocket_upstreams, "MAX_LIFE_S", 0.0)
        upstream.has_closed.clear()
        await ask(app, "Four.")
        await upstream.has_closed.wait()
