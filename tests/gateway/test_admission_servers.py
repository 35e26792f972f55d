"""The door of a gateway behind real servers: bytes that no client library sends."""

from __future__ import annotations

import asyncio
import json

import pytest
from support.gateway.calls import opened
from support.gateway.servers import SERVERS, ServerName, served

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("server", SERVERS)]

BODY = b'{"model":"m","max_tokens":9,"messages":[]}'
PIPELINED = b"GET /v1/models HTTP/1.1\r\nhost: canary-7f3a\r\n\r\n"


async def exchange(url: str, *pieces: bytes, ends: bool = True) -> bytes:
    """Return all that a server sends before it closes the connection.

    Args:
        url: URL of the server.
        pieces: What to send, with a pause for the server between them.
        ends: Whether the server closes the connection; else the first answer is returned.
    """
    reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
    try:
        async with asyncio.timeout(5):
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(0)
            return await (reader.read() if ends else reader.readuntil(b"\r\n\r\n"))
    finally:
        writer.close()


def head(*lines: str, path: str = "/v1/messages", method: str = "POST") -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/1.1", "host: localhost", *lines, "", ""]).encode()


@pytest.mark.parametrize(
    "lines",
    [
        (f"content-length: {len(BODY)}", "transfer-encoding: chunked"),
        ("transfer-encoding: chunked", "content-length: 0"),
        (f"content-length: {len(BODY)}", "host: other"),
        (f"content-length: {len(BODY)}", f"content-length: {len(BODY) + 1}"),
        (f"content-length: {len(BODY)}", "transfer-encoding: identity"),
        ("content-length: -1",),
        ("content-length: 5, 6",),
    ],
)
async def test_nothing_is_smuggled_behind_an_odd_request(
    server: ServerName, lines: tuple[str, ...]
) -> None:
    chunked = b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY)
    body = chunked if any("chunked" in line for line in lines) else BODY
    async with opened() as app, served(app, server) as url:
        answer = await exchange(url, head(*lines) + body + PIPELINED)
    assert answer.split()[1] in (b"400", b"501")  # the second is the server's own
    assert answer.count(b"HTTP/1.1") == 1
    assert b"canary" not in answer


async def test_body_above_the_bound_closes_the_connection(server: ServerName) -> None:
    async with opened(max_body_bytes=100) as app, served(app, server) as url:
        for announced in (head("content-length: 101"), head("transfer-encoding: chunked")):
            body = b"" if b"101" in announced else b"c8\r\n" + b"x" * 200 + b"\r\n"
            answer = await exchange(url, announced, body)
            assert answer.startswith(b"HTTP/1.1 413")
            assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["type"] == (
                "request_too_large"
            )


async def test_websocket_is_refused_over_http(server: ServerName) -> None:
    lines = (
        "connection: upgrade",
        "upgrade: websocket",
        "sec-websocket-version: 13",
        "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==",
    )
    async with opened(websockets=False) as app, served(app, server) as url:
        request = head(*lines, path="/v1/responses", method="GET")
        answer = await exchange(url, request, ends=False)
    assert answer.startswith(b"HTTP/1.1 426")


async def test_head_has_no_body(server: ServerName) -> None:
    async with opened() as app, served(app, server) as url:
        lines = ("connection: close",)
        answer = await exchange(url, head(*lines, path="/healthz", method="HEAD"))
        assert answer.startswith(b"HTTP/1.1 200")
        assert answer.endswith(b"\r\n\r\n")
        answer = await exchange(url, head(*lines, path="/v1/messages", method="OPTIONS"))
        assert answer.startswith(b"HTTP/1.1 405")


async def test_refusal_leaves_the_connection_to_further_requests(server: ServerName) -> None:
    refused = head(f"content-length: {len(BODY)}", "content-type: text/plain") + BODY
    health = head("connection: close", path="/healthz", method="GET")
    async with opened() as app, served(app, server) as url:
        answer = await exchange(url, refused + health)
    assert answer.count(b"HTTP/1.1 415") == 1
    assert answer.count(b"HTTP/1.1 200") <= 1  # a server may also close the connection
