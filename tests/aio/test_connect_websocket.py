"""`connect` at the URL of a WebSocket: a create, and the answer to it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import anyio
import httpx
import httpx2
import pytest
from support.gateway.servers import served
from support.http.loopback import Server
from websockets.asyncio.server import ServerConnection, serve

import streamnorm
from streamnorm import (
    Abandoned,
    Completed,
    LocalProtocolError,
    StreamError,
    TextDelta,
    Truncated,
    UpstreamError,
)
from streamnorm.asgi import RecordingProxy
from streamnorm.recording import Recording
from streamnorm.sse import SSEDecoder
from streamnorm.testing import FakeProvider, faults

pytestmark = [pytest.mark.anyio, pytest.mark.on_asyncio]
families = pytest.mark.parametrize("family", [httpx, httpx2])

BODY = {"model": "m", "input": "Weather?", "stream": True}


def address(url: str, path: str = "/v1/responses") -> str:
    return f"ws{url.removeprefix('http')}{path}"


@pytest.mark.parametrize("family", [httpx, httpx2])
async def test_request_is_a_create_and_its_answer_events(family: Any, tmp_path: Path) -> None:
    provider = FakeProvider("It snows.")
    async with (
        served(provider.app(), strict=False, has_websockets=True) as upstream,
        served(RecordingProxy(upstream, tmp_path), strict=False, has_websockets=True) as url,
        family.AsyncClient(headers={"openai-beta": "b=1"}) as client,
    ):
        options = {"json": BODY, "headers": {"authorization": "Bearer k"}}
        async with streamnorm.connect(client, "GET", address(url), **options) as stream:
            texts = [event.text async for event in stream if isinstance(event, TextDelta)]
        assert "".join(texts) == "It snows."
        assert isinstance(stream.outcome, Completed)
        assert stream.message.text == "It snows."
    recorded = Recording.load(tmp_path / "01-responses.ws.jsonl").request
    assert recorded is not None
    assert recorded.body == {"type": "response.create", "model": "m", "input": "Weather?"}
    assert recorded.headers == {"openai-beta": "b=1"}
    assert provider.requests[0].headers["user-agent"].startswith("python-httpx")


async def test_answer_is_written_in_another_dialect() -> None:
    create = {"type": "response.create", "model": "m", "input": "Weather?"}
    async with (
        served(FakeProvider("It snows.").app(), strict=False, has_websockets=True) as url,
        httpx.AsyncClient() as client,
    ):
        stream = streamnorm.connect(client, "GET", address(url), json=create, to="anthropic")
        frames = SSEDecoder().feed(b"".join([data async for data in stream]))
    assert [frame.event for frame in frames][-1] == "message_stop"


async def test_failures_are_those_of_the_provider() -> None:
    script = [
        StreamError("upstream", "Slow.", "rate_limit_exceeded", 429),
        ["It snows.", faults.cut(event=6)],
        ["It snows.", faults.drop_terminal()],
    ]
    async with (
        served(FakeProvider(script).app(), strict=False, has_websockets=True) as url,
        httpx.AsyncClient() as client,
    ):
        with pytest.raises(UpstreamError) as caught:
            await anext(streamnorm.connect(client, "GET", address(url), json=BODY))
        assert (caught.value.status, caught.value.message) == (429, "Slow.")
        for _ in range(2):  # closed with 1011, and with 1000
            stream = streamnorm.connect(client, "GET", address(url), json=BODY, errors="yield")
            assert isinstance([event async for event in stream][-1], StreamError)
            assert isinstance(stream.outcome, Truncated)
        # The refusal of a handshake has a status and a body.
        provider = FakeProvider("Yes.", dialect="openai_chat")
        async with served(provider.app(), strict=False, has_websockets=True) as other:
            refused = address(other)
            with pytest.raises(UpstreamError) as caught:
                await anext(streamnorm.connect(client, "GET", refused, json=BODY))
            assert caught.value.status == 404


async def test_nobody_listens() -> None:
    async with httpx.AsyncClient() as client:
        stream = streamnorm.connect(
            client, "GET", "ws://127.0.0.1:9/v1/responses", json=BODY, errors="yield"
        )
        (error,) = [event async for event in stream]
        assert isinstance(error, StreamError)
        assert error.kind == "transport"


async def test_what_no_websocket_has_is_refused_at_once() -> None:
    async with httpx.AsyncClient() as client:
        url = "wss://h.example/v1/responses"
        for options in ({"json": BODY, "params": {}}, {"json": "text"}, {}):
            with pytest.raises(TypeError, match="expected json, headers and timeout"):
                streamnorm.connect(client, "GET", url, **options)  # type: ignore[arg-type]  # wrong on purpose
        with pytest.raises(ValueError, match="a WebSocket at another path"):
            streamnorm.connect(client, "GET", "wss://h.example/v1/files", json=BODY)
        with pytest.raises(TypeError, match="timeout holds str, expected seconds or None"):
            streamnorm.connect(client, "GET", url, json=BODY, timeout="soon")


async def be_silent(socket: ServerConnection) -> None:
    await socket.recv()
    await socket.wait_closed()


async def ended(stream: Any) -> StreamError:
    """Return the last event of a stream, which is an error."""
    with anyio.fail_after(20):
        error = [event async for event in stream][-1]
    assert isinstance(error, StreamError)
    return error


@families
async def test_silent_server_ends_in_the_read_timeout_of_the_client(family: Any) -> None:
    async with serve(be_silent, "127.0.0.1", 0) as server:
        (port,) = {socket.getsockname()[1] for socket in server.sockets}
        url = f"ws://127.0.0.1:{port}/v1/responses"
        short = family.Timeout(60, read=0.05)
        for timeout, options in (
            (short, {}),
            (60, {"timeout": short}),
            (None, {"timeout": 0.5}),
        ):
            async with family.AsyncClient(timeout=timeout) as client:
                stream = streamnorm.connect(
                    client, "GET", url, json=BODY, errors="yield", **options
                )
                error = await ended(stream)
            assert (error.kind, error.retryable) == ("stalled", True)
            assert error.message == "connection timed out before the first event"
            assert isinstance(stream.outcome, Truncated)


@families
async def test_stalled_handshake_ends_in_the_connect_timeout(family: Any) -> None:
    async with Server([], stays_open=True).running() as server:
        url = address(server.url.removesuffix("/v1"))
        async with family.AsyncClient(timeout=family.Timeout(60, connect=0.05)) as client:
            error = await ended(streamnorm.connect(client, "GET", url, json=BODY, errors="yield"))
    assert (error.kind, error.message) == ("stalled", "connection timed out before the first event")


async def test_client_that_states_no_timeout_has_none() -> None:
    class Sending:
        """Has only what `connect` needs."""

        def stream(self, method: str, url: str, **_: object) -> None: ...

    async with served(FakeProvider("Yes.").app(), strict=False, has_websockets=True) as url:
        stream = streamnorm.connect(Sending(), "GET", address(url), json=BODY)  # type: ignore[call-overload]  # no client of httpx
        assert [event async for event in stream]
    assert stream.outcome == Completed("end_turn", stream.usage)


async def test_missing_package_is_raised_to_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "websockets.asyncio.client", None)
    async with httpx.AsyncClient() as client:
        stream = streamnorm.connect(
            client, "GET", "ws://127.0.0.1:9/v1/responses", json=BODY, errors="yield"
        )
        with pytest.raises(ModuleNotFoundError):
            await anext(stream)
    assert stream.outcome == Abandoned()


def test_websocket_under_trio_is_raised_to_the_caller() -> None:
    async def read() -> None:
        async with httpx.AsyncClient() as client:
            await anext(
                streamnorm.connect(client, "GET", "ws://127.0.0.1:9/v1/responses", json=BODY)
            )

    expected = "a WebSocket in another loop, expected that of asyncio"
    with pytest.raises(LocalProtocolError, match=expected):
        anyio.run(read, backend="trio")
