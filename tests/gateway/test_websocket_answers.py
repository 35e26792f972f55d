"""What the messages of an upstream stand for: the ends of responses, their items, other events."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from support.gateway.calls import body_of, called
from support.gateway.socket_upstream import (
    ANTHROPIC,
    MESSAGES,
    SocketUpstream,
    ask,
    asked_over_websocket,
    call_item,
    echo,
    event,
    response_events,
    said,
    text_item,
    text_of,
)
from websockets.asyncio.server import ServerConnection

pytestmark = pytest.mark.anyio


def terminal(kind: str, response: str) -> str:
    """Return a terminal with JSON of a response as a server spells it."""
    return f'{{"type":"response.{kind}","response":{response}}}'


ERROR = '"error":{"code":"server_error","message":"cut \\ud83d"}'
CUT = '"incomplete_details":{"reason":"max_output_tokens"}'


@pytest.mark.parametrize(
    ("last", "found"),
    [
        (terminal("failed", f'{{"id":"resp_1","status":"failed",{ERROR}}}'), 500),
        (terminal("failed", f'{{"id":"resp_1",{ERROR}}}'), 500),
        (terminal("failed", '{"id":"resp_1","status":"completed"}'), 502),
        (terminal("completed", '{"id":"resp_1","status":"cancelled"}'), 502),
        ('{"type":"response.failed"}', 502),
        (terminal("cancelled", '{"id":"resp_1"}'), 502),
        ('{"type":"response.completed","response":{"id":"resp_1","sta', 502),
        (terminal("completed", "7"), 502),
        (terminal("incomplete", f'{{"id":"resp_1",{CUT}}}'), "max_tokens"),
        (terminal("incomplete", f'{{"note":"\\ud83d","status":"incomplete",{CUT}}}'), "max_tokens"),
        (terminal("completed", '{"id":"resp_1","note":"\\ud83d"}'), "end_turn"),
    ],
    ids=[
        *("surrogate in an error", "failed without a status", "contradicting status"),
        *(
            "completed as cancelled",
            "nothing failed",
            "cancelled",
            "cut",
            "number",
            "incomplete without a status",
        ),
        *("surrogate in an incomplete", "surrogate in a complete one"),
    ],
)
async def test_end_of_an_answer_without_a_stream_is_that_of_its_terminal(
    last: str, found: int | str
) -> None:
    """A body has no type of an event: one without a status would be a complete answer."""

    async def answer(upstream: SocketUpstream, socket: ServerConnection, sent: Any) -> None:
        await upstream.send(socket, *response_events("resp_1", [text_item("Hello")])[:-1])
        await socket.send(last)

    async with asked_over_websocket(SocketUpstream(answer)) as app:
        request = {**MESSAGES, "stream": False, "messages": said("Hi.")}
        caller = await called(app, ANTHROPIC, request)
    body = body_of(caller)
    if isinstance(found, int):
        assert (caller.status, body["type"]) == (found, "error")
    else:
        assert (caller.status, body["stop_reason"]) == (200, found)
        assert body["content"] == [{"type": "text", "text": "Hello"}]


async def test_item_without_a_stream_is_never_left_out() -> None:
    items = [text_item("tool now \ud83d"), call_item("c1", '{"a":1}')]

    async def answer(upstream: SocketUpstream, socket: ServerConnection, sent: Any) -> None:
        *events, last = response_events("resp_1", items)
        await upstream.send(socket, *events)
        if len(upstream.creates) == 2:
            await socket.send('{"type":"response.output_item.done","item":')
        await upstream.send(socket, {**last, "response": {**last["response"], "output": []}})

    async with asked_over_websocket(SocketUpstream(answer)) as app:
        request = {**MESSAGES, "stream": False, "messages": said("Hi.")}
        body = body_of(await called(app, ANTHROPIC, request))
        text, call = body["content"]
        assert (text["text"], call["input"]) == ("tool now \ufffd", {"a": 1})
        assert (await called(app, ANTHROPIC, request)).status == 502


@pytest.mark.parametrize("kind", ["response.metadata", "response.keep_alive"])
async def test_event_of_the_connection_is_not_one_of_the_response(kind: str) -> None:
    """An error behind it is a response with a status; behind a response it asks for nothing."""
    error = {"type": "invalid_request_error", "code": "previous_response_not_found"}
    limit = {"type": "rate_limit_error", "code": "rate_limit_exceeded", "message": "Wait"}

    async def answer(upstream: SocketUpstream, socket: ServerConnection, sent: Any) -> None:
        await upstream.send(socket, event(kind, headers={}))
        if "previous_response_id" in sent:
            await upstream.send(socket, event("error", status=400, error=error))
        elif len(upstream.creates) == 4:
            headers = {"retry-after": "7"}
            await upstream.send(socket, event("error", status=429, error=limit, headers=headers))
        else:
            await echo(upstream, socket, sent)
            await upstream.send(socket, event(kind, headers={}))
            await asyncio.wait_for(await socket.ping(), 10)  # the gateway has read it

    upstream = SocketUpstream(answer)
    async with asked_over_websocket(upstream) as app:
        await ask(app, "Hi.")
        status, body = await ask(app, "Hi.", "It is 1.", "And?")
        assert (status, text_of(body)) == (200, "It is 3.")
        caller = await called(app, ANTHROPIC, {**MESSAGES, "messages": said("Hi.")})
        assert (caller.status, caller.headers.get("retry-after")) == (429, "7")
        assert len(upstream.sockets) == 1


async def test_halves_of_a_surrogate_pair_are_joined_wherever_the_type_stands() -> None:
    async def answer(upstream: SocketUpstream, socket: ServerConnection, sent: Any) -> None:
        *before, delta, done, last = response_events("resp_1", [text_item("a\U0001f600b")])
        halves = [{**delta, "delta": half} for half in ("a\ud83d", "\ude00b")]
        for number, each in enumerate([*before, *halves, done, last]):
            await socket.send(json.dumps({**each, "sequence_number": number}, sort_keys=True))

    async with asked_over_websocket(SocketUpstream(answer)) as app:
        status, body = await ask(app, "Hi.")
    assert (status, text_of(body)) == (200, "a\U0001f600b")
    assert b"message_stop" in body
