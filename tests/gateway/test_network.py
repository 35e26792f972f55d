"""Answers of upstreams over a socket: the clocks, and what is no HTTP."""

from __future__ import annotations

import asyncio
import gc
import gzip
import socket
import struct
import tracemalloc
import zlib
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from types import SimpleNamespace
from typing import Any, cast

import httpx
import pytest
from support.gateway.servers import gateway_config, served, served_gateway
from support.gateway.upstreams import (
    ANSWER,
    TARGET,
    Head,
    Records,
    Step,
    StepUpstream,
    asked,
    opened,
)
from support.http.loopback import HEAD, Server, chunked

from streamnorm import Completed, Truncated, Usage
from streamnorm._upstream.auxiliary import UpstreamCall
from streamnorm.aio.pump import Pump
from streamnorm.gateway import Gateway
from streamnorm.gateway.messages import ClientStream
from streamnorm.gateway.network import Network
from streamnorm.gateway.receiving import ServerStopping, Stalled, UpstreamResponse

pytestmark = pytest.mark.anyio

LAST_CHUNK = b"0\r\n\r\n"


@asynccontextmanager
async def gateway(
    answer: list[bytes],
    *,
    stays_open: bool = False,
    records: Records | None = None,
    **settings: Any,
) -> AsyncIterator[tuple[str, Server]]:
    """Serve a gateway in front of a scripted server, and yield its URL and that server."""
    async with Server(answer, stays_open=stays_open).running() as upstream:
        config = gateway_config(upstream.url, **settings)
        app = Gateway(config, environ={}, observers=() if records is None else (records,))
        async with served(app) as url:
            yield url, upstream


@asynccontextmanager
async def opened_answer(steps: Sequence[Step], **settings: Any) -> AsyncIterator[UpstreamResponse]:
    """Ask an upstream, and yield the answer, of which nothing was read."""
    async with served(StepUpstream(steps)) as url:
        network = Network(gateway_config(url, **settings))
        request = UpstreamCall(method="POST", url=url, headers={}, body=b"{}")
        async with await network.send(request, TARGET) as answer:
            yield answer
        await network.aclose()


async def test_finished_answer_that_stays_open_is_complete_after_its_grace() -> None:
    """Its connection is not used again, as the end of this answer may still come on it."""
    records = Records()
    answer = [HEAD + b"".join(map(chunked, ANSWER[:-1]))]
    async with gateway(answer, stays_open=True, records=records, finish_grace_s=0.03) as (url, up):
        for _ in range(2):
            response = await asked(url, "openai_chat")
            assert response.content == b"".join(ANSWER[:-1])
        assert up.connections == 2
    assert len(records.ended) == 2
    for call in records.ended:
        assert call.outcome == Completed("end_turn", Usage(), ("no_done",))


async def test_pings_do_not_extend_the_grace_of_a_finished_answer() -> None:
    records = Records()
    upstream = StepUpstream([*ANSWER[:-1], *[b": ping\n\n", 0.01] * 1000])
    settings = {"observers": (records,), "finish_grace_s": 0.05}
    async with served_gateway(upstream, **settings) as running:
        response = await asked(running.url, "anthropic")
    assert b"message_stop" in response.content
    assert records.ended[0].outcome == Completed("end_turn", Usage(), ("no_done",))


async def test_finished_anthropic_answer_is_cut_without_its_terminal() -> None:
    """Only the dialects whose servers leave the terminal out have the grace."""
    text = b'event: message_start\ndata: {"type":"message_start","message":{"usage":{}}}\n\n'
    records, answer = Records(), [HEAD + chunked(text)]
    settings = {"dialect": "anthropic", "finish_grace_s": 0.01, "idle_s": 0.05}
    async with gateway(answer, stays_open=True, records=records, **settings) as (url, _):
        response = await asked(url, "anthropic")
    assert b"connection timed out after 1 event" in response.content
    assert isinstance(records.ended[0].outcome, Truncated)


async def test_connection_of_a_complete_answer_is_used_again() -> None:
    answer = [HEAD + b"".join(map(chunked, ANSWER)) + LAST_CHUNK]
    async with gateway(answer) as (url, upstream):
        for _ in range(3):
            assert (await asked(url, "openai_chat")).content == b"".join(ANSWER)
        assert upstream.connections == 1


@pytest.mark.parametrize(
    "answer",
    [
        [b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 1000 + b"\r\n"],
        [b"HTTP/1.1 200 OK\r\nx: " + b"y" * 100_000 + b"\r\n\r\n"],
        [b"\0\x01\x02 garbage\r\n\r\n"],
        [b"HTTP/1.1 200 OK\r\ncontent-length: -5\r\n\r\n"],
        [HEAD + b"zz\r\n"],
        [HEAD + b"-1\r\n"],
        [HEAD + b"f" * 100 + b"\r\n"],
    ],
    ids=["flood", "long", "garbage", "length", "chunk", "negative_chunk", "huge_chunk"],
)
async def test_broken_http_is_an_error_of_ours(answer: list[bytes]) -> None:
    async with gateway(answer) as (url, upstream):
        response = await asked(url, "anthropic")
        assert upstream.url.partition("//")[2].partition("/")[0] not in response.text
    assert response.status_code == 502
    expected = "an answer that is no HTTP, or has too long a header"
    assert response.json()["error"]["message"] == expected


async def test_broken_chunk_within_the_stream_is_an_error_event() -> None:
    gate = asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(HEAD + chunked(ANSWER[0]))
        await gate.wait()
        writer.write(b"zz\r\n")
        await reader.read()  # until the gateway hangs up
        writer.close()

    upstream = await asyncio.start_server(answer, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{upstream.sockets[0].getsockname()[1]}"
    async with (
        upstream,
        served(Gateway(gateway_config(url), environ={})) as gateway_url,
        httpx.AsyncClient() as http,
        opened(http, gateway_url, "anthropic") as response,
    ):
        body = response.aiter_raw()
        await anext(body)
        gate.set()
        rest = b"".join([chunk async for chunk in body])
    assert b"connection lost after 1 event" in rest


async def test_reset_of_an_idle_connection_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    reset = asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(HEAD)
        await asyncio.sleep(0.01)  # an answer that is there at once leaves no connection to watch
        writer.write(b"".join(map(chunked, ANSWER)) + LAST_CHUNK)
        await reset.wait()
        linger = struct.pack("ii", 1, 0)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        writer.close()

    upstream = await asyncio.start_server(answer, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{upstream.sockets[0].getsockname()[1]}"
    async with upstream, served(Gateway(gateway_config(url), environ={})) as gateway_url:
        for _ in range(2):  # the second finds the connection of the first in the pool
            response = await asked(gateway_url, "openai_chat")
            assert response.content == b"".join(ANSWER)
            reset.set()
            await asyncio.sleep(0.05)
    gc.collect()
    assert [record for record in caplog.records if record.name == "asyncio"] == []


async def test_header_above_the_default_of_the_client_library_is_accepted() -> None:
    head = HEAD.replace(b"\r\n\r\n", b"\r\nx: " + b"y" * 20_000 + b"\r\n\r\n")
    async with gateway([head + b"".join(map(chunked, ANSWER)) + LAST_CHUNK]) as (url, _):
        assert (await asked(url, "openai_chat")).status_code == 200


CODINGS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "x-gzip": gzip.compress,
    "deflate": zlib.compress,
    # Routes of Next.js and Flask say so on purpose.
    "none": bytes,
    "utf-8": bytes,
}


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("coding", CODINGS)
async def test_content_coding_that_was_not_asked_for_is_undone(coding: str, stream: bool) -> None:
    head = Head(200, {"content-type": "text/event-stream", "content-encoding": coding})
    data = CODINGS[coding](b"".join(ANSWER))
    upstream = StepUpstream([head, data[:9], data[9:]])
    async with served_gateway(upstream) as running:
        response = await asked(running.url, "anthropic", stream=stream)
    assert response.status_code == 200
    assert "content-encoding" not in response.headers
    assert b'"end_turn"' in response.content


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize(
    ("coding", "message"),
    [
        ("br", "a content-encoding other than gzip and deflate, expected none"),
        ("gzip, gzip", "a content-encoding other than gzip and deflate, expected none"),
        ("gzip", "a body that is not of its content-encoding, expected one that is"),
    ],
)
async def test_body_that_cannot_be_decoded_is_an_error(
    coding: str, message: str, stream: bool
) -> None:
    head = Head(200, {"content-type": "text/event-stream", "content-encoding": coding})
    async with served_gateway(StepUpstream([head, *ANSWER])) as running:
        response = await asked(running.url, "anthropic", stream=stream)
    assert response.status_code == 502
    assert response.json()["error"]["message"] == message


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
async def test_error_response_that_cannot_be_decoded_has_its_status(stream: bool) -> None:
    head = Head(429, {"content-type": "application/json", "content-encoding": "br"})
    async with served_gateway(StepUpstream([head, b"abc"])) as running:
        response = await asked(running.url, "anthropic", stream=stream)
    assert response.status_code == 429
    found = "a content-encoding other than gzip and deflate, expected none"
    assert response.json()["error"]["message"] == f"HTTP 429 with {found}"


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
async def test_error_response_of_events_has_the_message_of_the_provider(stream: bool) -> None:
    head = Head(401, {"content-type": "text/event-stream"})
    body = b'data: {"error":{"message":"no key","type":"authentication_error"}}\n\n'
    async with served_gateway(StepUpstream([head, body])) as running:
        response = await asked(running.url, "anthropic", stream=stream)
    assert response.status_code == 401
    assert response.json()["error"]["message"] == "no key"


async def test_bomb_is_refused_at_the_bound_of_an_event() -> None:
    """A megabyte that becomes a gigabyte is inflated step by step, and no further."""
    head = Head(200, {"content-type": "text/event-stream", "content-encoding": "gzip"})
    bomb = zlib.compressobj(wbits=31)
    data = bomb.compress(b"data: ") + b"".join(bomb.compress(bytes(1 << 20)) for _ in range(64))
    tracemalloc.start()
    async with served_gateway(
        StepUpstream([head, data + bomb.flush()]), max_event_bytes=1 << 20
    ) as running:
        response = await asked(running.url, "anthropic")
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert response.status_code == 502
    assert most < 16 << 20


async def test_whole_answer_is_read_no_further_than_it_may_be_long() -> None:
    head, piece = Head(200, {"content-type": "application/json"}), b" " * (1 << 20)
    upstream = StepUpstream([head, b"{", *[piece] * 64])
    async with served_gateway(upstream, max_event_bytes=1 << 20) as running:
        response = await asked(running.url, "anthropic", stream=False)
        await upstream.closed.wait()
    assert response.status_code == 502
    assert upstream.sent < 64


async def test_compressed_error_is_read() -> None:
    head = Head(429, {"content-type": "application/json", "content-encoding": "gzip"})
    upstream = StepUpstream([head, gzip.compress(b'{"error":{"message":"Slow down."}}')])
    async with served_gateway(upstream) as running:
        response = await asked(running.url, "anthropic")
    assert response.status_code == 429
    assert response.json()["error"]["message"] == "Slow down."


async def test_error_that_cannot_be_decoded_keeps_its_status() -> None:
    head = Head(429, {"content-type": "application/json", "content-encoding": "br"})
    async with served_gateway(StepUpstream([head, b"..."])) as running:
        response = await asked(running.url, "anthropic")
    assert response.status_code == 429


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("steps", [[1.0], [Head(), 1.0]], ids=["no_status", "no_byte"])
async def test_upstream_must_begin_in_time(steps: list[Any], stream: bool) -> None:
    async with served_gateway(StepUpstream(steps), first_byte_s=0.05) as running:
        response = await asked(running.url, "anthropic", stream=stream)
    assert response.status_code == 504
    assert "timed out before the first event" in response.json()["error"]["message"]


async def test_stop_ends_a_request_whose_time_is_over_just_then() -> None:
    server = Server([], stays_open=True)
    async with server.running():
        network = Network(gateway_config(server.url))
        request = UpstreamCall(method="GET", url=server.url, headers={})
        sent = asyncio.create_task(network.send(request, TARGET))
        await asyncio.sleep(0.05)
        network.stop()  # the time is over, and the request has not noticed
        await asyncio.sleep(0)
        network.stop()
        with pytest.raises(ServerStopping):
            await sent
        await network.aclose()


async def test_whole_answer_must_go_on_in_time() -> None:
    upstream = StepUpstream([Head(200, {"content-type": "application/json"}), b"{", 1.0])
    async with served_gateway(upstream, idle_s=0.05) as running:
        response = await asked(running.url, "anthropic", stream=False)
    assert response.status_code == 504


async def test_time_in_which_a_thread_decodes_a_read_is_not_the_client_s() -> None:
    """What is counted meanwhile is neither progress nor none."""
    pump = SimpleNamespace(progress=0, lacks_only_terminal=False)
    async with opened_answer([ANSWER[0], 60.0], progress_s=0.03, idle_s=5.0) as answer:
        answer.watch(cast("Pump[bytes]", pump))
        assert await answer.read() == ANSWER[0]
        with answer.suspend_time_limits():
            pump.progress = 2000  # frames, of which none is known to be idle
            await asyncio.sleep(0.1)
            pump.progress = 0
        with pytest.raises(Stalled):
            await answer.read()


@pytest.mark.parametrize("coding", ["identity", "gzip"])
@pytest.mark.parametrize("line", [b"\n", b"data:\r", b"data: {}\r\n\r\n"])
async def test_many_lines_of_one_read_are_returned_few_at_once(line: bytes, coding: str) -> None:
    body = b"data: 1\n\n" * 9 + line * 20_000 + b"data: 2"
    sent = CODINGS[coding](body) if coding in CODINGS else body
    head = Head(200, {"content-type": "text/event-stream", "content-encoding": coding})
    pieces: list[bytes] = []
    turns = 0

    async def take_turns() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    async with opened_answer([head, sent]) as answer:
        ticking = asyncio.create_task(take_turns())
        with suppress(StopAsyncIteration):
            while True:
                pieces.append(await answer.read())
        ticking.cancel()
    assert b"".join(pieces) == body
    assert max(piece.count(b"\n") + piece.count(b"\r") for piece in pieces) <= 1000
    assert len(pieces) > 20
    assert turns > 15


async def test_slow_client_does_not_make_the_upstream_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client reads nothing until all bounds of the upstream have passed several times.

    It would be cut off before, since one of them is also its own.
    """

    def stay(stream: ClientStream, idle_s: float, blocked_since: float | None) -> None:
        assert idle_s == 0.1

    monkeypatch.setattr(ClientStream, "_cut_off", stay)
    size, count = 100_000, 400
    text = b'data: {"choices":[{"index":0,"delta":{"content":"' + b"x" * size + b'"}}]}\n\n'
    upstream, records = StepUpstream([ANSWER[0], *[text] * count, *ANSWER[1:]]), Records()
    bounds = {"idle_s": 0.1, "progress_s": 0.1, "first_byte_s": 5.0}
    async with (
        served_gateway(upstream, observers=(records,), **bounds) as running,
        httpx.AsyncClient() as http,
        opened(http, running.url, "openai_chat") as response,
    ):
        for _ in range(6):
            await asyncio.sleep(0.1)
        assert upstream.open == 1  # the buffers of three sockets are full
        body = await response.aread()
    assert body.count(b"x" * 1000) * 1000 == size * count
    assert records.ended[0].outcome == Completed("end_turn", Usage())
