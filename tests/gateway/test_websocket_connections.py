"""WebSockets of the Responses API: their handshakes, and how they end."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from unittest.mock import ANY

import pytest
from support.gateway.calls import CANARY, opened, shape_of
from support.gateway.servers import SERVERS, ServerName, served, served_gateway
from support.gateway.sockets import connected, create
from support.gateway.upstreams import ABORT, ANSWER, Head, Records, StepUpstream
from support.openai_chat.chunks import content
from websockets.asyncio.client import connect

from streamnorm import Abandoned, Completed, Usage
from streamnorm.gateway import LogConfig, UpstreamConfig, websocket
from streamnorm.testing import FakeProvider

pytestmark = pytest.mark.anyio

HOST = ("host", "here")
KEYED = {"client_keys": "env:KEYS", "environ": {"KEYS": "right"}}
LIMIT = "websocket_connection_limit_reached"


@pytest.mark.parametrize("path", ["/v1/responses", "/responses", "//v1/responses"])
async def test_handshake_is_accepted_at_the_path_of_requests(path: str) -> None:
    async with opened() as app, connected(app, path) as socket:
        assert socket.accepted == {"type": "websocket.accept", "subprotocol": None}


@pytest.mark.parametrize(
    "path", ["/v1/chat/completions", "/v1/messages", "/v1/responses/resp_1", "/v1/models", "/x"]
)
async def test_handshake_elsewhere_is_refused_with_426(path: str) -> None:
    async with opened() as app, connected(app, path) as socket:
        assert socket.denied is not None
        status, headers, _ = socket.denied
    assert (status, headers["upgrade"]) == (426, "HTTP/1.1")


@pytest.mark.parametrize(
    ("settings", "headers", "scope", "status", "code"),
    [
        (KEYED, [], {}, 401, "invalid_api_key"),
        (KEYED, [("authorization", f"Bearer {CANARY}")], {}, 401, "invalid_api_key"),
        (KEYED, [("api-key", "wrong")], {}, 401, "invalid_api_key"),
        ({}, [("origin", "https://evil.example")], {}, 403, ANY),
        ({"hosts": ["good"]}, [("host", "evil")], {}, 403, ANY),
        ({}, [], {"server": ("192.0.2.1", 80)}, 403, ANY),
        ({}, [("x-large", "x" * 70_000)], {}, 431, ANY),
    ],
)
async def test_handshake_is_let_in_by_the_rules_of_requests(
    settings: dict[str, Any],
    headers: list[tuple[str, str]],
    scope: dict[str, Any],
    status: int,
    code: str | None,
) -> None:
    hosts = [] if any(name == "host" for name, _ in headers) else [("host", "localhost")]
    async with (
        opened(**settings) as app,
        connected(app, headers=[*hosts, *headers], **scope) as socket,
    ):
        assert socket.denied is not None
        found, _, body = socket.denied
    assert (found, shape_of(body), body["error"]["code"]) == (status, "openai", code)
    assert CANARY not in json.dumps(body)


@pytest.mark.parametrize(
    "headers",
    [[("authorization", "Bearer right")], [("api-key", "right")]],
    ids=["bearer", "azure"],
)
async def test_handshake_has_the_key(headers: list[tuple[str, str]]) -> None:
    async with opened(**KEYED) as app, connected(app, headers=headers) as socket:
        assert socket.accepted is not None


async def test_second_handshake_has_a_key_of_its_own() -> None:
    """Each connection asks with the key of its client."""
    upstream = StepUpstream()
    async with served(upstream) as url:
        config = UpstreamConfig(dialect="openai_chat", base_url=url, key="client", insecure=True)
        async with (
            opened({"local": config}) as app,
            connected(app, headers=[HOST, ("authorization", "Bearer sk-a")]) as first,
            connected(app, headers=[HOST, ("authorization", "Bearer sk-b")]) as second,
        ):
            for socket in (first, second, first):
                assert (await socket.ask(create()))[-1]["type"] == "response.completed"
    keys = [each["authorization"] for each in upstream.headers]
    assert keys == ["Bearer sk-a", "Bearer sk-b", "Bearer sk-a"]


async def test_page_of_the_gateways_own_origin_is_let_in() -> None:
    headers = [("host", "localhost:8000"), ("origin", "http://localhost:8000")]
    async with opened() as app, connected(app, headers=headers) as socket:
        assert socket.accepted is not None


async def test_server_that_can_send_no_response_closes_a_refused_handshake() -> None:
    async with opened(**KEYED) as app, connected(app, extensions=()) as socket:
        assert (socket.accepted, socket.denied, socket.closed) == (None, None, 1008)


@pytest.mark.parametrize(
    ("offered", "chosen"),
    [
        (["openai-beta.responses.v1"], "openai-beta.responses.v1"),
        (["realtime", "openai-insecure-api-key.sk-x", "openai-beta.responses.v1"], ANY),
        (["realtime", "openai-insecure-api-key.sk-x"], None),
    ],
)
async def test_subprotocol_is_one_that_was_offered_and_holds_no_key(
    offered: list[str], chosen: str | None
) -> None:
    async with opened() as app, connected(app, subprotocols=offered) as socket:
        assert socket.accepted is not None
        found = socket.accepted["subprotocol"]
    assert found == chosen
    assert found is None or found == "openai-beta.responses.v1"


async def test_headers_of_the_socket_reach_no_upstream() -> None:
    """Codex asks for the WebSocket by a beta, and the SDK by none."""
    for betas, sent in (
        ("responses_websockets=2026-02-06", None),
        ("responses_websockets=2026-02-04, assistants=v2", "assistants=v2"),
        (None, None),
    ):
        upstream = FakeProvider("Hi.")
        headers = [("host", "here"), *([] if betas is None else [("openai-beta", betas)])]
        async with (
            served(upstream.app()) as url,
            opened(url, dialect="openai_responses") as app,
            connected(app, headers=headers) as socket,
        ):
            events = await socket.ask(create())
        assert events[-1]["type"] == "response.completed"
        got = upstream.requests[0].headers
        assert got.get("openai-beta") == sent
        assert not {"upgrade", "connection", "sec-websocket-key"} & {*got} - {"connection"}


async def test_headers_of_one_request_do_not_make_all_creates_the_same() -> None:
    headers = [("host", "here"), ("idempotency-key", "a" * 32), ("x-streamnorm-stream", "a" * 32)]
    upstream = FakeProvider(["1", "2"])
    async with (
        served(upstream.app()) as url,
        opened(url, log=LogConfig(url="memory:")) as app,
        connected(app, headers=headers) as socket,
    ):
        for text in ("1", "2"):
            (*_, last) = await socket.ask(create("Same."))
            assert last["response"]["output"][0]["content"][0]["text"] == text
    assert all("idempotency-key" not in request.headers for request in upstream.requests)


async def test_connections_beyond_the_bound_are_refused() -> None:
    async with opened(max_streams=2) as app:
        async with connected(app), connected(app) as last:
            async with connected(app) as socket:
                assert socket.denied is not None
                assert (socket.denied[0], socket.denied[1]["retry-after"]) == (429, "1")
            assert last.accepted is not None
        async with connected(app) as socket:
            assert socket.accepted is not None


async def test_creates_beyond_the_bound_of_requests_are_refused() -> None:
    """The connection stays, and a request over HTTP counts as a create does."""
    gate = asyncio.Event()
    upstream = StepUpstream([ANSWER[0], gate, *ANSWER[1:]])
    async with (
        served(upstream) as url,
        opened(url, max_streams=1) as app,
        connected(app) as socket,
    ):
        await socket.say(create(stream_id="a"))
        await socket.next()
        refused = await socket.refusal(create(stream_id="b"))
        assert (refused["status"], refused["stream_id"]) == (429, "b")
        assert refused["headers"] == {"retry-after": "1"}
        gate.set()
        assert (await socket.rest())[-1]["type"] == "response.completed"
        await asyncio.sleep(0.05)  # its place is free a moment after the last event
        (*_, last) = await socket.ask(create(stream_id="b"))
        assert last["type"] == "response.completed"


@pytest.mark.parametrize("server", SERVERS)
async def test_pings_are_answered_while_the_upstream_is_silent(server: ServerName) -> None:
    """The library of Python closes a connection whose pings have no answer for 20 s."""
    gate = asyncio.Event()
    upstream = StepUpstream([ANSWER[0], gate, *ANSWER[1:]])
    async with (
        served_gateway(upstream, server=server, has_websockets=True) as gateway,
        connect(f"ws{gateway.url[4:]}/v1/responses", ping_interval=None) as socket,
    ):
        await socket.send(json.dumps(create()))
        await socket.recv()
        for _ in range(2):
            async with asyncio.timeout(5):
                await (await socket.ping())
        gate.set()
        events = [json.loads(await socket.recv())]
        while events[-1]["type"] != "response.completed":
            events.append(json.loads(await socket.recv()))


async def test_silence_is_broken_by_messages_once_the_response_has_begun() -> None:
    """Codex ends a response without a message for 5 minutes; none may precede its first event."""
    begin, go_on = asyncio.Event(), asyncio.Event()
    upstream = StepUpstream([Head(), begin, ANSWER[0], go_on, *ANSWER[1:]])
    async with (
        served(upstream) as url,
        opened(url, keepalive_s=0.02) as app,
        connected(app) as socket,
    ):
        await socket.say(create())
        await asyncio.sleep(0.1)
        begin.set()
        first = await socket.next()
        assert first["type"] == "response.created"
        kinds = [(await socket.next())["type"] for _ in range(6)]
        assert kinds[-1] == "keepalive"
        go_on.set()
        events = await socket.rest()
    assert events[-1]["type"] == "response.completed"


async def test_connection_takes_no_create_after_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(websocket, "MAX_LIFE_S", 0.2)
    gate = asyncio.Event()
    upstream = StepUpstream([ANSWER[0], gate, *ANSWER[1:]])
    async with (
        served(upstream) as url,
        opened(url) as app,
        connected(app) as socket,
    ):
        await socket.say(create())
        await socket.next()
        await asyncio.sleep(0.3)
        late = await socket.refusal(create(stream_id="late"))
        assert (late["status"], late["error"]["code"]) == (400, LIMIT)
        assert late["stream_id"] == "late"
        gate.set()
        assert (await socket.rest())[-1]["type"] == "response.completed"
        (last,) = await socket.rest()
        assert last["error"]["code"] == LIMIT
        assert (await socket.next_text(), socket.closed) == (None, 1000)
        assert len(upstream.requests) == 1


async def test_idle_connection_is_closed_after_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(websocket, "MAX_LIFE_S", 0.01)
    async with opened() as app, connected(app) as socket:
        (last,) = await socket.rest()
        assert (last["status"], last["error"]["code"]) == (400, LIMIT)
        assert (await socket.next_text(), socket.closed) == (None, 1000)


async def test_gateway_that_stops_closes_idle_connections_at_once() -> None:
    async with opened() as app, connected(app) as socket:
        app.begin_drain(10)
        assert (await socket.next_text(), socket.closed) == (None, 1001)
        async with connected(app) as late:
            assert late.denied is not None
            assert late.denied[0] == 503


async def test_gateway_that_stops_lets_running_answers_end() -> None:
    """Creates that wait, and new ones, are told to go to another connection."""
    gate, records = asyncio.Event(), Records()
    upstream = StepUpstream([ANSWER[0], gate, *ANSWER[1:]])
    async with (
        served(upstream) as url,
        opened(url, observers=(records,)) as app,
        connected(app) as socket,
    ):
        await socket.say(create())
        await socket.next()
        await socket.say(create("second"))
        await socket.wait_until_read()
        app.begin_drain(30)
        refused = await socket.refusal(create(stream_id="new"))
        assert (refused["error"]["code"], refused["stream_id"]) == (LIMIT, "new")
        gate.set()
        assert (await socket.rest())[-1]["type"] == "response.completed"
        (waiting,) = await socket.rest()
        assert waiting["error"]["code"] == LIMIT
        assert (await socket.next_text(), socket.closed) == (None, 1001)
    assert len(upstream.requests) == 1
    assert records.ended[0].outcome == Completed("end_turn", Usage())


async def test_answers_that_outlast_the_grace_fail() -> None:
    upstream = StepUpstream([ANSWER[0], 60.0])
    async with served(upstream) as url, opened(url) as app, connected(app) as socket:
        await socket.say(create())
        await socket.next()
        app.begin_drain(0.01)
        (*_, last) = await socket.rest()
        assert last["type"] == "response.failed"
        assert (await socket.next_text(), socket.closed) == (None, 1001)
        await upstream.closed.wait()


async def test_client_that_leaves_ends_the_requests_of_all_lanes() -> None:
    upstream, records = StepUpstream([ANSWER[0], 60.0]), Records()
    async with (
        served(upstream) as url,
        opened(url, observers=(records,)) as app,
        connected(app) as socket,
    ):
        for lane in ("a", "b"):
            await socket.say(create(stream_id=lane))
        await upstream.wait_for(2)
        await socket.leave()
        async with asyncio.timeout(5):
            await upstream.closed.wait()
        assert upstream.left == 2
    assert [call.outcome for call in records.ended] == [Abandoned(), Abandoned()]


async def test_answers_are_read_to_their_end_where_the_configuration_says_so() -> None:
    gate, records = asyncio.Event(), Records()
    upstream = StepUpstream([ANSWER[0], gate, *ANSWER[1:]])
    async with (
        served(upstream) as url,
        opened(url, observers=(records,), on_disconnect="drain") as app,
        connected(app) as socket,
    ):
        await socket.say(create())
        await socket.next()
        await socket.say(create("second"))
        await socket.leave()
        gate.set()
    assert [call.outcome for call in records.ended] == [Completed("end_turn", Usage())]
    assert len(upstream.requests) == 1


async def test_client_that_reads_nothing_is_cut_off() -> None:
    """Its other lanes would wait for ever, and its upstreams with them."""
    large = content("x" * 100_000)
    upstream = StepUpstream([ANSWER[0], *[large] * 60, 60.0])
    async with (
        served(upstream) as url,
        opened(url, idle_s=0.1) as app,
        connected(app) as socket,
    ):
        await socket.say(create(stream_id="a"))
        await socket.next()
        socket.can_send.clear()
        async with asyncio.timeout(5):
            await upstream.closed.wait()
        assert upstream.left == 1


async def test_upstream_that_breaks_off_is_a_failed_response() -> None:
    upstream = StepUpstream([ANSWER[0], ABORT], [*ANSWER])
    async with served(upstream) as url, opened(url) as app, connected(app) as socket:
        (*_, last) = await socket.ask(create())
        assert last["type"] == "response.failed"
        assert last["response"]["status"] == "failed"
        assert last["response"]["error"]["code"] == "server_error"
        (*_, next_one) = await socket.ask(create())
        assert next_one["type"] == "response.completed"


async def test_server_that_fails_within_an_answer_does_not_leave_it_without_an_end() -> None:
    gate = asyncio.Event()
    upstream = StepUpstream([ANSWER[0], gate, *ANSWER[1:]], [*ANSWER])
    async with served(upstream) as url, opened(url) as app, connected(app) as socket:
        await socket.say(create())
        while (await socket.next())["type"] != "response.output_text.delta":
            pass
        socket.fault = RuntimeError("of the server")
        gate.set()
        (last,) = await socket.rest()
        assert last["type"] == "response.failed"
        assert last["response"]["error"]["code"] == "server_error"
        assert (await socket.ask(create()))[-1]["type"] == "response.completed"


async def test_client_that_sends_and_does_not_read_is_closed() -> None:
    async with opened(idle_s=0.05, max_streams=1) as app, connected(app) as socket:
        socket.can_send.clear()
        await socket.say("{")
        async with asyncio.timeout(5):
            while True:
                async with connected(app) as other:
                    if other.accepted is not None:
                        break


async def test_client_that_has_left_is_told_nothing() -> None:
    async with opened() as app, connected(app) as socket:
        socket.is_gone = True
        await socket.say("{")
        await socket.wait_until_read()
    assert socket.closed is None
