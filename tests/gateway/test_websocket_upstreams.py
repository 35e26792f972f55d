"""Upstreams of the Responses API that a gateway asks over WebSockets: connections and errors."""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from http import HTTPStatus
from typing import Any

import pytest
from msgspec import structs
from support.gateway.calls import body_of, called, opened
from support.gateway.servers import served
from support.gateway.socket_upstream import (
    ANTHROPIC,
    MESSAGES,
    SocketUpstream,
    ask,
    asked_over_websocket,
    echo,
    event,
    response_events,
    said,
    text_item,
    text_of,
)
from support.gateway.sockets import connected, create
from support.gateway.upstreams import Records
from support.http.asgi_caller import Caller
from websockets.asyncio.server import ServerConnection
from websockets.http11 import Request, Response

from streamnorm import Completed, Failed, Truncated
from streamnorm.gateway import (
    Config,
    ConfigError,
    Gateway,
    UpstreamConfig,
    websocket_network,
)
from streamnorm.testing import FakeProvider

pytestmark = pytest.mark.anyio

LIMIT = "websocket_connection_limit_reached"


async def test_answer_over_a_websocket_reaches_a_client_of_another_dialect() -> None:
    records = Records()
    async with asked_over_websocket(SocketUpstream(echo), observers=(records,)) as app:
        status, body = await ask(app, "Hi.")
    assert (status, text_of(body)) == (200, "It is 1.")
    assert body.rstrip().endswith(b'{"type":"message_stop"}')
    (record,) = records.ended
    assert isinstance(record.outcome, Completed)
    assert record.outcome.usage.output_tokens == 2


# Connections


async def test_connection_that_takes_no_further_create_is_replaced() -> None:
    async def answer(upstream: SocketUpstream, socket: ServerConnection, sent: Any) -> None:
        if len(upstream.creates) == 2:
            error = {"type": "invalid_request_error", "code": LIMIT, "message": "limit"}
            await upstream.send(socket, event("error", status=400, error=error))
            return
        await echo(upstream, socket, sent)

    upstream = SocketUpstream(answer)
    async with asked_over_websocket(upstream) as app:
        await ask(app, "Hi.")
        status, body = await ask(app, "Hi.", "It is 1.", "And?")
    assert (status, text_of(body)) == (200, "It is 3.")
    assert len(upstream.sockets) == 2
    assert len(upstream.creates[2]["input"]) == 3


async def test_limit_of_a_new_connection_is_a_failure_that_clients_retry() -> None:
    async def answer(upstream: SocketUpstream, socket: ServerConnection, sent: Any) -> None:
        error = {"type": "invalid_request_error", "code": LIMIT, "message": "limit"}
        await upstream.send(socket, event("error", status=400, error=error))

    upstream = SocketUpstream(answer)
    async with asked_over_websocket(upstream) as app:
        caller = await called(app, "/v1/responses", {"model": "m", "input": "Hi.", "stream": True})
    assert caller.status == 503
    error = {"type": "server_error", "code": LIMIT, "message": "limit"}
    assert json.loads(b"".join(caller.bodies)) == {"error": error}
    assert len(upstream.sockets) == 1


async def test_limit_of_a_new_connection_is_retried_as_configured() -> None:
    async def answer(upstream: SocketUpstream, socket: ServerConnection, sent: Any) -> None:
        if len(upstream.creates) == 1:
            error = {"type": "invalid_request_error", "code": LIMIT, "message": "limit"}
            await upstream.send(socket, event("error", status=400, error=error))
            return
        await echo(upstream, socket, sent)

    records = Records()
    upstream = SocketUpstream(answer)
    async with asked_over_websocket(upstream, observers=(records,), retries=1) as app:
        status, body = await ask(app, "Hi.")
    assert (status, text_of(body)) == (200, "It is 2.")
    assert len(upstream.sockets) == 2
    (record,) = records.ended
    assert [(failure.status, failure.error) for failure in record.failures] == [(503, "upstream")]


async def test_closed_connection_is_replaced_before_the_first_event() -> None:
    """A provider may close an idle connection as the next create is under way."""

    async def answer(upstream: SocketUpstream, socket: ServerConnection, sent: Any) -> None:
        if len(upstream.creates) == 2:
            await socket.close(1001)
            return
        await echo(upstream, socket, sent)

    upstream = SocketUpstream(answer)
    async with asked_over_websocket(upstream) as app:
        await ask(app, "Hi.")
        status, body = await ask(app, "Hi.", "It is 1.", "And?")
    assert (status, text_of(body)) == (200, "It is 3.")
    assert ["previous_response_id" in sent for sent in upstream.creates] == [False, True, False]


@pytest.mark.parametrize("retries", [0, 1])
async def test_new_connection_that_is_closed_at_once_is_retried_as_configured(retries: int) -> None:
    async def answer(upstream: SocketUpstream, socket: ServerConnection, sent: Any) -> None:
        if len(upstream.creates) == 1:
            await socket.close(1011)
            return
        await echo(upstream, socket, sent)

    records = Records()
    upstream = SocketUpstream(answer)
    async with asked_over_websocket(upstream, observers=(records,), retries=retries) as app:
        status, _ = await ask(app, "Hi.")
    assert (status, len(upstream.creates)) == ((502, 1), (200, 2))[retries]
    (record,) = records.ended
    assert record.attempts == 1 + retries
    if not retries:
        assert isinstance(record.outcome, Truncated)
        assert record.reason == "reset"


async def test_lost_host_is_noticed_while_a_connection_is_idle() -> None:
    address = (socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", ("127.0.0.1", 9))
    with websocket_network.new_socket(address) as made:
        assert made.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        if sys.platform == "linux":
            assert made.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 30


async def test_connection_without_reuse_is_closed_behind_its_answer() -> None:
    upstream = SocketUpstream(echo)
    async with asked_over_websocket(upstream, options={"reuse": False}) as app:
        await ask(app, "Hi.")
        await upstream.has_closed.wait()
        await ask(app, "Hi.", "It is 1.", "And?")
    assert len(upstream.sockets) == 2


async def test_draining_closes_idle_connections_and_leaves_no_task() -> None:
    upstream = SocketUpstream(echo)
    async with upstream.running():
        before = asyncio.all_tasks()
        config = UpstreamConfig(
            dialect="openai_responses", base_url=upstream.url, transport="websocket"
        )
        async with opened({"local": config}) as app:
            await ask(app, "Hi.")
            app.begin_drain()
            await upstream.has_closed.wait()
        assert upstream.closed == [1000]
        ours = [task for task in asyncio.all_tasks() - before if "server" not in repr(task).lower()]
        assert not [task for task in ours if "streamnorm/" in repr(task.get_coro())]


async def test_client_that_leaves_closes_the_connection_of_its_turn() -> None:
    begun = asyncio.Event()

    async def answer(upstream: SocketUpstream, socket: ServerConnection, sent: Any) -> None:
        events = response_events("resp_1", [text_item("Hello")])
        await upstream.send(socket, *events[:4])
        begun.set()

    upstream = SocketUpstream(answer)
    async with asked_over_websocket(upstream) as app:
        body = json.dumps({**MESSAGES, "messages": said("Hi.")}).encode()
        headers = [("host", "here"), ("content-type", "application/json")]
        caller = Caller(ANTHROPIC, headers=headers, body=[body])
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(caller.call(app))
            await begun.wait()
            caller.gone.set()
        await upstream.has_closed.wait()


async def test_slow_client_holds_the_provider_back() -> None:
    everything = asyncio.Event()
    item = text_item("x" * 60_000)

    async def answer(upstream: SocketUpstream, socket: ServerConnection, sent: Any) -> None:
        first, *rest = response_events("resp_1", [item])
        delta = next(each for each in rest if each["type"].endswith("text.delta"))
        await upstream.send(socket, first, *rest[:2])
        for _ in range(400):  # 24 MB
            await upstream.send(socket, delta)
        everything.set()
        await upstream.send(socket, event("error", error={"message": "over", "code": "x"}))

    upstream = SocketUpstream(answer)
    async with asked_over_websocket(upstream) as app, connected(app) as client:
        client.can_send.clear()
        await client.say(create())
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(everything.wait(), 1)
        client.can_send.set()
        events = await client.rest()
    assert everything.is_set()
    assert events[-1]["type"] == "response.failed"


async def test_pings_are_answered_while_a_connection_is_idle_and_while_it_is_not() -> None:
    async def answer(upstream: SocketUpstream, socket: ServerConnection, sent: Any) -> None:
        events = response_events("resp_1", [text_item("Hello")])
        await upstream.send(socket, *events[:4])
        await asyncio.wait_for(await socket.ping(), 10)
        await upstream.send(socket, *events[4:])

    upstream = SocketUpstream(answer)
    async with asked_over_websocket(upstream) as app:
        status, body = await ask(app, "Hi.")
        assert (status, text_of(body)) == (200, "Hello")
        await asyncio.wait_for(await upstream.sockets[0].ping(), 10)


async def test_message_that_nobody_asked_for_closes_the_connection() -> None:
    """It would be read as the beginning of the next answer; those of the connection are none."""

    async def answer(upstream: SocketUpstream, socket: ServerConnection, sent: Any) -> None:
        await echo(upstream, socket, sent)
        if len(upstream.creates) == 1:
            await upstream.send(socket, event("responsesapi.websocket_timing", timing={}))
        else:
            await upstream.send(socket, *response_events("resp_x", [text_item("Unasked")])[:1])

    upstream = SocketUpstream(answer)
    async with asked_over_websocket(upstream) as app:
        await ask(app, "Hi.")
        await ask(app, "Hi.", "It is 1.", "And?")
        assert len(upstream.sockets) == 1
        await upstream.has_closed.wait()
        status, body = await ask(app, "Hi.", "It is 1.", "And?", "It is 2.", "Then?")
    assert (status, text_of(body)) == (200, "It is 3.")
    assert len(upstream.sockets) == 2


@pytest.mark.parametrize("has_items", [True, False])
async def test_end_of_the_response_before_is_not_that_of_the_next(*, has_items: bool) -> None:
    items = [text_item("It is 1.")] * has_items

    async def answer(upstream: SocketUpstream, socket: ServerConnection, sent: Any) -> None:
        await upstream.send(socket, *response_events("resp_1", items))

    upstream = SocketUpstream(answer)
    async with asked_over_websocket(upstream) as app:
        await ask(app, "Hi.")
        status, _ = await ask(app, "Hi.", "It is 1.", "And?")
    assert status == 502


# Errors


@pytest.mark.parametrize(
    ("error", "status", "retry_after"),
    [
        (
            {
                "status": 429,
                "headers": {"Retry-After": 7, "x-codex-primary-used-percent": "100"},
                "error": {"type": "usage_limit_reached", "message": "Wait", "code": None},
            },
            429,
            "7",
        ),
        (
            {
                "status_code": 429,
                "error": {
                    "code": "rate_limit_exceeded",
                    "message": "Wait",
                    "headers": {"retry-after": "3"},
                },
            },
            429,
            "3",
        ),
        ({"code": "rate_limit_exceeded", "message": "Wait"}, 429, None),
        ({"status": 400, "error": {"type": "invalid_request_error", "message": "No"}}, 400, None),
        ({"status": 200, "error": {"message": "odd"}}, 502, None),
        ({"error": "words"}, 502, None),
        ({}, 502, None),
    ],
    ids=["429", "status_code", "without status", "400", "2xx", "text", "nothing"],
)
async def test_error_before_the_response_is_a_response_with_its_status(
    error: dict[str, Any], status: int, retry_after: str | None
) -> None:
    async def answer(upstream: SocketUpstream, socket: ServerConnection, sent: Any) -> None:
        if len(upstream.creates) > 1:
            await echo(upstream, socket, sent)
            return
        await upstream.send(socket, event("codex.rate_limits", rate_limits={}))
        await upstream.send(socket, event("error", **error))

    upstream = SocketUpstream(answer)
    async with asked_over_websocket(upstream) as app:
        request = {**MESSAGES, "messages": said("Hi.")}
        caller = await called(app, ANTHROPIC, request)
        assert caller.status == status
        assert caller.headers.get("retry-after") == retry_after
        assert (await ask(app, "Hi."))[0] == 200
        assert len(upstream.sockets) == 1  # it lives on


@pytest.mark.parametrize("end", ["close", "abort", "failed", "error"])
async def test_answer_that_breaks_off_is_no_complete_one(end: str) -> None:
    async def answer(upstream: SocketUpstream, socket: ServerConnection, sent: Any) -> None:
        events = response_events("resp_1", [text_item("Hello")])
        await upstream.send(socket, *events[:4])
        match end:
            case "close":
                await socket.close(1011)
            case "abort":
                socket.transport.abort()
            case "failed":
                response = {**events[-1]["response"], "status": "failed"}
                response["error"] = {"code": "server_error", "message": "Broken"}
                await upstream.send(socket, event("response.failed", response=response))
            case _:
                error = {"type": "server_error", "code": "server_error", "message": "Broken"}
                await upstream.send(socket, event("error", status=500, error=error))

    records = Records()
    async with asked_over_websocket(SocketUpstream(answer), observers=(records,)) as app:
        status, body = await ask(app, "Hi.")
    assert (status, text_of(body)) == (200, "Hello")
    assert b"message_stop" not in body
    assert b"event: error" in body
    (record,) = records.ended
    is_cut = end in ("close", "abort")
    assert isinstance(record.outcome, Truncated) == is_cut
    assert record.reason == ("reset" if is_cut else None)


@pytest.mark.parametrize(
    ("message", "code"),
    [
        (b"\x00\x01", "malformed"),
        ("no JSON", "malformed"),
        ("[]", "malformed"),
        ('{"type":7}', "malformed"),
        ('{"type":"response.output_text.delta","delta":"' + "x" * 70_000 + '"}', "max_event_bytes"),
    ],
    ids=["binary", "text", "array", "type", "too large"],
)
@pytest.mark.parametrize("has_begun", [False, True])
async def test_message_that_is_no_event_ends_the_answer(
    message: str | bytes, code: str, *, has_begun: bool
) -> None:
    async def answer(upstream: SocketUpstream, socket: ServerConnection, sent: Any) -> None:
        if has_begun:
            await upstream.send(socket, *response_events("resp_1", [text_item("Hello")])[:4])
        await socket.send(message)

    records = Records()
    upstream = SocketUpstream(answer)
    async with asked_over_websocket(upstream, observers=(records,), max_event_bytes=65_536) as app:
        status, body = await ask(app, "Hi.")
        await upstream.has_closed.wait()
    assert status == (200 if has_begun else 502)
    assert b"message_stop" not in body
    (record,) = records.ended
    assert isinstance(record.outcome, Failed)
    assert code in (record.outcome.error.kind, record.outcome.error.code)


@pytest.mark.parametrize("has_begun", [False, True])
async def test_silent_provider_is_stalled(*, has_begun: bool) -> None:
    async def answer(upstream: SocketUpstream, socket: ServerConnection, sent: Any) -> None:
        events = response_events("resp_1", [text_item("Hello")])
        await upstream.send(socket, *events[: 4 * has_begun])

    records = Records()
    upstream = SocketUpstream(answer)
    bounds = {"idle_s": 0.05} if has_begun else {"first_byte_s": 0.5}
    async with asked_over_websocket(upstream, observers=(records,), **bounds) as app:
        status, body = await ask(app, "Hi.")
        await upstream.has_closed.wait()
    assert status == (200 if has_begun else 504)
    assert (text_of(body) == "Hello") == has_begun
    (record,) = records.ended
    assert (type(record.outcome), record.reason) == (Truncated, "timeout")


async def test_stopping_gateway_ends_the_answer() -> None:
    begun = asyncio.Event()

    async def answer(upstream: SocketUpstream, socket: ServerConnection, sent: Any) -> None:
        await upstream.send(socket, *response_events("resp_1", [text_item("Hello")])[:4])
        begun.set()

    upstream = SocketUpstream(answer)
    async with asked_over_websocket(upstream) as app:
        asked = asyncio.create_task(ask(app, "Hi."))
        await begun.wait()
        app.begin_drain(0.0)
        status, body = await asked
        await upstream.has_closed.wait()
    # It may have stopped as the first event arrived.
    assert (status, b"the gateway is stopping" in body) == (503, True) or (
        (status, b"the gateway stopped" in body) == (200, True)
    )


async def test_frame_that_is_not_of_a_websocket_ends_the_answer() -> None:
    async def answer(upstream: SocketUpstream, socket: ServerConnection, sent: Any) -> None:
        await upstream.send(socket, *response_events("resp_1", [text_item("Hello")])[:4])
        socket.transport.write(b"\xff\xff\xff")

    records = Records()
    async with asked_over_websocket(SocketUpstream(answer), observers=(records,)) as app:
        status, body = await ask(app, "Hi.")
    assert (status, text_of(body)) == (200, "Hello")
    (record,) = records.ended
    assert isinstance(record.outcome, Failed)
    assert (record.outcome.error.kind, record.reason) == ("malformed", "protocol")


async def test_white_space_between_lines_of_a_message_means_nothing() -> None:
    async def answer(upstream: SocketUpstream, socket: ServerConnection, sent: Any) -> None:
        for each in response_events("resp_1", [text_item("a\nb")]):
            await socket.send(json.dumps(each, indent=1).replace("\n", "\r\n"))

    async with asked_over_websocket(SocketUpstream(answer)) as app:
        status, body = await ask(app, "Hi.")
    assert (status, text_of(body)) == (200, "a\nb")


# Handshakes


class Refusing:
    """An upstream that has no WebSocket.

    Attributes:
        handshakes: How many it has refused.
        posts: How many requests over HTTP it has answered.
    """

    def __init__(self, status: int) -> None:
        self.handshakes = self.posts = 0
        self._status = status
        self._provider = FakeProvider(["One.", "Two."]).app()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and scope["method"] == "GET":
            self.handshakes += 1
            headers = [(b"location", b"/elsewhere"), (b"content-length", b"0")]
            await send({"type": "http.response.start", "status": self._status, "headers": headers})
            await send({"type": "http.response.body", "body": b""})
            return
        self.posts += scope["type"] == "http"
        await self._provider(scope, receive, send)


@pytest.mark.parametrize("status", [426, 404, 405, 301])
async def test_provider_without_websockets_is_asked_over_http(status: int) -> None:
    upstream = Refusing(status)
    async with served(upstream, strict=False) as url:
        config = UpstreamConfig(dialect="openai_responses", base_url=url, transport="websocket")
        async with opened({"local": config}) as app:
            for text in ("One.", "Two."):
                answered, body = await ask(app, "Hi.")
                assert (answered, text_of(body)) == (200, text)
            request = {"model": "m", "input": "Hi.", "stream": True}
            for number in range(2):  # the query is the client's
                await called(app, f"/v1/responses?after={number}", request)
    assert (upstream.handshakes, upstream.posts) == (1, 4)


@pytest.mark.parametrize(("status", "retry_after"), [(401, None), (429, "9"), (503, "9")])
async def test_refused_handshake_is_the_answer(status: int, retry_after: str | None) -> None:
    """Its body says why, also if it quotes the key, which clients must not learn."""

    def refuse(connection: ServerConnection, request: Request) -> Response:
        error = {"type": "t", "code": "c", "message": "Not you: sk-canary-7f3a"}
        response = connection.respond(HTTPStatus(status), json.dumps({"error": error}))
        if retry_after is not None:
            response.headers["retry-after"] = retry_after
        return response

    upstream = SocketUpstream(echo, refuse)
    options = {"key": "env:KEY"}
    async with asked_over_websocket(
        upstream, options=options, environ={"KEY": "sk-canary-7f3a"}
    ) as app:
        request = {"model": "m", "input": "Hi."}
        caller = await called(app, "/v1/responses", request)
    assert (caller.status, caller.headers.get("retry-after")) == (status, retry_after)
    assert body_of(caller)["error"]["message"] == "Not you: xxxxxxxxxxxxxx"
    assert len(upstream.handshakes) == 1


async def test_handshake_has_the_key_and_nothing_of_one_request() -> None:
    upstream = SocketUpstream(echo)
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    headers = [("host", "here"), ("content-type", "application/json"), ("traceparent", trace)]
    headers += [("openai-beta", "assistants=v2"), ("user-agent", "agent/1")]
    async with asked_over_websocket(
        upstream, options={"key": "env:KEY"}, environ={"KEY": "sk-canary-7f3a"}
    ) as app:
        request = {"model": "m", "input": "Hi.", "store": False}
        await called(app, "/v1/responses", request, headers=headers)
    (sent,) = upstream.handshakes
    assert sent["authorization"] == "Bearer sk-canary-7f3a"
    assert (sent["openai-beta"], sent["user-agent"]) == ("assistants=v2", "agent/1")
    assert not {"traceparent", "content-type", "sec-websocket-extensions"} & {*sent}


async def test_background_and_other_endpoints_are_asked_over_http() -> None:
    upstream = Refusing(426)
    async with served(upstream, strict=False) as url:
        config = UpstreamConfig(dialect="openai_responses", base_url=url, transport="websocket")
        async with opened({"local": config}) as app:
            request = {"model": "m", "input": "Hi.", "background": True}
            await called(app, "/v1/responses", request)
            await called(app, "/v1/responses/input_tokens", {"model": "m", "input": "Hi."})
    assert (upstream.handshakes, upstream.posts) == (0, 2)


# Configuration


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ({"dialect": "anthropic"}, "websocket of anthropic, expected one of openai_responses"),
        ({"dialect": "openai_responses", "key": "aws"}, "signed requests, expected another key"),
    ],
    ids=["dialect", "signature"],
)
def test_other_upstreams_have_no_websocket(fields: dict[str, Any], found: str) -> None:
    config = UpstreamConfig(base_url="https://h", transport="websocket", region="r", **fields)
    if "key" not in fields:
        config = structs.replace(config, region=None)
    with pytest.raises(ConfigError, match=found):
        Gateway(Config(upstreams={"local": config}), environ={})
