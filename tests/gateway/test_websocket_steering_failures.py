"""Input for a running response that the provider, or the gateway, refuses."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from support.gateway.socket_upstream import (
    SocketUpstream,
    asked_over_websocket,
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
    failed,
    send,
    steered_end,
    steers,
    until,
)
from websockets.asyncio.server import ServerConnection

pytestmark = pytest.mark.anyio

STOP = {"type": "message", "role": "user", "content": "Stop."}
KEY = "sk-upstream-secret-123456"


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


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"code": None, "message": "unknown type"}, "steering_not_supported"),
    ({"code": "invalid_request_error", "message": "No."}, "steering_not_supported"),
    ({"code": [400], "message": None}, "steering_not_supported"),
    ({"code": "invalid_value", "message": "No.", "param": "type"}, "steering_not_supported"),
    (
        {"code": "unknown_event", "message": "Unknown event: response.steer"},
        "steering_not_supported",
    ),
    ({"code": "response_not_active", "message": "It ends."}, "response_not_active"),
]
OF_RESPONSE: list[dict[str, Any]] = [
    {"code": "context_length_exceeded", "message": "Too long."},
    {"code": "websocket_connection_limit_reached", "message": "Sixty minutes."},
    {"code": "invalid_prompt", "message": "No."},
    {"code": None, "message": "No such tool.", "param": "tools[0].name"},
]


@pytest.mark.parametrize(("error", "code"), REFUSED)
async def test_error_of_a_steer_is_its_failure(error: dict[str, Any], code: str) -> None:
    async def answer(upstream: SocketUpstream, socket: ServerConnection, sent: Any) -> None:
        refused = event("error", status=400, error={"type": "invalid_request_error", **error})
        await send(upstream, socket, refused, *response_events("resp_1", [LONG])[-2:])

    upstream = SocketUpstream(answering(answer))
    async with asked_over_websocket(upstream) as app, connected(app) as socket:
        await begin(socket)
        await socket.say({**STEER, "previous_response_id": "resp_1"})
        found, *_, last = await until(socket, "response.completed", "response.failed", "error")
    assert (found["type"], found["error"]["code"]) == ("response.steer.failed", code)
    assert found["steer"] == {"previous_response_id": "resp_1", "input": "Stop."}
    assert last["type"] == "response.completed"


@pytest.mark.parametrize("error", OF_RESPONSE, ids=lambda error: error["code"] or "a field")
async def test_error_of_the_response_is_not_a_steers(error: dict[str, Any]) -> None:
    async def answer(upstream: SocketUpstream, socket: ServerConnection, sent: Any) -> None:
        refused = event("error", status=400, error={"type": "invalid_request_error", **error})
        await send(upstream, socket, refused)

    upstream = SocketUpstream(answering(answer))
    async with asked_over_websocket(upstream, retries=0) as app, connected(app) as socket:
        await begin(socket)
        await socket.say({**STEER, "previous_response_id": "resp_1"})
        events = [await socket.next(), await socket.next()]
    ends = [each for each in events if each["type"] in ("response.failed", "error")]
    (returned,) = [each for each in events if each not in ends]
    assert ends[0].get("response", ends[0])["error"]["message"] == error["message"]
    # Nobody answers the input, which the client gets back.
    assert returned["error"]["code"] == "successor_creation_failed"
