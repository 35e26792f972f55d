"""Connections to an upstream that many clients share: none gets what another was sent."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import httpx
import pytest
from support.gateway.servers import (
    SERVERS,
    ServerName,
    gateway_config,
    served,
)
from support.gateway.upstreams import TARGET
from support.http.raw_upstream import ChattyUpstream, json_response, stream_pieces
from support.http.tls import Authority

from streamnorm._upstream.auxiliary import UpstreamCall
from streamnorm.gateway import Gateway
from streamnorm.gateway.network import Connector, Network, Request, UnrequestedBytes

pytestmark = pytest.mark.anyio

FIRST, SECOND, LATE = "for the first client", "for the second client", "of nobody"
LATE_RESPONSE = json_response(LATE)
LATE_STREAM = b"".join(stream_pieces(LATE))
TIMEOUT = b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\n\r\n"
TIMEOUT_CLOSE = b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
GARBAGE = b"\0\1\2"
# What an upstream may send without a request.
UNREQUESTED = {
    "response": LATE_RESPONSE,
    "stream": LATE_STREAM,
    "two_responses": LATE_RESPONSE * 2,
    "timeout": TIMEOUT,
    "timeout_close": TIMEOUT_CLOSE,
    "informational": b"HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n",
    "informational_and_response": b"HTTP/1.1 100 Continue\r\n\r\n" + LATE_RESPONSE,
    "half_a_head": LATE_RESPONSE[:30],
    "head": LATE_RESPONSE.partition(b"{")[0],
    "one_byte": b"H",
    "garbage": GARBAGE,
    "blank_line": b"\r\n",
}
unrequested = pytest.mark.parametrize("data", UNREQUESTED.values(), ids=UNREQUESTED)


def chat(text: str, *, stream: bool = False) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "user", "content": text}], "stream": stream}


async def ask(url: str, text: str, *, dialect: str = "openai_chat") -> str:
    """Return the answer to a client that has a connection of its own."""
    path = "/v1/chat/completions" if dialect == "openai_chat" else "/v1/messages"
    async with httpx.AsyncClient() as client:
        response = await client.post(url + path, json={**chat(text), "max_tokens": 9})
    return f"{response.status_code} {response.text}"


@asynccontextmanager
async def gateway(
    server: ServerName = "uvicorn", **options: Any
) -> AsyncIterator[tuple[str, ChattyUpstream]]:
    async with ChattyUpstream().running() as upstream:
        app = Gateway(gateway_config(upstream.url, options=options), environ={})
        async with served(app, server) as url:
            yield url, upstream


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("dialect", ["openai_chat", "anthropic"])
@unrequested
async def test_bytes_on_an_idle_connection_reach_nobody(
    server: ServerName, dialect: str, data: bytes
) -> None:
    async with gateway(server) as (url, upstream):
        assert FIRST in await ask(url, FIRST, dialect=dialect)
        upstream.send(data)
        answer = await ask(url, SECOND, dialect=dialect)
    assert answer.startswith("200 ")
    assert SECOND in answer
    assert upstream.asked == [(0, FIRST), (1, SECOND)]


@pytest.mark.parametrize("server", SERVERS)
@unrequested
async def test_bytes_behind_a_whole_answer_reach_nobody(server: ServerName, data: bytes) -> None:
    async with gateway(server) as (url, upstream):
        upstream.extra = data
        first = await ask(url, FIRST)
        second = await ask(url, SECOND)
    # A segment that ends in no HTTP is none.
    assert (first[:4], second[:4]) == ("502 " if data == GARBAGE else "200 ", "200 ")
    assert FIRST in first or data == GARBAGE
    assert LATE not in first
    assert SECOND in second
    if data != UNREQUESTED["blank_line"]:  # between two messages, a parser ignores it
        assert upstream.asked == [(0, FIRST), (1, SECOND)]


@pytest.mark.parametrize("server", SERVERS)
@unrequested
async def test_bytes_behind_a_stream_reach_nobody(server: ServerName, data: bytes) -> None:
    """The head of the stream has come before: its connection is free once its end is parsed."""
    async with gateway(server) as (url, upstream), httpx.AsyncClient() as client:
        upstream.extra = data
        path = f"{url}/v1/chat/completions"
        async with client.stream("POST", path, json=chat(FIRST, stream=True)) as response:
            pieces = aiter(response.aiter_bytes())
            first = await anext(pieces)
            upstream.gate.set()
            first += b"".join([piece async for piece in pieces])
        second = await ask(url, SECOND)
    assert FIRST.encode() in first
    assert LATE.encode() not in first
    assert first.endswith(b"data: [DONE]\n\n")
    assert second.startswith("200 ")
    assert SECOND in second
    if data != UNREQUESTED["blank_line"]:
        assert upstream.asked == [(0, FIRST), (1, SECOND)]


@unrequested
async def test_bytes_that_the_loop_has_not_read_drop_the_connection(data: bytes) -> None:
    """They are in the receive buffer of the socket when the next request is sent."""
    async with ChattyUpstream().running() as upstream, closing(Network(config(upstream))) as net:
        assert await sent(net, upstream, FIRST) == FIRST
        upstream.send(data)
        assert await sent(net, upstream, SECOND) == SECOND  # the loop does not run in between
    assert upstream.asked == [(0, FIRST), (1, SECOND)]


async def test_connection_that_the_upstream_has_closed_is_dropped() -> None:
    async with ChattyUpstream().running() as upstream, closing(Network(config(upstream))) as net:
        assert await sent(net, upstream, FIRST) == FIRST
        upstream.connections[0].close()
        await asyncio.sleep(0)
        assert await sent(net, upstream, SECOND) == SECOND
    assert upstream.asked == [(0, FIRST), (1, SECOND)]


async def test_all_idle_connections_with_bytes_are_dropped() -> None:
    count = 5
    async with ChattyUpstream().running() as upstream, closing(Network(config(upstream))) as net:
        await asyncio.gather(*(sent(net, upstream, FIRST) for _ in range(count)))
        assert len(upstream.connections) == count
        for number in range(count):
            upstream.send(LATE_RESPONSE, number)
        assert await sent(net, upstream, SECOND) == SECOND
    assert upstream.asked[-1] == (count, SECOND)


@unrequested
async def test_bytes_between_the_choice_of_a_connection_and_the_request(data: bytes) -> None:
    """Nothing was sent then; the gateway asks again on another connection."""

    async def send_late(*_: object) -> None:
        if len(upstream.asked) == 1 and len(upstream.connections) == 1:
            upstream.send(data)

    async with (
        ChattyUpstream().running() as upstream,
        pooled_session(before_write=send_late) as session,
    ):
        await posted(session, upstream, FIRST)
        with pytest.raises(UnrequestedBytes):
            await posted(session, upstream, SECOND)
        assert await posted(session, upstream, SECOND) == SECOND
    assert upstream.asked == [(0, FIRST), (1, SECOND)]


@pytest.mark.parametrize("resets", [False, True], ids=["close", "reset"])
async def test_idle_connection_that_the_upstream_closes_as_the_request_is_written(
    *, resets: bool
) -> None:
    """Nothing was sent on it; whatever was sent may have been executed, and is not sent again."""

    async def close(*_: object) -> None:
        if len(upstream.asked) == 1 and len(upstream.connections) == 1:
            end: socket.socket = upstream.connections[0].get_extra_info("socket")
            if resets:
                linger = struct.pack("ii", 1, 0)
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                upstream.connections[0].transport.abort()
                await asyncio.sleep(0)
            else:
                end.shutdown(socket.SHUT_RDWR)

    async with (
        ChattyUpstream().running() as upstream,
        closing(Network(config(upstream))) as net,
        pooled_session(before_write=close) as session,
    ):
        net._sessions[True] = session
        assert await sent(net, upstream, FIRST) == FIRST
        assert await sent(net, upstream, SECOND) == SECOND
    assert upstream.asked == [(0, FIRST), (1, SECOND)]


async def test_server_that_speaks_first_is_not_asked() -> None:
    """Its answers would come one request late."""

    async def wait_for_greeting(*_: object) -> None:
        await upstream.accepted.wait()

    async with ChattyUpstream().running() as upstream:
        upstream.greeting = LATE_RESPONSE
        async with pooled_session(before_write=wait_for_greeting) as session:
            with pytest.raises(UnrequestedBytes):
                await posted(session, upstream, FIRST)
    assert upstream.asked == []


async def test_connection_of_a_request_timeout_is_not_used_again() -> None:
    """A 408 without `connection: close` may be late, and the answer to come."""
    async with ChattyUpstream().running() as upstream, closing(Network(config(upstream))) as net:
        upstream.status = "408 Request Timeout"
        await sent(net, upstream, FIRST)
        upstream.status = "200 OK"
        assert await sent(net, upstream, SECOND) == SECOND
    assert upstream.asked == [(0, FIRST), (1, SECOND)]


async def test_connection_of_an_error_is_used_again() -> None:
    async with ChattyUpstream().running() as upstream, closing(Network(config(upstream))) as net:
        upstream.status = "429 Too Many Requests"
        await sent(net, upstream, FIRST)
        upstream.status = "200 OK"
        assert await sent(net, upstream, SECOND) == SECOND
    assert upstream.asked == [(0, FIRST), (0, SECOND)]


async def test_informational_responses_of_a_request_are_no_answer() -> None:
    async with ChattyUpstream().running() as upstream, closing(Network(config(upstream))) as net:
        upstream.status = "100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK"
        for text in (FIRST, SECOND):
            assert await sent(net, upstream, text) == text
    assert upstream.asked == [(0, FIRST), (0, SECOND)]


@pytest.mark.parametrize("server", SERVERS)
async def test_upstream_without_reuse_has_a_connection_for_each_request(
    server: ServerName,
) -> None:
    async with gateway(server, reuse=False) as (url, upstream):
        for text in (FIRST, SECOND):
            assert text in await ask(url, text)
    assert upstream.asked == [(0, FIRST), (1, SECOND)]
    assert all(b"\r\nconnection: close\r\n" in head.lower() for head in upstream.heads)


async def test_connection_is_used_again_by_default() -> None:
    async with gateway() as (url, upstream):
        for text in (FIRST, SECOND):
            assert text in await ask(url, text)
    assert upstream.asked == [(0, FIRST), (0, SECOND)]


@asynccontextmanager
async def pooled_session(
    before_write: Callable[..., Awaitable[None]] | None = None,
) -> AsyncIterator[aiohttp.ClientSession]:
    """Provide a session; `before_write` is called once a request has its connection."""
    trace = aiohttp.TraceConfig()
    if before_write is not None:
        trace.on_request_headers_sent.append(before_write)
    async with aiohttp.ClientSession(
        connector=Connector(), request_class=Request, trace_configs=[trace]
    ) as session:
        yield session


def config(upstream: ChattyUpstream) -> Any:
    return gateway_config(upstream.url)


@asynccontextmanager
async def closing(network: Network) -> AsyncIterator[Network]:
    try:
        yield network
    finally:
        await network.aclose()


async def sent(network: Network, upstream: ChattyUpstream, text: str) -> str:
    """Send a request, and return the text of its answer."""
    url = f"{upstream.url}/chat/completions"
    request = UpstreamCall(method="POST", url=url, headers={}, body=_body(text))
    async with await network.send(request, TARGET) as answer:
        return _text(await answer.read_all(10_000))


async def posted(
    session: aiohttp.ClientSession, upstream: ChattyUpstream, text: str, **options: Any
) -> str:
    url = f"{upstream.url}/chat/completions"
    response = await session.post(url, data=_body(text), **options)
    return _text(await response.read())


def _body(text: str) -> bytes:
    return json.dumps(chat(text)).encode()


def _text(body: bytes) -> str:
    text: str = json.loads(body)["choices"][0]["message"]["content"]
    return text


async def test_tls_connection_is_used_again_until_bytes_arrive(tmp_path: Path) -> None:
    """Session tickets of TLS 1.3 follow the handshake, and belong to no response."""
    authority = Authority(tmp_path)
    trust = ssl.create_default_context(cafile=authority.file)
    async with (
        ChattyUpstream().running(authority.server_context()) as upstream,
        pooled_session() as session,
    ):
        for text in (FIRST, SECOND):
            assert await posted(session, upstream, text, ssl=trust) == text
        upstream.send(LATE_RESPONSE)
        assert await posted(session, upstream, SECOND, ssl=trust) == SECOND
    assert upstream.asked == [(0, FIRST), (0, SECOND), (1, SECOND)]
