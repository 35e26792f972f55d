"""The end of a gateway: what new and running requests get."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Iterator
from urllib.parse import urlsplit

import httpx
import pytest
from support.gateway.servers import SERVERS, ServerName, gateway_config, served, served_gateway
from support.gateway.upstreams import (
    ANSWER,
    REQUESTS,
    Head,
    Records,
    Step,
    StepUpstream,
    asked,
    opened,
)
from support.http.asgi_caller import Caller
from support.http.asgi_client import Message
from support.openai_chat.chunks import content

from streamnorm import Abandoned, Completed, Truncated, Usage
from streamnorm.gateway import Gateway
from streamnorm.gateway.application import chain_signals

pytestmark = pytest.mark.anyio

CLIENTS = pytest.mark.parametrize("client", REQUESTS)
JSON = {"content-type": "application/json"}
STOPPED = b"connection lost: the gateway stopped after 1 event, before the message was complete"


@CLIENTS
async def test_new_requests_are_refused_during_a_drain(client: str) -> None:
    upstream = StepUpstream()
    async with served_gateway(upstream) as gateway, httpx.AsyncClient() as http:
        assert (await http.get(f"{gateway.url}/healthz")).status_code == 200
        gateway.app.begin_drain()
        assert (await http.get(f"{gateway.url}/healthz")).status_code == 503
        response = await asked(gateway.url, client)
    assert (response.status_code, response.headers["retry-after"]) == (503, "1")
    assert "the gateway is stopping" in response.text
    assert upstream.requests == []


async def test_running_stream_may_end_within_its_grace() -> None:
    gate, records = asyncio.Event(), Records()
    upstream = StepUpstream([ANSWER[0], gate, *ANSWER[1:]])
    async with (
        served_gateway(upstream, observers=(records,)) as gateway,
        httpx.AsyncClient() as http,
        opened(http, gateway.url, "openai_chat") as response,
    ):
        body = response.aiter_raw()
        await anext(body)
        gateway.app.begin_drain(30)
        gate.set()
        rest = b"".join([chunk async for chunk in body])
    assert rest == b"".join(ANSWER[1:])
    assert records.ended[0].outcome == Completed("end_turn", Usage())


@pytest.mark.parametrize("server", SERVERS)
@CLIENTS
async def test_stream_ends_with_an_error_event_after_its_grace(
    client: str, server: ServerName
) -> None:
    upstream, records = StepUpstream([ANSWER[0], 60.0]), Records()
    async with (
        served_gateway(upstream, server=server, observers=(records,)) as gateway,
        httpx.AsyncClient() as http,
        opened(http, gateway.url, client) as response,
    ):
        body = response.aiter_raw()
        data = await anext(body)
        gateway.app.begin_drain(0.01)
        data += b"".join([chunk async for chunk in body])
        await upstream.closed.wait()
    assert STOPPED in data
    assert upstream.left == 1
    assert isinstance(records.ended[0].outcome, Truncated)


async def test_earliest_end_of_the_grace_counts() -> None:
    upstream = StepUpstream([ANSWER[0], 60.0])
    async with (
        served_gateway(upstream) as gateway,
        httpx.AsyncClient() as http,
        opened(http, gateway.url, "anthropic") as response,
    ):
        for grace_s in (60, 0.01, 30):
            gateway.app.begin_drain(grace_s)
        assert STOPPED in await response.aread()


WAITING: dict[str, list[Step]] = {
    "before_the_status": [60.0],
    "before_the_first_event": [Head(), 60.0],
    "in_a_body": [Head(200, JSON), b"{", 60.0],
    "in_an_error_body": [Head(500, JSON), b"{", 60.0],
    "between_retries": [Head(503, {**JSON, "retry-after": "100"}), b"{}"],
}


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("phase", WAITING)
async def test_request_without_an_answer_gets_503_after_its_grace(phase: str, stream: bool) -> None:
    upstream = StepUpstream(WAITING[phase])
    async with served_gateway(upstream, retries=1) as gateway:
        request = asyncio.create_task(asked(gateway.url, "anthropic", stream=stream))
        await upstream.asked.wait()
        await asyncio.sleep(0.02)
        gateway.app.begin_drain(0.01)
        response = await request
    assert response.status_code == 503
    assert response.json()["error"]["type"] == "overloaded_error"
    assert len(upstream.requests) == 1


@pytest.mark.parametrize("server", SERVERS)
async def test_client_that_does_not_read_is_cut_off(server: ServerName) -> None:
    """The end of the body is missing, so that nobody takes what came for the answer."""
    large = content("x" * 100_000)
    upstream, records = StepUpstream([ANSWER[0], *[large] * 600, 60.0]), Records()
    path, body = REQUESTS["openai_chat"]
    data = json.dumps(body).encode()
    async with served_gateway(upstream, server=server, observers=(records,)) as gateway:
        address = urlsplit(gateway.url)
        reader, writer = await asyncio.open_connection(address.hostname, address.port)
        head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(data)}\r\n"
        writer.write(f"{head}content-type: application/json\r\n\r\n".encode() + data)
        await upstream.blocked()
        gateway.app.begin_drain(0.01)
        async with asyncio.timeout(5):
            await records.one.wait()
            rest = await reader.read()
        writer.close()
    assert b"\r\n0\r\n\r\n" not in rest
    assert upstream.left == 1


async def test_request_that_the_server_cancels_has_no_clean_end() -> None:
    """As uvicorn does after `timeout_graceful_shutdown`, and hypercorn after its grace."""
    upstream, records = StepUpstream([ANSWER[0], 60.0]), Records()
    path, body = REQUESTS["anthropic"]
    first = asyncio.Event()

    async def note(message: Message) -> None:
        if message["type"] == "http.response.body":
            first.set()

    headers = [("host", "here"), ("content-type", "application/json")]
    client = Caller(path, headers=headers, body=[json.dumps(body).encode()], on_send=note)
    async with served_gateway(upstream, observers=(records,)) as gateway:
        task = asyncio.create_task(client.call(gateway.app))
        await first.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await upstream.closed.wait()
    assert [message.get("more_body") for message in client.messages[1:]] == [True]
    assert upstream.left == 1
    assert records.ended[0].outcome == Abandoned()


@pytest.fixture
def sigterm() -> Iterator[None]:
    """Restore the handler of SIGTERM after the test."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


async def test_drain_begins_at_the_signal_and_the_server_gets_it_too(sigterm: None) -> None:
    calls: list[str] = []

    def handle(_number: int, _frame: object) -> None:
        calls.append("server")

    signal.signal(signal.SIGTERM, handle)
    with chain_signals(lambda: calls.append("drain")):
        signal.raise_signal(signal.SIGTERM)
        await asyncio.sleep(0)
    assert calls == ["server", "drain"]
    assert signal.getsignal(signal.SIGTERM) is handle


@pytest.mark.parametrize("handler", [signal.SIG_DFL, signal.SIG_IGN])
async def test_signal_that_no_server_handles_is_left_alone(
    handler: signal.Handlers, sigterm: None
) -> None:
    signal.signal(signal.SIGTERM, handler)
    with chain_signals(lambda: None):
        assert signal.getsignal(signal.SIGTERM) is handler


async def test_handler_that_replaced_ours_stays(sigterm: None) -> None:
    def first(_number: int, _frame: object) -> None: ...
    def second(_number: int, _frame: object) -> None: ...

    signal.signal(signal.SIGTERM, first)
    with chain_signals(lambda: None):
        signal.signal(signal.SIGTERM, second)
    assert signal.getsignal(signal.SIGTERM) is second


async def test_signals_are_left_alone_outside_the_main_thread() -> None:
    before = signal.getsignal(signal.SIGTERM)

    async def enter() -> None:
        with chain_signals(lambda: None):
            assert signal.getsignal(signal.SIGTERM) is before

    await asyncio.to_thread(asyncio.run, enter())


async def test_gateway_serves_again_after_it_was_stopped() -> None:
    async with served(StepUpstream()) as upstream_url:
        app = Gateway(gateway_config(upstream_url), environ={})
        for _ in range(2):
            async with served(app) as url:
                assert (await asked(url, "anthropic")).status_code == 200
