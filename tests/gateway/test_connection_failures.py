"""Reasons of failed connections to upstreams: real ones on loopback."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from support.gateway_servers import gateway_config, served
from support.gateway_upstreams import Records, asked
from support.raw_http import raw_upstream, serving
from support.tls import Authority

from streamnorm import Truncated
from streamnorm.gateway import Gateway

pytestmark = pytest.mark.anyio

LOST = "connection lost before the first event"


async def reason(upstream: str) -> str:
    """Return the reason in the gateway's error 502."""
    records = Records()
    app = Gateway(gateway_config(upstream), environ={}, observers=(records,))
    async with served(app) as url:
        response = await asked(url, "anthropic")
    assert response.status_code == 502
    [call] = records.ended
    assert isinstance(call.outcome, Truncated)
    assert call.outcome.error.kind == "transport"
    message: str = response.json()["error"]["message"]
    return message


def refuse_tls(connection: socket.socket) -> None:
    connection.recv(100_000)
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")


def reset(connection: socket.socket) -> None:
    connection.recv(1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


async def test_unknown_authority(tmp_path: Path) -> None:
    with Authority(tmp_path).upstream() as upstream:
        assert await reason(upstream.url) == (
            "TLS error: the provider's certificate is not trusted:"
            " unable to get local issuer certificate"
        )
        assert upstream.requests == []


@pytest.mark.parametrize(
    ("respond", "error"),
    [
        (refuse_tls, "TLS error: the handshake failed: wrong version number"),
        (
            lambda connection: connection.recv(100_000),
            "connection error: the provider could not be reached",
        ),
    ],
    ids=["http", "hangs_up"],
)
async def test_server_without_tls(respond: Callable[[socket.socket], object], error: str) -> None:
    with serving(respond) as address:
        assert await reason(f"https://{address}") == error


async def test_unknown_host_name() -> None:
    found = await reason("http://nowhere.invalid")
    assert found.startswith("DNS error: the provider's host name does not resolve: ")
    assert "nowhere" not in found


@pytest.mark.parametrize("url", ["http://127.0.0.1", "https://127.0.0.1", "http://localhost"])
async def test_refused_connection(url: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    refused = "connection error: the provider refused the connection"
    assert await reason(f"{url}:{port}") == refused


async def test_reset_before_a_response() -> None:
    with serving(reset) as address:
        assert await reason(f"http://{address}") == LOST


async def test_no_response() -> None:
    with raw_upstream(b"") as upstream:
        assert await reason(upstream.url) == LOST
