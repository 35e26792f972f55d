"""Reasons of failed connections to upstreams: real ones on loopback."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import aiohttp.client_proto
import aiohttp.http_parser
import httpx
import pytest
from support.gateway.processes import gateway_process
from support.gateway.servers import gateway_config, served
from support.gateway.upstreams import ANSWER, Records, asked, opened
from support.http.raw_http import raw_upstream, refuse_tls, reset, serving
from support.http.tls import Authority

from streamnorm.gateway import CallRecord, Config, Gateway, ModelConfig, UpstreamConfig

pytestmark = pytest.mark.anyio

_SEGMENT_S = 0.1
LOST = "connection lost before the first event"
NO_HTTP = "an answer that is no HTTP, or has too long a header"
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
CHUNKED = HEAD + b"transfer-encoding: chunked\r\n\r\n"
EVENT = ANSWER[0]
CHUNK = b"%x\r\n%s\r\n" % (len(EVENT), EVENT)


async def failure(upstream: str) -> tuple[str | None, str]:
    """Return the reason in the gateway's record, and the message of its error 502."""
    call, message = await failed_call(upstream)
    return call.reason, message


async def failed_call(upstream: str, *, stream: bool = True) -> tuple[CallRecord, str]:
    """Return the record of a request that failed, and the message of its error 502."""
    records = Records()
    app = Gateway(gateway_config(upstream), environ={}, observers=(records,))
    async with served(app) as url:
        response = await asked(url, "anthropic", stream=stream)
    assert response.status_code == 502
    [call] = records.ended
    assert call.ending == "failed"
    message: str = response.json()["error"]["message"]
    return call, message


def respond(connection: socket.socket, response: bytes, *, stalls: bool = False) -> None:
    """Send a response, and close the connection, or wait for the gateway to do so."""
    connection.recv(100_000)
    connection.sendall(response)
    if stalls:
        connection.recv(1)


async def test_unknown_authority(tmp_path: Path) -> None:
    with Authority(tmp_path).upstream() as upstream:
        assert await failure(upstream.url) == (
            "tls",
            "TLS error: the provider's certificate is not trusted:"
            " unable to get local issuer certificate",
        )
        assert upstream.requests == []


@pytest.mark.slow
async def test_authority_of_the_environment_is_trusted_and_its_proxies_are_not_used(
    tmp_path: Path,
) -> None:
    authority = Authority(tmp_path)
    environ = {"SSL_CERT_FILE": str(authority.file), "NO_PROXY": ""}
    environ |= dict.fromkeys(("HTTPS_PROXY", "ALL_PROXY"), "http://127.0.0.1:9")
    with authority.upstream() as upstream:
        async with gateway_process(upstream.url, tmp_path, environ=environ) as gateway:
            await asked(gateway.url, "anthropic")
    assert upstream.targets == [b"/v1/chat/completions"]


@pytest.mark.parametrize(
    ("respond", "reason", "error"),
    [
        (refuse_tls, "tls", "TLS error: the handshake failed: wrong version number"),
        (
            lambda connection: connection.recv(100_000),
            "reset",
            "connection error: the provider could not be reached",
        ),
    ],
    ids=["http", "hangs_up"],
)
async def test_server_without_tls(
    respond: Callable[[socket.socket], object], reason: str, error: str
) -> None:
    with serving(respond) as address:
        assert await failure(f"https://{address}") == (reason, error)


async def test_unknown_host_name() -> None:
    reason, found = await failure("http://nowhere.invalid")
    assert reason == "dns"
    assert found.startswith("DNS error: the provider's host name does not resolve: ")
    assert "nowhere" not in found


@pytest.mark.parametrize("url", ["http://127.0.0.1", "https://127.0.0.1", "http://localhost"])
async def test_refused_connection(url: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    refused = "connection error: the provider refused the connection"
    assert await failure(f"{url}:{port}") == ("refused", refused)


async def test_network_without_a_route() -> None:
    reason, found = await failure("http://255.255.255.255:9")  # broadcast, which TCP has none of
    assert reason == "connect"
    assert found.startswith("connection error: ")


async def test_reset_before_a_response() -> None:
    with serving(reset) as address:
        assert await failure(f"http://{address}") == ("reset", LOST)


async def test_no_response() -> None:
    with raw_upstream(b"") as upstream:
        assert await failure(upstream.url) == ("reset", LOST)


@pytest.mark.parametrize(
    "response",
    [b"220 mail.test\r\n\r\n", HEAD + b"x: " + b"a" * 40_000 + b"\r\n\r\n"],
    ids=["mail", "long_header"],
)
async def test_answer_that_is_no_http(response: bytes) -> None:
    with raw_upstream(response) as upstream:
        assert await failure(upstream.url) == ("protocol", NO_HTTP)


@pytest.mark.parametrize(
    ("response", "reason"),
    [
        (CHUNKED + b"zz\r\n", "protocol"),
        (CHUNKED, "reset"),
        (HEAD + b"content-encoding: gzip\r\ncontent-length: 5\r\n\r\nhello", "protocol"),
        (HEAD + b"content-length: 0\r\n\r\n", None),
        (HEAD + b'content-length: 15\r\n\r\ndata: {"a":1}\n\n', None),
    ],
    ids=["broken_chunk", "no_chunk", "no_gzip", "empty", "no_message"],
)
@pytest.mark.parametrize("stream", [True, False])
async def test_answer_that_breaks_before_its_first_event(
    response: bytes, reason: str | None, *, stream: bool
) -> None:
    """One that ends in order, without a message in it, has no reason but its kind of error."""
    with serving(partial(respond, response=response)) as address:
        call, _ = await failed_call(f"http://{address}", stream=stream)
    assert call.reason == reason


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("start", [b"", CHUNK], ids=["nothing", "event"])
async def test_broken_chunk_before_the_parser_of_aiohttp_in_python(
    start: bytes, *, stream: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its error for a broken chunk is none of a client; it runs where the one in C is missing."""
    parser = aiohttp.http_parser.HttpResponseParserPy
    monkeypatch.setattr(aiohttp.client_proto, "HttpResponseParser", parser)
    records = Records()

    def respond_in_two_segments(connection: socket.socket) -> None:
        respond(connection, CHUNKED + start)
        time.sleep(_SEGMENT_S)
        connection.sendall(b"zz\r\n")
        connection.recv(1)

    with serving(respond_in_two_segments) as address:
        app = Gateway(gateway_config(f"http://{address}"), environ={}, observers=(records,))
        async with served(app) as url:
            await asked(url, "anthropic", stream=stream)
    [call] = records.ended
    assert call.ending in ("failed", "truncated")
    assert call.error is not None
    assert (call.error.kind, call.reason) == ("transport", "protocol")


@pytest.mark.parametrize(
    ("rest", "stalls", "error", "reason"),
    [
        (b"", False, "transport", "reset"),
        (b"", True, "stalled", "timeout"),
        (b"0\r\n\r\n", False, "truncated", None),
    ],
    ids=["closed", "silent", "ended_in_order"],
)
@pytest.mark.parametrize("client", ["anthropic", "openai_chat"])
async def test_stream_that_breaks_behind_an_event(
    client: str, rest: bytes, *, stalls: bool, error: str, reason: str | None
) -> None:
    records = Records()
    upstream = partial(respond, response=CHUNKED + CHUNK + rest, stalls=stalls)
    with serving(upstream) as address:
        config = gateway_config(f"http://{address}", idle_s=0.2)
        async with served(Gateway(config, environ={}, observers=(records,))) as url:
            assert (await asked(url, client)).status_code == 200
    [call] = records.ended
    assert call.ending == "truncated"
    assert call.error is not None
    assert (call.error.kind, call.reason) == (error, reason)


async def test_broken_chunk_behind_an_event() -> None:
    records, is_read = Records(), threading.Event()

    def respond_in_two_segments(connection: socket.socket) -> None:
        respond(connection, CHUNKED + CHUNK)
        is_read.wait(10)
        connection.sendall(b"zz\r\n")
        connection.recv(1)

    with serving(respond_in_two_segments) as address:
        app = Gateway(gateway_config(f"http://{address}"), environ={}, observers=(records,))
        async with (
            served(app) as url,
            httpx.AsyncClient() as http,
            opened(http, url, "anthropic") as response,
        ):
            chunks = response.aiter_bytes()
            await anext(chunks)
            is_read.set()
            async for _ in chunks:
                pass
    [call] = records.ended
    assert (call.ending, call.reason) == ("truncated", "protocol")


WILDCARD = [ModelConfig(match="*", to=["local"])]


@pytest.mark.parametrize(
    ("dialect", "path", "models"),
    [
        ("openai_chat", "/v1/models", []),
        ("openai_chat", "/v1/models", WILDCARD),
        ("openai_chat", "/v1/models/m", []),
        ("openai_responses", "/v1/responses/resp_1", []),
        ("openai_responses", "/v1/responses/resp_1?stream=true", []),
    ],
)
async def test_request_for_no_message_has_a_reason(
    dialect: str, path: str, models: list[ModelConfig]
) -> None:
    records = Records()
    with raw_upstream(b"") as upstream:
        config = gateway_config(upstream.url, dialect, models=models)
        async with (
            served(Gateway(config, environ={}, observers=(records,))) as url,
            httpx.AsyncClient() as client,
        ):
            assert (await client.get(url + path)).status_code == 502
    [call] = records.ended
    assert call.reason == "reset"


async def test_stored_stream_that_breaks_has_a_reason() -> None:
    records = Records()
    event = b'event: response.created\ndata: {"type":"response.created","response":{}}\n\n'
    chunk = b"%x\r\n%s\r\n" % (len(event), event)
    with serving(partial(respond, response=CHUNKED + chunk)) as address:
        config = gateway_config(f"http://{address}", "openai_responses")
        async with (
            served(Gateway(config, environ={}, observers=(records,))) as url,
            httpx.AsyncClient() as client,
        ):
            await client.get(f"{url}/v1/responses/resp_1?stream=true")
    [call] = records.ended
    assert (call.ending, call.reason) == ("truncated", "reset")


async def test_upstream_that_takes_over_leaves_no_reason() -> None:
    records = Records()
    ended = CHUNKED + b"".join(b"%x\r\n%s\r\n" % (len(event), event) for event in ANSWER)
    with serving(reset) as broken, serving(partial(respond, response=ended)) as address:
        config = Config(
            upstreams={
                "broken": UpstreamConfig(dialect="openai_chat", base_url=f"http://{broken}"),
                "local": UpstreamConfig(dialect="openai_chat", base_url=f"http://{address}"),
            },
            models=[ModelConfig(match="*", to=["broken", "local"])],
        )
        async with served(Gateway(config, environ={}, observers=(records,))) as url:
            assert (await asked(url, "anthropic")).status_code == 200
    [call] = records.ended
    assert (call.ending, call.attempts, call.reason) == ("completed", 2, None)
