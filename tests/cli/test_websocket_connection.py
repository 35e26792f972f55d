"""WebSockets of a server: their place among its connections, their bounds, and their end."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, NamedTuple

import pytest
import uvicorn
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from streamnorm.cli import serving
from streamnorm.cli.httptools_connection import HttpToolsConnection
from streamnorm.cli.server import MAX_HEAD_BYTES, Connection, Connections, H11Connection, Server

pytestmark = pytest.mark.anyio

MAX_MESSAGE_BYTES = 100_000


@pytest.fixture(params=[H11Connection, HttpToolsConnection], ids=["h11", "httptools"])
def parser(request: pytest.FixtureRequest) -> type[Connection]:
    return request.param


@pytest.fixture
def anyio_backend(parser: type[Connection]) -> tuple[str, dict[str, Any]]:
    """Use the event loop that a server has with the parser."""
    return "asyncio", {"use_uvloop": parser is HttpToolsConnection}


class App:
    """Sends messages back; at `/refused` it refuses the handshake.

    The text `hold` is answered once `go_on` is set, and behind that the connection is closed.
    """

    def __init__(self) -> None:
        self.go_on = asyncio.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            while (await receive())["type"] != "lifespan.shutdown":
                await send({"type": "lifespan.startup.complete"})
            await send({"type": "lifespan.shutdown.complete"})
            return
        if scope["type"] == "http":
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"ok"})
            return
        await receive()
        if scope["path"] == "/refused":
            kind = "websocket.http.response"
            await send({"type": f"{kind}.start", "status": 426, "headers": []})
            await send({"type": f"{kind}.body", "body": b"no"})
            return
        await send({"type": "websocket.accept"})
        while (message := await receive())["type"] == "websocket.receive":
            if message["text"] == "hold":
                await self.go_on.wait()
                await send({"type": "websocket.send", "text": "held"})
                await send({"type": "websocket.close", "code": 1001})
                return
            await send({"type": "websocket.send", "text": message["text"]})


class LoopServer(Server):
    """A server in the loop of a test."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def main_loop(self) -> None:
        # uvicorn would wait for a tenth of a second.
        while not await self.on_tick(0):  # noqa: ASYNC110 - it has no event for it
            await asyncio.sleep(0.01)


class Running(NamedTuple):
    """A running server."""

    server: LoopServer
    app: App
    connections: Connections
    port: int

    def connect(self, path: str = "/", **options: Any) -> connect:
        return connect(f"ws://127.0.0.1:{self.port}{path}", ping_interval=None, **options)


@asynccontextmanager
async def running(
    parser: type[Connection], max_connections: int = 100, **bounds: float
) -> AsyncIterator[Running]:
    """Run a server with the settings of one for a gateway."""
    app = App()
    connections = Connections(max_connections, **bounds)
    settings = serving._SETTINGS | serving._websocket_settings(MAX_MESSAGE_BYTES)
    settings |= {"timeout_graceful_shutdown": 5, "h11_max_incomplete_event_size": MAX_HEAD_BYTES}
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = LoopServer(uvicorn.Config(app, **settings), listener, connections, parser)
        task = asyncio.create_task(server.serve())
        try:
            while not server.started:  # noqa: ASYNC110 - it has no event for it
                await asyncio.sleep(0.002)
            yield Running(server, app, connections, listener.getsockname()[1])
        finally:
            server.should_exit = True
            await task


async def left(connections: Connections) -> None:
    """Wait until no connection is open."""
    async with asyncio.timeout(5):
        while len(connections):  # noqa: ASYNC110 - it has no event for it
            await asyncio.sleep(0.01)


async def test_websocket_has_a_place_until_it_is_closed(parser: type[Connection]) -> None:
    async with running(parser) as run:
        async with run.connect() as client:
            await client.send("a")
            assert await client.recv() == "a"
            assert len(run.connections) == 1
        await left(run.connections)
        with pytest.raises(InvalidStatus):
            await run.connect("/refused")
        await left(run.connections)


async def test_idle_websocket_does_not_wait_for_a_request(parser: type[Connection]) -> None:
    """Neither the bound on a head ends it, nor that on an idle connection, nor another client."""
    async with running(parser, 1, head_s=0.05, keep_alive_s=0.05) as run, run.connect() as client:
        await asyncio.sleep(0.4)
        assert not run.connections.has_room()
        await client.send("a")
        assert await client.recv() == "a"


async def test_message_beyond_the_bound_closes_the_connection(parser: type[Connection]) -> None:
    async with running(parser) as run, run.connect() as client:
        await client.send("x" * MAX_MESSAGE_BYTES)
        assert len(await client.recv()) == MAX_MESSAGE_BYTES
        await client.send("x" * (MAX_MESSAGE_BYTES + 1))
        assert await closed_with(client) == 1009
        await left(run.connections)


async def test_messages_are_not_compressed(parser: type[Connection]) -> None:
    """Codex offers it."""
    async with running(parser) as run, run.connect(compression="deflate") as client:
        assert client.response is not None
        assert "sec-websocket-extensions" not in client.response.headers


async def test_application_ends_its_answer_when_the_server_stops(parser: type[Connection]) -> None:
    async with running(parser) as run, run.connect() as client:
        await client.send("hold")
        await asyncio.sleep(0.05)
        run.server.should_exit = True
        await asyncio.sleep(0.2)
        run.app.go_on.set()
        assert await client.recv() == "held"
        assert await closed_with(client) == 1001


async def test_handshake_that_the_server_ends_is_answered(parser: type[Connection]) -> None:
    async with running(parser) as run:
        reader, writer = await asyncio.open_connection("127.0.0.1", run.port)
        writer.write(
            b"GET / HTTP/1.1\r\nhost: h\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n"
        )
        async with asyncio.timeout(5):
            assert (await reader.read()).startswith(b"HTTP/1.1 4")
        writer.close()
        await left(run.connections)


async def closed_with(client: ClientConnection) -> int | None:
    """Return the code with which the server closes a connection."""
    async with asyncio.timeout(5):
        with pytest.raises(ConnectionClosed):
            await client.recv()
    return client.close_code


def test_server_without_the_library_has_no_websockets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "streamnorm.cli.websocket_connection", None)
    assert serving._websocket_settings(1) == {}
