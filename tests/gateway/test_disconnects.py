"""Clients that leave: what becomes of the upstream's answer, under each server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import pytest
from support.gateway.servers import SERVERS, ServerName, served_gateway
from support.gateway.upstreams import ANSWER, REQUESTS, Head, Records, Step, StepUpstream
from support.openai_chat.chunks import content

from streamnorm import Abandoned, Completed, Truncated, Usage

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("server", SERVERS)]

USAGE = {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9}
BEGUN = content("a", usage=USAGE)
LARGE = content("x" * 100_000)
JSON = {"content-type": "application/json"}


class Connection:
    """A client that has sent a request, and may leave.

    Attributes:
        reader: The answer.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self._writer = writer

    def leave(self) -> None:
        self._writer.transport.abort()


@asynccontextmanager
async def connection(
    url: str, *, stream: bool = True, missing: int = 0
) -> AsyncIterator[Connection]:
    """Send a request, but for the last bytes that are to be missing."""
    path, body = REQUESTS["openai_chat"]
    data = json.dumps({**body, "stream": stream}).encode()
    address = urlsplit(url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(data)}\r\n"
    writer.write(f"{head}content-type: application/json\r\n\r\n".encode())
    writer.write(data[: len(data) - missing])
    try:
        yield Connection(reader, writer)
    finally:
        writer.transport.abort()


# What the upstream does, the text that the client reads before it leaves, and whether it asks
# for a stream.
PHASES: dict[str, tuple[list[Step], bytes, bool]] = {
    "before_the_status": ([60.0], b"", True),
    "before_the_first_event": ([Head(), 60.0], b"", True),
    "silent": ([BEGUN, 60.0], b"prompt_tokens", True),
    "in_the_stream": ([BEGUN, *[content("b"), 0.001] * 5000], b'"b"', True),
    "blocked_send": ([BEGUN, *[LARGE] * 600, 60.0], b"prompt_tokens", True),
    "before_the_status_of_a_body": ([60.0], b"", False),
    "in_a_body": ([Head(200, JSON), b"{", 60.0], b"", False),
}


@pytest.mark.parametrize("phase", PHASES)
async def test_upstream_is_released_when_the_client_leaves(phase: str, server: ServerName) -> None:
    steps, read, stream = PHASES[phase]
    upstream, records = StepUpstream(steps), Records()
    async with (
        served_gateway(upstream, server=server, observers=(records,)) as gateway,
        connection(gateway.url, stream=stream) as client,
    ):
        async with asyncio.timeout(30):
            await upstream.asked.wait()
        if read:
            await client.reader.readuntil(read)
        if phase == "blocked_send":
            await upstream.blocked()
        client.leave()
        async with asyncio.timeout(5):  # 200 ms is measured in tests/stress
            await upstream.closed.wait()
            await records.one.wait()
    assert upstream.left == 1
    [call] = records.ended
    assert call.outcome == Abandoned()
    known = Usage(7, 2) if stream and read else Usage()
    assert (call.usage.input_tokens, call.usage.output_tokens) == (
        known.input_tokens,
        known.output_tokens,
    )


@pytest.mark.parametrize("policy", ["cancel", "drain"])
async def test_upstream_is_released_when_the_client_stays_and_never_reads(
    policy: str, server: ServerName
) -> None:
    upstream, records = StepUpstream([BEGUN, *[LARGE] * 600, 60.0]), Records()
    settings = {"observers": (records,), "idle_s": 0.1, "on_disconnect": policy}
    async with (
        served_gateway(upstream, server=server, **settings) as gateway,
        connection(gateway.url) as client,
    ):
        await client.reader.readuntil(b"prompt_tokens")
        async with asyncio.timeout(5):
            await upstream.closed.wait()
            await records.one.wait()
    assert records.ended[0].outcome == Abandoned()


async def test_request_is_abandoned_when_the_client_leaves_within_it(server: ServerName) -> None:
    upstream, records = StepUpstream(), Records()
    async with (
        served_gateway(upstream, server=server, observers=(records,)) as gateway,
        connection(gateway.url, missing=1) as client,
    ):
        client.leave()
        async with asyncio.timeout(5):
            await records.one.wait()
    assert upstream.requests == []
    assert records.ended[0].outcome == Abandoned()


async def test_retry_is_given_up_when_the_client_leaves(server: ServerName) -> None:
    busy = [Head(503, {**JSON, "retry-after": "100"}), b'{"error":{"message":"Busy."}}']
    upstream, records = StepUpstream(busy), Records()
    settings = {"server": server, "observers": (records,), "retries": 3}
    async with (
        served_gateway(upstream, **settings) as gateway,
        connection(gateway.url) as client,
    ):
        async with asyncio.timeout(30):
            await upstream.asked.wait()
        await upstream.closed.wait()
        client.leave()
        async with asyncio.timeout(5):
            await records.one.wait()
    assert len(upstream.requests) == 1
    assert records.ended[0].outcome == Abandoned()


DRAINED = {
    "before_the_status": b"",
    "silent": b"prompt_tokens",
    "blocked_send": b"prompt_tokens",
}


@pytest.mark.parametrize("phase", DRAINED)
async def test_drained_answer_is_read_to_its_end(phase: str, server: ServerName) -> None:
    gate, records = asyncio.Event(), Records()
    steps = {
        "before_the_status": [gate, BEGUN, *ANSWER],
        "silent": [BEGUN, gate, *ANSWER],
        "blocked_send": [BEGUN, *[LARGE] * 600, *ANSWER],
    }
    upstream = StepUpstream(steps[phase])
    settings = {"server": server, "observers": (records,), "on_disconnect": "drain"}
    async with (
        served_gateway(upstream, **settings) as gateway,
        connection(gateway.url) as client,
    ):
        async with asyncio.timeout(30):
            await upstream.asked.wait()
        if DRAINED[phase]:
            await client.reader.readuntil(DRAINED[phase])
        if phase == "blocked_send":
            await upstream.blocked()
        client.leave()
        await asyncio.sleep(0.02)  # the gateway learns of it
        gate.set()
        async with asyncio.timeout(10):
            await records.one.wait()
    assert upstream.left == 0
    [call] = records.ended
    assert isinstance(call.outcome, Completed)
    assert (call.usage.input_tokens, call.usage.output_tokens) == (7, 2)


async def test_nobody_else_is_asked_for_a_client_that_has_left(server: ServerName) -> None:
    gate, records = asyncio.Event(), Records()
    upstream = StepUpstream([gate, Head(503, {**JSON, "retry-after-ms": "1"}), b"{}"], [*ANSWER])
    settings = {
        "server": server,
        "observers": (records,),
        "on_disconnect": "drain",
        "retries": 3,
    }
    async with (
        served_gateway(upstream, **settings) as gateway,
        connection(gateway.url) as client,
    ):
        async with asyncio.timeout(30):
            await upstream.asked.wait()
        client.leave()
        await asyncio.sleep(0.02)
        gate.set()
        async with asyncio.timeout(5):
            await records.one.wait()
    assert len(upstream.requests) == 1
    assert not isinstance(records.ended[0].outcome, Completed | Truncated)
