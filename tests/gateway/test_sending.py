"""Pings to the client: when they are sent, in which form, and that nothing hides behind them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import httpx
import pytest
from support.gateway.servers import served_gateway
from support.gateway.upstreams import ANSWER, REQUESTS, Head, Records, StepUpstream, opened

from streamnorm import Completed, Failed, Truncated, Usage
from streamnorm.validation import validate

pytestmark = pytest.mark.anyio

KEEPALIVE_S = 0.005
# Codex's timeout counts events alone, but openai-node throws at one before `response.created`;
# Gemini's clients read a comment as JSON.
FIRST_PINGS = {
    "anthropic": b'event: ping\ndata: {"type":"ping"}\n\n',
    "openai_chat": b": ping\n\n",
    "openai_responses": b": ping\n\n",
    "gemini": b"\r\n",
}
PINGS = {**FIRST_PINGS, "openai_responses": b"event: keepalive\n"}
CLIENTS = pytest.mark.parametrize("client", REQUESTS)


async def read_until(body: AsyncIterator[bytes], text: bytes, count: int) -> bytes:
    """Read a body until it holds a text so many times."""
    data = b""
    while data.count(text) < count:
        data += await anext(body)
    return data


def numbers(data: bytes) -> list[int]:
    """Return the sequence numbers of a stream of the Responses API."""
    lines = [line for line in data.split(b"\n") if line.startswith(b"data: {")]
    return [json.loads(line[6:])["sequence_number"] for line in lines]


@CLIENTS
async def test_silence_in_a_stream_is_filled_with_pings(client: str) -> None:
    gate = asyncio.Event()
    upstream = StepUpstream([ANSWER[0], gate, *ANSWER[1:]])
    async with (
        served_gateway(upstream, keepalive_s=KEEPALIVE_S) as gateway,
        httpx.AsyncClient() as http,
        opened(http, gateway.url, client) as response,
    ):
        body = response.aiter_raw()
        data = await read_until(body, PINGS[client], 3)
        gate.set()
        data += b"".join([chunk async for chunk in body])
    assert response.status_code == 200
    assert validate(data, client) == []
    if client == "openai_responses":
        assert numbers(data) == [*range(len(numbers(data)))]


@CLIENTS
async def test_known_status_200_allows_pings_before_the_first_event(client: str) -> None:
    """Sequence numbers stay contiguous: these pings have none."""
    gate = asyncio.Event()
    upstream = StepUpstream([Head(), gate, *ANSWER])
    async with (
        served_gateway(upstream, keepalive_s=KEEPALIVE_S) as gateway,
        httpx.AsyncClient() as http,
        opened(http, gateway.url, client) as response,
    ):
        body = response.aiter_raw()
        data = await read_until(body, FIRST_PINGS[client], 3)
        gate.set()
        data += b"".join([chunk async for chunk in body])
    assert data.startswith(FIRST_PINGS[client])
    assert validate(data, client) == []


async def test_no_ping_is_sent_before_the_status_is_known() -> None:
    gate = asyncio.Event()
    upstream = StepUpstream([gate, Head(529), b'{"type":"error","error":{"type":"x"}}'])
    async with (
        served_gateway(upstream, keepalive_s=KEEPALIVE_S) as gateway,
        httpx.AsyncClient() as http,
    ):
        request = asyncio.create_task(
            http.post(gateway.url + REQUESTS["anthropic"].path, json=REQUESTS["anthropic"].body)
        )
        await upstream.asked.wait()
        await asyncio.sleep(5 * KEEPALIVE_S)
        assert not request.done()
        gate.set()
        response = await request
    assert response.status_code == 529


@CLIENTS
async def test_commit_sends_pings_before_the_status_is_known(client: str) -> None:
    gate = asyncio.Event()
    upstream = StepUpstream([gate, *ANSWER])
    settings = {"keepalive_s": KEEPALIVE_S, "commit_after_s": 0.001}
    async with (
        served_gateway(upstream, **settings) as gateway,
        httpx.AsyncClient() as http,
        opened(http, gateway.url, client) as response,
    ):
        body = response.aiter_raw()
        data = await read_until(body, FIRST_PINGS[client], 3)
        gate.set()
        data += b"".join([chunk async for chunk in body])
    assert validate(data, client) == []


@CLIENTS
async def test_failure_after_the_commit_is_an_error_event_and_a_clean_end(client: str) -> None:
    """No other upstream is asked, and the client's SDK finds the error in the stream."""
    gate, records = asyncio.Event(), Records()
    upstream = StepUpstream(
        [gate, Head(503, {"content-type": "application/json"}), b'{"error":{"message":"Busy."}}']
    )
    settings = {"keepalive_s": KEEPALIVE_S, "commit_after_s": 0.001, "retries": 3}
    async with (
        served_gateway(upstream, observers=(records,), **settings) as gateway,
        httpx.AsyncClient() as http,
        opened(http, gateway.url, client) as response,
    ):
        body = response.aiter_raw()
        data = await read_until(body, FIRST_PINGS[client], 1)
        gate.set()
        data += b"".join([chunk async for chunk in body])
    assert response.status_code == 200
    assert b"Busy." in data
    assert len(upstream.requests) == 1
    [call] = records.ended
    assert (call.status, call.attempts) == (200, 1)
    assert isinstance(call.outcome, Failed)


async def test_pings_of_the_gateway_do_not_outlive_the_idle_bound() -> None:
    records = Records()
    upstream = StepUpstream([ANSWER[0], asyncio.Event()])
    settings = {"keepalive_s": KEEPALIVE_S, "idle_s": 0.05}
    async with (
        served_gateway(upstream, observers=(records,), **settings) as gateway,
        httpx.AsyncClient() as http,
        opened(http, gateway.url, "anthropic") as response,
    ):
        data = await response.aread()
    assert PINGS["anthropic"] in data
    assert b"connection timed out after 1 event" in data
    assert data.rpartition(b"event: ")[2].startswith(b"error\n")
    [call] = records.ended
    assert isinstance(call.outcome, Truncated)
    assert call.outcome.error.kind == "stalled"


async def test_pings_of_the_upstream_do_not_outlive_the_progress_bound() -> None:
    records = Records()
    upstream = StepUpstream([ANSWER[0], *[b": alive\n\n", 0.01] * 1000])
    settings = {"keepalive_s": KEEPALIVE_S, "progress_s": 0.1}
    async with (
        served_gateway(upstream, observers=(records,), **settings) as gateway,
        httpx.AsyncClient() as http,
        opened(http, gateway.url, "anthropic") as response,
    ):
        data = await response.aread()
    assert b"connection timed out after 1 event" in data
    [call] = records.ended
    assert isinstance(call.outcome, Truncated)


@pytest.mark.parametrize("client", ["anthropic", "openai_chat"])
@pytest.mark.parametrize(
    "frame",
    [
        b": alive\n\n",
        b"data:\n\n",
        b'data: {"choices":[{"index":0,"delta":{}}]}\n\n',
        b'data: {"choices":[{"index":0,"delta":{"content":""}}]}\n\n',
    ],
)
@pytest.mark.parametrize("begins", [False, True])
async def test_flood_of_frames_that_bring_nothing_ends_at_the_progress_bound(
    begins: bool, frame: bytes, client: str
) -> None:
    """It never lets a read wait, so the time in reads alone would be no bound."""
    records = Records()
    flood = [frame * 2000] * 20_000
    upstream = StepUpstream([*ANSWER[:begins], *flood])
    bounds = {"progress_s": 0.3, "finish_grace_s": 0.05, "idle_s": 5.0}
    async with (
        served_gateway(upstream, observers=(records,), **bounds) as gateway,
        httpx.AsyncClient() as http,
        opened(http, gateway.url, client) as response,
    ):
        async for _ in response.aiter_raw():
            pass
    [call] = records.ended
    assert isinstance(call.outcome, Truncated)
    assert call.outcome.error.kind == "stalled"
    assert upstream.sent < len(flood)


async def test_no_ping_follows_the_end() -> None:
    records = Records()
    upstream = StepUpstream()
    async with (
        served_gateway(upstream, observers=(records,), keepalive_s=0.0001) as gateway,
        httpx.AsyncClient() as http,
    ):
        for _ in range(20):
            async with opened(http, gateway.url, "openai_chat") as response:
                data = await response.aread()
            assert data.endswith(ANSWER[-1])
    assert [call.outcome for call in records.ended] == [Completed("end_turn", Usage())] * 20
