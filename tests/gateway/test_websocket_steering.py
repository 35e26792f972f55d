"""Input that a client adds to a running response, in front of a provider with WebSockets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
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
    text_item,
)
from support.gateway.sockets import Socket, connected, create
from websockets.asyncio.server import ServerConnection

pytestmark = pytest.mark.anyio

Reply = Callable[[SocketUpstream, ServerConnection, dict[str, Any]], Awaitable[None]]

STEER = {"type": "response.steer", "input": "Stop."}
STOP = {"type": "message", "role": "user", "content": "Stop."}
LONG = text_item("Long", "msg_1")
RESULT = {"type": "function_call_output", "call_id": "c1", "output": "snow"}
KEY = "sk-upstream-secret-123456"


def accepted(id: str = "resp_1", steer: str = "steer_1", **fields: Any) -> dict[str, Any]:
    """Return the acknowledgement of a steer."""
    submission = {"id": steer, "previous_response_id": id}
    return event("response.steer.accepted", sequence_number=4, steer=submission, **fields)


def failed(code: str, id: str = "resp_1", steer: str | None = None) -> dict[str, Any]:
    """Return the failure of a steer."""
    submission = {"previous_response_id": id, "input": "Stop."}
    submission |= {} if steer is None else {"id": steer}
    error = {"type": "invalid_request_error", "code": code, "message": "No."}
    return event("response.steer.failed", sequence_number=5, steer=submission, error=error)


def pending(id: str = "resp_1", steer: str = "steer_1") -> dict[str, Any]:
    """Return the event of input that waits for a result."""
    submission = {"id": steer, "previous_response_id": id}
    stub = {"type": "function_call_output", "call_id": "c1", "name": "get_weather"}
    fields = {"reason": "waiting_for_required_input", "required_input": [stub]}
    return event("response.steer.pending", sequence_number=9, steer=submission, **fields)


def steered_end(id: str = "resp_1") -> dict[str, Any]:
    """Return the terminal of a response that is steered."""
    details = {"reason": "steered"}
    return response_events(id, [LONG], "incomplete", incomplete_details=details)[-1]


def answering(on_steer: Reply) -> Reply:
    """Return an answer that begins a response with each create, and ends it at a steer."""

    async def answer(
        upstream: SocketUpstream, socket: ServerConnection, sent: dict[str, Any]
    ) -> None:
        if sent["type"] == "response.steer":
            await on_steer(upstream, socket, sent)
            return
        creates = [each for each in upstream.creates if each["type"] == "response.create"]
        events = response_events(f"resp_{len(creates)}", [LONG])
        await upstream.send(socket, *(events[:4] if len(creates) == 1 else events))

    return answer


def following(id: str, text: str, previous: str) -> list[dict[str, Any]]:
    """Return the events of a successor."""
    return response_events(id, [text_item(text, f"msg_{id}")], previous_response_id=previous)


async def stop(upstream: SocketUpstream, socket: ServerConnection, sent: dict[str, Any]) -> None:
    """Accept a steer, end the response, and send its successor."""
    successor = following("resp_9", "Stopped.", "resp_1")
    await send(upstream, socket, accepted(), steered_end(), *successor)


async def send(
    upstream: SocketUpstream, socket: ServerConnection, *events: dict[str, Any], start: int = 4
) -> None:
    """Send the events that follow the first ones of a response, numbered in their order."""
    numbered: list[dict[str, Any]] = []
    for each in events:
        start = 0 if each["type"] == "response.created" else start
        numbered.append({**each, "sequence_number": start})
        start += 1
    await upstream.send(socket, *numbered)


async def until(socket: Socket, *kinds: str) -> list[dict[str, Any]]:
    """Return the events up to the first of a type."""
    events = [await socket.next()]
    while events[-1]["type"] not in kinds:
        events.append(await socket.next())
    return events


async def begin(socket: Socket, **fields: Any) -> str:
    """Send a create, and return the id of its response once it has a part of its text."""
    await socket.say(create(**fields))
    events = await until(socket, "response.output_text.delta")
    id: str = events[0]["response"]["id"]
    return id


def steers(upstream: SocketUpstream) -> list[dict[str, Any]]:
    return [each for each in upstream.creates if each["type"] == "response.steer"]


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


@pytest.mark.parametrize("options", [{}, {"normalize": True}], ids=["verbatim", "written anew"])
@pytest.mark.parametrize("has_number", [True, False])
@pytest.mark.parametrize("knows_steering", [True, False])
async def test_response_goes_on_behind_a_failed_steer(
    options: dict[str, Any], *, knows_steering: bool, has_number: bool
) -> None:
    goes_on = asyncio.Event()

    async def answer(upstream: SocketUpstream, socket: ServerConnection, sent: Any) -> None:
        error = {"type": "invalid_request_error", "code": None, "message": "unknown type"}
        unknown = event("error", status=400, error=error)
        refused = {**(failed("invalid_input") if knows_steering else unknown), "sequence_number": 4}
        if not has_number:
            del refused["sequence_number"]
        await upstream.send(socket, refused)
        await goes_on.wait()
        await send(upstream, socket, *response_events("resp_1", [LONG])[-2:], start=5)

    upstream = SocketUpstream(answering(answer))
    async with asked_over_websocket(upstream, options=options) as app, connected(app) as socket:
        await begin(socket)
        await socket.say({**STEER, "previous_response_id": "resp_1"})
        (found,) = await until(socket, "response.steer.failed", "response.failed")
        goes_on.set()
        last = await until(socket, "response.completed", "response.failed")
    code = "invalid_input" if knows_steering else "steering_not_supported"
    assert (found["type"], found["error"]["code"]) == ("response.steer.failed", code)
    # An answer that is written anew has a `response.in_progress` more.
    assert found.get("sequence_number") == (5 if options else 4 if has_number else None)
    assert last[-1]["type"] == "response.completed"


@pytest.mark.parametrize("has_ended", [False, True], ids=["running", "steered"])
async def test_failure_of_the_provider_reaches_the_client(*, has_ended: bool) -> None:
    async def answer(upstream: SocketUpstream, socket: ServerConnection, sent: Any) -> None:
        if has_ended:
            lost = failed("successor_creation_failed", steer="steer_1")
            await send(upstream, socket, accepted(), steered_end(), lost)
            return
        last = response_events("resp_1", [LONG])[-2:]
        await send(upstream, socket, failed("invalid_input"), *last)

    upstream = SocketUpstream(answering(answer))
    async with asked_over_websocket(upstream) as app, connected(app) as socket:
        await begin(socket, stream_id="a")
        await socket.say({**STEER, "previous_response_id": "resp_1"})
        found = (await until(socket, "response.steer.failed"))[-1]
        assert found["stream_id"] == "a"
        assert found["steer"]["input"] == "Stop."
        await socket.say(create("And?", stream_id="a"))  # the lane is free
        ends = ("response.completed",)
        last = await until(socket, *ends)
        if not has_ended:
            last = await until(socket, *ends)
    assert found["error"]["code"] == ("successor_creation_failed" if has_ended else "invalid_input")
    assert last[-1]["response"]["id"] == "resp_2"


async def test_upstream_key_is_masked_between_two_responses() -> None:
    has_ended = asyncio.Event()

    async def answer(upstream: SocketUpstream, socket: ServerConnection, sent: Any) -> None:
        await send(upstream, socket, accepted(note=f"key {KEY}"), steered_end())
        await has_ended.wait()
        again = accepted(note=f"key {KEY}")
        await upstream.send(socket, again, failed(f"no {KEY}", steer="steer_1"))

    upstream = SocketUpstream(answering(answer))
    async with (
        asked_over_websocket(upstream, options={"key": "env:UK"}, environ={"UK": KEY}) as app,
        connected(app) as socket,
    ):
        await begin(socket)
        await socket.say({**STEER, "previous_response_id": "resp_1"})
        first = await until(socket, "response.incomplete")
        has_ended.set()
        between = await until(socket, "response.steer.failed")
    assert upstream.handshakes[0]["authorization"] == f"Bearer {KEY}"
    assert [each["type"] for each in between] == [
        "response.steer.accepted",
        "response.steer.failed",
    ]
    assert first[0]["note"] == between[0]["note"] != f"key {KEY}"
    assert KEY not in json.dumps([*first, *between])


@pytest.mark.parametrize("is_silent", [False, True], ids=["closed", "silent"])
async def test_successor_that_does_not_come_returns_the_input(*, is_silent: bool) -> None:
    async def answer(upstream: SocketUpstream, socket: ServerConnection, sent: Any) -> None:
        await send(upstream, socket, accepted(), steered_end())
        if not is_silent:
            await socket.close(1011)

    upstream = SocketUpstream(answering(answer))
    async with (
        asked_over_websocket(upstream, first_byte_s=0.2 if is_silent else 9.0) as app,
        connected(app) as socket,
    ):
        await begin(socket)
        await socket.say({**STEER, "previous_response_id": "resp_1"})
        found = (await until(socket, "response.steer.failed"))[-1]
        await upstream.has_closed.wait()
        await socket.say(create("And?"))
        last = await until(socket, "response.completed")
    assert found["error"]["code"] == "successor_creation_failed"
    assert found["steer"] == {**failed("", steer="steer_1")["steer"]}
    assert last[-1]["response"]["id"] == "resp_2"


async def test_provider_that_knows_no_steering_goes_on() -> None:
    async def answer(upstream: SocketUpstream, socket: ServerConnection, sent: Any) -> None:
        error = {"type": "invalid_request_error", "code": None, "message": "unknown type"}
        last = response_events("resp_1", [LONG])[-2:]
        await send(upstream, socket, event("error", status=400, error=error), *last)

    upstream = SocketUpstream(answering(answer))
    async with asked_over_websocket(upstream) as app, connected(app) as socket:
        await begin(socket)
        await socket.say({**STEER, "previous_response_id": "resp_1"})
        events = await until(socket, "response.completed")
    assert events[0]["type"] == "response.steer.failed"
    assert events[0]["error"]["code"] == "steering_not_supported"
    assert events[0]["steer"] == {"previous_response_id": "resp_1", "input": "Stop."}


async def test_refused_successor_is_an_error_of_its_lane() -> None:
    async def answer(upstream: SocketUpstream, socket: ServerConnection, sent: Any) -> None:
        error = {"type": "rate_limit_error", "code": "rate_limit_exceeded", "message": "Slow."}
        refused = event("error", status=429, error=error)
        await send(upstream, socket, accepted(), steered_end(), refused)

    upstream = SocketUpstream(answering(answer))
    async with asked_over_websocket(upstream, retries=0) as app, connected(app) as socket:
        await begin(socket, stream_id="a")
        await socket.say({**STEER, "previous_response_id": "resp_1"})
        last = (await until(socket, "error"))[-1]
    assert (last["status"], last["error"]["message"], last["stream_id"]) == (429, "Slow.", "a")


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


async def test_steers_that_the_gateway_refuses_reach_no_provider() -> None:
    async def answer(upstream: SocketUpstream, socket: ServerConnection, sent: Any) -> None:
        """Say nothing to a steer."""

    upstream = SocketUpstream(answering(answer))
    async with asked_over_websocket(upstream) as app, connected(app) as socket:
        await begin(socket)
        cases: list[tuple[dict[str, Any], str]] = [
            ({"previous_response_id": "resp_none"}, "response_not_found"),
            ({}, "invalid_input"),
            ({"previous_response_id": "resp_1", "input": None}, "invalid_input"),
            ({"previous_response_id": "resp_1", "input": []}, "invalid_input"),
            ({"previous_response_id": "resp_1", "input": ["Stop."]}, "invalid_input"),
            ({"previous_response_id": 7}, "invalid_input"),
        ]
        for fields, code in cases:
            await socket.say({**STEER, **fields})
            found = await socket.next()
            assert (found["type"], found["error"]["code"]) == ("response.steer.failed", code)
        assert steers(upstream) == []
        for _ in range(17):
            await socket.say({**STEER, "previous_response_id": "resp_1"})
        found = await socket.next()
        assert found["error"]["code"] == "too_many_pending_steers"
        await upstream.sockets[0].close(1011)
        last = await until(socket, "response.failed")
        while len(last) < 16:
            last += await until(socket, "response.steer.failed")
        assert len(steers(upstream)) <= 16


async def test_steer_behind_the_end_is_refused() -> None:
    async def answer(upstream: SocketUpstream, socket: ServerConnection, sent: Any) -> None:
        await send(upstream, socket, *response_events("resp_1", [LONG]))

    upstream = SocketUpstream(answer)
    async with asked_over_websocket(upstream) as app, connected(app) as socket:
        await socket.ask(create())
        await socket.say({**STEER, "previous_response_id": "resp_1"})
        found = await socket.next()
    assert found["error"]["code"] == "response_already_completed"
    assert steers(upstream) == []


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


async def test_successor_that_is_refused_for_now_is_asked_for_again() -> None:
    async def answer(upstream: SocketUpstream, socket: ServerConnection, sent: Any) -> None:
        error = {"type": "server_error", "code": "server_overloaded", "message": "Later."}
        refused = event("error", status=503, error=error)
        await send(upstream, socket, accepted(), steered_end(), refused)

    upstream = SocketUpstream(answering(answer))
    async with asked_over_websocket(upstream, retries=1) as app, connected(app) as socket:
        await begin(socket)
        await socket.say({**STEER, "previous_response_id": "resp_1"})
        await until(socket, "response.incomplete")
        last = (await until(socket, "response.completed"))[-1]
    assert last["response"]["previous_response_id"] == "resp_1"
    # The provider still knows the response before, on the same connection.
    assert upstream.creates[-1]["previous_response_id"] == "resp_1"
    assert upstream.creates[-1]["input"] == [STOP]


async def test_flood_of_acknowledgements_between_two_responses_ends_the_connection() -> None:
    async def answer(upstream: SocketUpstream, socket: ServerConnection, sent: Any) -> None:
        large = accepted(text="x" * 2048)
        await send(upstream, socket, accepted(), steered_end(), large, large, large)
        await socket.wait_closed()

    upstream = SocketUpstream(answering(answer))
    async with asked_over_websocket(upstream) as app, connected(app) as socket:
        await begin(socket)
        await socket.say({**STEER, "previous_response_id": "resp_1"})
        found = await until(socket, "response.steer.failed")
        await upstream.has_closed.wait()
    assert found[-1]["error"]["code"] == "successor_creation_failed"
