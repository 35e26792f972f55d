"""Input that a client adds to a running response, in front of a provider with WebSockets."""

from __future__ import annotations

import json
from typing import Any

import pytest
from openai import AsyncOpenAI
from support.gateway.servers import served
from support.gateway.socket_upstream import (
    SocketUpstream,
    asked_over_websocket,
    call_item,
    event,
    response_events,
)
from support.gateway.sockets import connected, create
from support.gateway.steering import (
    LONG,
    STEER,
    accepted,
    answering,
    begin,
    following,
    pending,
    send,
    steered_end,
    steers,
    stop,
    until,
)
from websockets.asyncio.server import ServerConnection

pytestmark = pytest.mark.anyio

STOP = {"type": "message", "role": "user", "content": "Stop."}
RESULT = {"type": "function_call_output", "call_id": "c1", "output": "snow"}


@pytest.mark.parametrize("stream_id", [None, "a"])
@pytest.mark.parametrize("options", [{}, {"normalize": True}], ids=["verbatim", "written anew"])
async def test_successor_answers_the_input_in_the_lane_of_its_response(
    stream_id: str | None, options: dict[str, Any]
) -> None:
    upstream = SocketUpstream(answering(stop))
    lane = {} if stream_id is None else {"stream_id": stream_id}
    async with asked_over_websocket(upstream, options=options) as app, connected(app) as socket:
        assert await begin(socket, **lane) == "resp_1"
        await socket.say({**STEER, "previous_response_id": "resp_1"})
        first = await until(socket, "response.incomplete")
        second = await until(socket, "response.completed")
        await socket.say(create("And?", previous_response_id="resp_9", **lane))
        await until(socket, "response.completed")
    assert upstream.creates[1] == {**STEER, "previous_response_id": "resp_1"}
    assert first[0]["type"] == "response.steer.accepted"
    assert first[0]["steer"] == {"id": "steer_1", "previous_response_id": "resp_1"}
    assert first[-1]["response"]["incomplete_details"] == {"reason": "steered"}
    assert second[0]["type"] == "response.created"
    assert second[0]["response"]["id"] == "resp_9"
    assert second[0]["response"]["previous_response_id"] == "resp_1"
    assert second[-1]["response"]["output"][0]["content"][0]["text"] == "Stopped."
    assert {each.get("stream_id") for each in (*first, *second)} == {stream_id}
    assert len(upstream.sockets) == 1
    # What was added is a part of the history.
    said = [item["content"] for item in upstream.creates[2]["input"]]
    texts = [item if isinstance(item, str) else item[0]["text"] for item in said]
    assert texts == ["Hi.", "Long", "Stop.", "Stopped.", "And?"]


async def test_client_and_provider_know_a_stored_response_by_other_ids() -> None:
    upstream = SocketUpstream(answering(stop))
    async with asked_over_websocket(upstream, state="memory:") as app, connected(app) as socket:
        id = await begin(socket, store=True)
        assert id != "resp_1"
        await socket.say({**STEER, "previous_response_id": id})
        first = await until(socket, "response.incomplete")
        second = await until(socket, "response.completed")
    assert steers(upstream)[0]["previous_response_id"] == "resp_1"
    assert first[0]["steer"] == {"id": "steer_1", "previous_response_id": id}
    assert first[-1]["response"]["id"] == id
    assert second[0]["response"]["previous_response_id"] == id
    assert second[0]["response"]["id"] not in (id, "resp_9")


async def test_response_that_ends_normally_may_have_a_successor() -> None:
    async def answer(upstream: SocketUpstream, socket: ServerConnection, sent: Any) -> None:
        last = response_events("resp_1", [LONG])[-2:]
        successor = following("resp_9", "Stopped.", "resp_1")
        await send(upstream, socket, accepted(), *last, *successor)

    upstream = SocketUpstream(answering(answer))
    async with asked_over_websocket(upstream) as app, connected(app) as socket:
        await begin(socket)
        await socket.say({**STEER, "previous_response_id": "resp_1"})
        await until(socket, "response.completed")
        last = (await until(socket, "response.completed"))[-1]
    assert last["response"]["id"] == "resp_9"


async def test_successor_is_steered_in_turn() -> None:
    async def answer(upstream: SocketUpstream, socket: ServerConnection, sent: Any) -> None:
        if sent["previous_response_id"] == "resp_1":
            successor = following("resp_2", "Long", "resp_1")
            await send(upstream, socket, accepted(), steered_end(), *successor[:4])
            return
        again = accepted("resp_2", "steer_2")
        successor = following("resp_3", "Stopped.", "resp_2")
        await send(upstream, socket, again, steered_end("resp_2"), *successor)

    upstream = SocketUpstream(answering(answer))
    async with asked_over_websocket(upstream) as app, connected(app) as socket:
        await begin(socket)
        await socket.say({**STEER, "previous_response_id": "resp_1"})
        await until(socket, "response.incomplete")
        await until(socket, "response.output_text.delta")
        await socket.say({**STEER, "previous_response_id": "resp_2"})
        await until(socket, "response.incomplete")
        events = await until(socket, "response.completed")
        await socket.say(create("And?", previous_response_id="resp_3"))
        await until(socket, "response.completed")
    assert events[0]["response"]["previous_response_id"] == "resp_2"
    assert [each for each in upstream.creates[-1]["input"] if each.get("content") == "Stop."] == [
        STOP,
        STOP,
    ]


async def test_input_that_waits_for_a_result_is_sent_with_it() -> None:
    """The provider holds it for the create on its own connection, which another one replaces."""

    async def answer(upstream: SocketUpstream, socket: ServerConnection, sent: Any) -> None:
        last = response_events("resp_1", [LONG, call_item("c1", "{}")])[4:]
        await send(upstream, socket, accepted(), *last, pending())

    upstream = SocketUpstream(answering(answer))
    async with asked_over_websocket(upstream) as app, connected(app) as socket:
        await begin(socket, stream_id="a")
        await socket.say({**STEER, "previous_response_id": "resp_1"})
        waiting = (await until(socket, "response.steer.pending"))[-1]
        asked = create([RESULT], previous_response_id="resp_1", stream_id="a")  # type: ignore[arg-type]
        await socket.say(asked)
        await until(socket, "response.completed")
    assert waiting["stream_id"] == "a"
    assert waiting["required_input"][0]["call_id"] == "c1"
    sent = upstream.creates[-1]
    assert "previous_response_id" not in sent
    assert [each.get("type") for each in sent["input"]][-3:] == [
        "function_call",
        "message",
        "function_call_output",
    ]
    assert sent["input"][-2] == STOP
    assert len(upstream.sockets) == 2


@pytest.mark.parametrize("has_begun", [False, True])
async def test_input_that_waits_is_sent_until_it_is_answered(*, has_begun: bool) -> None:
    async def answer(upstream: SocketUpstream, socket: ServerConnection, sent: Any) -> None:
        if sent["type"] == "response.steer":
            last = response_events("resp_1", [LONG, call_item("c1", "{}")])[4:]
            await send(upstream, socket, accepted(), *last, pending())
            return
        events = response_events(f"resp_{len(upstream.creates)}", [LONG])
        results = [each for each in upstream.creates if RESULT in [*each["input"]]]
        if not results:
            await upstream.send(socket, *events[:4])
        elif len(results) == 1:
            error = {"type": "rate_limit_error", "code": "rate_limit_exceeded", "message": "Slow."}
            end = response_events("resp_3", [], "failed", error=error)[-1]
            refused = event("error", status=429, error=error)
            await upstream.send(socket, *([events[0], end] if has_begun else [refused]))
        else:
            await upstream.send(socket, *events)

    upstream = SocketUpstream(answer)
    async with asked_over_websocket(upstream, retries=0) as app, connected(app) as socket:
        await begin(socket)
        await socket.say({**STEER, "previous_response_id": "resp_1"})
        await until(socket, "response.steer.pending")
        ends: list[str] = []
        for _ in range(3):
            await socket.say(create([RESULT], previous_response_id="resp_1"))  # type: ignore[arg-type]
            last = await until(socket, "response.completed", "response.failed", "error")
            ends.append(last[-1]["type"])
    assert ends == ["response.failed" if has_begun else "error", *["response.completed"] * 2]
    inputs = [each["input"] for each in upstream.creates if RESULT in [*each["input"]]]
    assert [[item for item in each if item == STOP] for each in inputs] == [[STOP], [STOP], []]


async def test_two_steers_are_two_messages_in_their_order() -> None:
    async def answer(upstream: SocketUpstream, socket: ServerConnection, sent: Any) -> None:
        number = len(steers(upstream))
        await send(upstream, socket, accepted(steer=f"steer_{number}"), start=3 + number)
        if number == 2:
            successor = following("resp_9", "Stopped.", "resp_1")
            await send(upstream, socket, steered_end(), *successor, start=6)

    upstream = SocketUpstream(answering(answer))
    async with asked_over_websocket(upstream) as app, connected(app) as socket:
        await begin(socket)
        for text in ("One.", "Two."):
            await socket.say({**STEER, "previous_response_id": "resp_1", "input": text})
        await until(socket, "response.incomplete")
        await until(socket, "response.completed")
        await socket.say(create("And?", previous_response_id="resp_9"))
        await until(socket, "response.completed")
    assert [each["input"] for each in steers(upstream)] == ["One.", "Two."]
    said = [item["content"] for item in upstream.creates[-1]["input"] if item["role"] == "user"]
    assert said == ["Hi.", "One.", "Two.", "And?"]


async def test_steer_goes_to_the_response_that_it_names() -> None:
    async def answer(upstream: SocketUpstream, socket: ServerConnection, sent: Any) -> None:
        if sent["type"] == "response.create":
            number = len(upstream.sockets)
            await send(upstream, socket, *response_events(f"resp_{number}", [LONG])[:4])
            return
        successor = following("resp_9", "Stopped.", sent["previous_response_id"])
        ended = steered_end(sent["previous_response_id"])
        await send(upstream, socket, accepted(sent["previous_response_id"]), ended, *successor)

    upstream = SocketUpstream(answer)
    async with asked_over_websocket(upstream) as app, connected(app) as socket:
        await begin(socket, stream_id="a")
        await begin(socket, stream_id="b")
        await socket.say({**STEER, "previous_response_id": "resp_2"})
        events = await until(socket, "response.completed")
    assert {each["stream_id"] for each in events} == {"b"}
    assert [each["previous_response_id"] for each in steers(upstream)] == ["resp_2"]


async def test_sdk_steers_a_response() -> None:
    upstream = SocketUpstream(answering(stop))
    async with (
        asked_over_websocket(upstream) as app,
        served(app, has_websockets=True) as url,
        AsyncOpenAI(api_key="k", base_url=f"{url}/v1", max_retries=0) as client,
        client.responses.connect() as connection,
    ):
        await connection.response.create(model="m", input="Hi.", store=False)
        seen: list[str] = []
        async for each in connection:
            seen.append(each.type)
            if each.type == "response.output_text.delta" and "response.incomplete" not in seen:
                await connection.response.steer(input="Stop.", previous_response_id="resp_1")
            if each.type == "response.completed":
                break
    assert seen.index("response.steer.accepted") < seen.index("response.incomplete")
    assert seen.count("response.created") == 2
    assert json.loads(each.to_json())["response"]["id"] == "resp_9"
