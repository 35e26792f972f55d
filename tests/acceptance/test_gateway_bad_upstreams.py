"""Whatever an upstream sends, its client gets an answer in its own dialect, and the truth.

Damaged streams and noise, with any status and type, for streams and for whole answers.  Many
more of them:

    python -m pytest -m "" tests/acceptance/test_gateway_bad_upstreams.py
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any, NamedTuple

import httpx
import pytest
from acceptance.gateways import Gateways, gateways
from acceptance.transcoding_clients import SDKS
from support.bodies.samples import any_body
from support.draws import Draws
from support.faults.answers import ANSWERS
from support.faults.upstream import FaultyUpstream
from support.gateway.upstreams import REQUESTS, Records
from support.http.loopback import chunked

from streamnorm import Completed, StreamnormError, decode_message
from streamnorm.codec import decoder

pytestmark = [pytest.mark.anyio, pytest.mark.on_asyncio, pytest.mark.slow]

_TYPES = [b"text/event-stream", b"text/event-stream", b"application/json", b"text/html", b""]
_STATUSES = [200, 200, 200, 200, 200, 201, 204, 302, 400, 429, 500, 529]


class Bench(NamedTuple):
    """A gateway for each dialect, whose upstream sends what a test says."""

    upstream: FaultyUpstream
    running: Gateways
    records: Records


@pytest.fixture(scope="module")
async def bench() -> AsyncIterator[Bench]:
    async with AsyncExitStack() as stack:
        upstream = await stack.enter_async_context(FaultyUpstream().running())
        records = Records()
        known = gateways(upstream.url, observers=(records,), idle_s=2, finish_grace_s=0.1)
        yield Bench(upstream, await stack.enter_async_context(known), records)


def damaged_whole(d: Draws, dialect: str) -> bytes:
    """Return a whole body with some bytes changed, missing or doubled."""
    body = bytearray(ANSWERS[dialect].whole)
    for _ in range(d.below(4)):
        at = (d.below(256) * 256 + d.below(256)) % len(body)
        match d.below(3):
            case 0:
                body[at] = d.pick(b'{}[]",:0x\\\xff\x00')
            case 1:
                del body[at : at + 1 + d.below(40)]
            case _:
                body[at:at] = body[at : at + 1 + d.below(40)]
    return bytes(body)


def response_of(d: Draws, dialect: str, *, stream: bool) -> bytes:
    """Return the bytes of a response."""
    body = any_body(d, dialect) if stream != d.flag(4) else damaged_whole(d, dialect)
    status, kind = d.pick(_STATUSES), d.pick(_TYPES)
    head = b"HTTP/1.1 %d Status\r\nconnection: close\r\n" % status
    head += b"content-type: " + kind + b"\r\n" if kind else b""
    if status == 204:
        return head + b"\r\n"
    size = d.pick([1 << 20, 1000, 61, 7])
    chunks = [chunked(body[at : at + size]) for at in range(0, len(body), size)]
    return head + b"transfer-encoding: chunked\r\n\r\n" + b"".join(chunks) + b"0\r\n\r\n"


def assert_is_error(body: Any, status: int, client: str) -> None:
    """Assert that a body is an error of a dialect, with its status."""
    error = body["error"]
    assert isinstance(error["message"], str)
    match client:
        case "anthropic":
            assert body["type"] == "error"
            assert isinstance(error["type"], str)
        case "gemini":
            assert (error["code"], type(error["status"])) == (status, str)
        case _:
            assert {"type", "param", "code"} <= error.keys()


async def assert_is_answered(bench: Bench, client: str, target: str, *, stream: bool) -> None:
    bench.records.ended.clear()
    path, body = REQUESTS[client]
    if not stream:
        path = path.replace("streamGenerateContent?alt=sse", "generateContent")
        body = {**body, "stream": False}
    async with httpx.AsyncClient() as http:
        response = await http.post(bench.running.urls[target] + path, json=body)
    assert await bench.running.connections_in_use(target) == 0
    [call] = bench.records.ended
    assert call.status == response.status_code
    completed = isinstance(call.outcome, Completed)
    if response.status_code != 200:
        assert 400 <= response.status_code <= 599
        assert not completed
        # An error body of the client's own dialect passes as it is, whatever it lacks.
        if client != target:
            assert_is_error(response.json(), response.status_code, client)
    elif stream:
        source = decoder(client)
        events = [*source.feed(response.content), *source.close()]
        assert isinstance(source.outcome, Completed) == completed, events[-1]
    else:
        assert completed
        # So Gemini says that the arguments of a call are no object.
        if b'"MALFORMED_FUNCTION_CALL"' not in response.content:
            assert decode_message(response.json(), client)


@pytest.mark.parametrize("count", [4, pytest.param(20, marks=pytest.mark.slow)])
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("target", SDKS)
@pytest.mark.parametrize("client", SDKS)
async def test_bad_upstream_is_answered_in_the_dialect_of_the_client(
    client: str, target: str, stream: bool, count: int, bench: Bench
) -> None:
    for number in range(count):
        seed = f"{client} {target} {stream} {number}"
        d = Draws(random.Random(seed).randbytes(600))  # noqa: S311 - no secret
        bench.upstream.script = [response_of(d, target, stream=stream)]
        try:
            await assert_is_answered(bench, client, target, stream=stream)
        except (AssertionError, httpx.HTTPError, StreamnormError) as exc:
            exc.add_note(f"{seed}: {bench.upstream.script!r}"[:3000])
            raise
