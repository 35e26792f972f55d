"""Connections of clients: which wait, for how long, and which make room for others."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import struct
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from streamnorm.cli.httptools_connection import HttpToolsConnection
from streamnorm.cli.server import (
    MAX_HEAD_BYTES,
    Acceptor,
    Connection,
    Connections,
    H11Connection,
    Server,
)

pytestmark = pytest.mark.anyio

GET = b"GET / HTTP/1.1\r\nhost: here\r\n\r\n"
CHUNKED = b"POST / HTTP/1.1\r\nhost: here\r\ntransfer-encoding: chunked\r\n\r\n"
MANY = 300 * 1024  # more than a server reads at once


@pytest.fixture(params=[H11Connection, HttpToolsConnection], ids=["h11", "httptools"])
def parser(request: pytest.FixtureRequest) -> type[Connection]:
    return request.param


@pytest.fixture
def anyio_backend(parser: type[Connection]) -> tuple[str, dict[str, Any]]:
    """Use the event loop that a server has with the parser."""
    return "asyncio", {"use_uvloop": parser is HttpToolsConnection}


class App:
    """Answers `/` with "ok", `/headers` with the names of headers, once it has read the body.

    `/early` is answered before the body, and `/wait` with a stream that ends once `finish` is set.
    The stream of `/stay` ends once its client has disconnected, which sets `left`.
    """

    def __init__(self) -> None:
        self.finish = asyncio.Event()
        self.left = asyncio.Event()
        self.waiting = self.written = 0
        self.has_no_delay: list[bool] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            while (await receive())["type"] != "lifespan.shutdown":
                await send({"type": "lifespan.startup.complete"})
            await send({"type": "lifespan.shutdown.complete"})
            return
        body = b"ok"
        if scope["path"] != "/early":
            while (await receive()).get("more_body", False):
                pass
        if scope["path"] == "/headers":
            body = b" ".join(name for name, _ in scope["headers"])
        length = (
            []
            if scope["path"] in ("/wait", "/write", "/much", "/stay")
            else [(b"content-length", b"%d" % len(body))]
        )
        await send({"type": "http.response.start", "status": 200, "headers": length})
        if scope["path"] == "/wait":
            self.waiting += 1
            await send({"type": "http.response.body", "body": b"begun", "more_body": True})
            await self.finish.wait()
        if scope["path"] == "/stay":
            await send({"type": "http.response.body", "body": b"begun", "more_body": True})
            while (await receive())["type"] != "http.disconnect":
                pass
            self.left.set()
            return
        if scope["path"] == "/write":
            # As many as are taken at once, then one that waits for the client.
            self.written = 0
            while send.write(MANY * b"x"):
                self.written += 1
            await send({"type": "http.response.body", "body": b"waits", "more_body": True})
            assert send.write(b"")
            assert send.write(b"ok")
            await send({"type": "http.response.body", "body": b""})
            assert not send.write(b"late")
            return
        if scope["path"] == "/much":
            await send({"type": "http.response.body", "body": b"x" * 9_000_000, "more_body": True})
            raise ConnectionResetError
        await send({"type": "http.response.body", "body": body})


class LoopServer(Server):
    """A server in the loop of a test."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def main_loop(self) -> None:
        # uvicorn would wait for a tenth of a second.
        while not await self.on_tick(0):  # noqa: ASYNC110 - it has no event for it
            await asyncio.sleep(0.01)


class Running:
    """A running server.

    Attributes:
        app: Its application.
        state: What uvicorn knows of it.
        connections: Its connections.
    """

    def __init__(self, app: App, state: ServerState, connections: Connections, port: int) -> None:
        self.app = app
        self.state = state
        self.connections = connections
        self._port = port
        self._writers: list[asyncio.StreamWriter] = []

    async def client(self, data: bytes = b"") -> Client:
        """Return a new client that has sent some bytes."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        self._writers.append(writer)
        client = Client(reader, writer)
        await client.send(data)
        return client

    def close(self) -> None:
        for writer in self._writers:
            writer.transport.abort()


class Client:
    """A client of raw bytes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def send(self, data: bytes) -> None:
        if self._writer.transport.is_closing():
            raise ConnectionResetError  # uvloop's transport has another error then
        self._writer.write(data)
        await self._writer.drain()

    def leave(self) -> None:
        """Reset the connection."""
        sock = self._writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()

    async def receive(self, until: bytes = b"ok") -> bytes:
        """Return what arrives up to some bytes."""
        async with asyncio.timeout(10):
            return await self._reader.readuntil(until)

    async def rest(self) -> bytes:
        """Return all that arrives before the server closes the connection."""
        async with asyncio.timeout(10):
            try:
                return await self._reader.read()
            except ConnectionError:
                return b""

    async def is_open(self) -> bool:
        """Return whether the connection stays open for a while."""
        try:
            async with asyncio.timeout(0.02):
                return bool(await self._reader.read(1))
        except TimeoutError:
            return True
        except ConnectionError:
            return False


@asynccontextmanager
async def running(
    parser: type[Connection], max_connections: int = 100, **bounds: float
) -> AsyncIterator[Running]:
    """Run a server."""
    app = App()
    connections = Connections(max_connections, **bounds)
    config = uvicorn.Config(
        app,
        log_config=None,
        log_level="critical",
        lifespan="on",
        ws="none",
        timeout_keep_alive=30,
        timeout_graceful_shutdown=1,
        h11_max_incomplete_event_size=MAX_HEAD_BYTES,
    )
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = LoopServer(config, listener, connections, parser)
        task = asyncio.create_task(server.serve())
        run = Running(app, server.server_state, connections, listener.getsockname()[1])
        try:
            while not server.started:  # noqa: ASYNC110 - it has no event for it
                await asyncio.sleep(0.002)
            yield run
        finally:
            run.close()
            server.should_exit = True
            await task


# How long a connection may wait


async def test_silent_connection_is_closed_without_an_answer(parser: type[Connection]) -> None:
    async with running(parser, head_s=0.1) as server:
        client = await server.client()
        assert await client.rest() == b""


async def test_time_of_a_head_is_not_renewed_by_what_arrives_of_it(
    parser: type[Connection],
) -> None:
    async with running(parser, head_s=0.1) as server:
        client = await server.client()
        end = asyncio.create_task(client.rest())
        with suppress(ConnectionError):
            for byte in GET[:-1] + b"a: " + b"x" * 1000:
                if end.done():
                    break
                await client.send(bytes([byte]))
                await asyncio.sleep(0.01)
        assert end.done()


async def test_connection_that_its_client_resets_leaves_no_timer(
    parser: type[Connection],
) -> None:
    """What the timer refers to would stay in memory as long as it waits."""
    async with running(parser) as server:
        client = await server.client(GET)
        await client.receive()
        (connection,) = server.state.connections
        assert connection.timeout_keep_alive_task is not None
        client.leave()
        async with asyncio.timeout(10):
            while server.state.connections:  # noqa: ASYNC110 - it has no event for it
                await asyncio.sleep(0.002)
        assert connection.timeout_keep_alive_task is None


async def test_blank_lines_are_no_request(parser: type[Connection]) -> None:
    async with running(parser, head_s=0.1) as server:
        client = await server.client(b"\r\n")
        assert b"408" not in await client.rest()


async def test_incomplete_head_is_answered_with_408(parser: type[Connection]) -> None:
    async with running(parser, head_s=0.1) as server:
        client = await server.client(GET[:-1])
        answer = await client.rest()
    assert answer.startswith(b"HTTP/1.1 408 Request Timeout\r\n")
    assert b"\r\nconnection: close\r\n" in answer


async def test_incomplete_head_behind_a_response_is_answered_with_408(
    parser: type[Connection],
) -> None:
    async with running(parser, head_s=0.1) as server:
        client = await server.client(GET)
        await client.receive()
        await client.send(GET[:-1])
        assert (await client.rest()).startswith(b"HTTP/1.1 408 ")


async def test_idle_connection_stays_for_its_own_time(parser: type[Connection]) -> None:
    async with running(parser, head_s=0.05, keep_alive_s=0.4) as server:
        client = await server.client(GET)
        await client.receive()
        await asyncio.sleep(0.2)
        await client.send(GET)
        await client.receive()
        assert await client.rest() == b""


async def test_response_may_take_longer_than_a_head(parser: type[Connection]) -> None:
    async with running(parser, head_s=0.05, keep_alive_s=0.05) as server:
        client = await server.client(GET.replace(b"/ ", b"/wait "))
        await client.receive(b"begun")
        await asyncio.sleep(0.2)
        server.app.finish.set()
        await client.receive()


async def test_rest_of_a_body_that_was_answered_is_waited_for_as_a_head_is(
    parser: type[Connection],
) -> None:
    """A second response, as one of status 408, would be that of the next request."""
    async with running(parser, head_s=0.1, keep_alive_s=30) as server:
        client = await server.client(CHUNKED.replace(b"/ ", b"/early ") + b"1\r\nx")
        await client.receive()
        assert await client.rest() == b""


async def test_connection_is_idle_once_the_rest_of_a_body_has_arrived(
    parser: type[Connection],
) -> None:
    async with running(parser, head_s=0.1, keep_alive_s=10) as server:
        client = await server.client(CHUNKED.replace(b"/ ", b"/early ") + b"1\r\nx")
        await client.receive()
        await client.send(b"\r\n0\r\n\r\n")
        await asyncio.sleep(0.3)
        await client.send(GET)
        await client.receive()


async def test_connection_of_a_client_that_does_not_read_is_closed(
    parser: type[Connection],
) -> None:
    """Its response has failed, but what was written of it would be waited for."""
    async with running(parser, head_s=0.1) as server:
        await server.client(GET.replace(b"/ ", b"/much "))
        async with asyncio.timeout(10):
            for is_open in (True, False):
                while bool(server.state.connections) != is_open:  # noqa: ASYNC110 - no event for it
                    await asyncio.sleep(0.01)


# How many there may be


async def test_request_gets_the_place_of_a_silent_connection(parser: type[Connection]) -> None:
    async with running(parser, 2) as server:
        first, second = await server.client(), await server.client()
        await asyncio.sleep(0.3)
        third = await server.client(GET)
        await third.receive()
        assert await first.rest() == b""
        assert await second.is_open()
        assert len(server.connections) == 2


async def test_request_gets_the_place_of_the_longest_idle_connection(
    parser: type[Connection],
) -> None:
    async with running(parser, 2) as server:
        first, second = await server.client(GET), await server.client(GET)
        await first.receive()
        await second.receive()
        await first.send(GET)
        await first.receive()
        third = await server.client(GET)
        await third.receive()
        assert await second.rest() == b""
        assert await first.is_open()


async def test_connection_waits_where_all_others_are_answered(parser: type[Connection]) -> None:
    async with running(parser, 2) as server:
        server.connections.tick = lambda: None  # the end of a connection is enough
        stream = GET.replace(b"/ ", b"/wait ").replace(
            b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n"
        )
        streams = [await server.client(stream) for _ in range(2)]
        for stream in streams:
            await stream.receive(b"begun")
        third = await server.client(GET)
        assert await third.is_open()
        assert len(server.connections) == 2
        server.app.finish.set()
        await third.receive()


async def test_burst_beyond_the_bound_is_answered(parser: type[Connection]) -> None:
    async with running(parser, 4) as server:
        clients = await asyncio.gather(*[server.client(GET) for _ in range(12)])
        answers = await asyncio.gather(*[client.receive() for client in clients])
    assert all(answer.startswith(b"HTTP/1.1 200 ") for answer in answers)


# What is no request


FLOODS = {
    "one header": GET[:-2] + b"a: " + b"x" * MANY,
    "many headers": GET[:-2] + b"a: b\r\n" * (MANY // 6),
    "target": b"GET /" + b"x" * MANY,
    "trailers": CHUNKED + b"0\r\n" + b"a: b\r\n" * (MANY // 6),
    "one trailer": CHUNKED + b"0\r\na: " + b"x" * MANY,
    "extension of a chunk": CHUNKED + b"1;" + b"x" * MANY,
    "blank lines": b"\r\n" * (MANY // 2),
}


async def test_what_has_no_bound_in_http_is_bounded(parser: type[Connection]) -> None:
    async def answer(server: Running, flood: bytes) -> bytes:
        client = await server.client()
        end = asyncio.create_task(client.rest())
        with suppress(ConnectionError):
            for start in range(0, len(flood), 16_384):
                await client.send(flood[start : start + 16_384])
                await asyncio.sleep(0.001)
        return await end

    async def answer_read(server: Running, flood: bytes) -> bytes:
        # The reset of a connection that is closed while bytes arrive may overtake the answer
        # (RFC 9112, section 9.6).
        for _ in range(5):
            if answered := await answer(server, flood):
                return answered
        return b""

    async with running(parser) as server:
        answers = {name: await answer_read(server, flood) for name, flood in FLOODS.items()}
    refused = b"HTTP/1.1 431 Request Header Fields Too Large"
    lines = {name: answer.partition(b"\r\n")[0] for name, answer in answers.items()}
    if parser is H11Connection:
        assert lines.pop("blank lines") == b"HTTP/1.1 400 Bad Request"
    assert lines == dict.fromkeys(lines, refused)


async def test_head_up_to_the_bound_is_read(parser: type[Connection]) -> None:
    head = GET[:-2] + b"a: " + b"x" * (MAX_HEAD_BYTES - len(GET) - 7) + b"\r\n\r\n"
    async with running(parser) as server:
        client = await server.client()
        for start in range(0, len(head), 9_000):
            await client.send(head[start : start + 9_000])
            await asyncio.sleep(0.001)
        await client.receive()


async def test_large_body_in_small_chunks_is_read(parser: type[Connection]) -> None:
    """The sizes of its chunks are more than the bound of a head."""
    async with running(parser) as server:
        client = await server.client(CHUNKED + b"1\r\nx\r\n" * 40_000 + b"0\r\n\r\n")
        await client.receive()


async def test_trailers_are_no_headers(parser: type[Connection]) -> None:
    async with running(parser) as server:
        client = await server.client(CHUNKED.replace(b"/ ", b"/headers "))
        await client.send(b"0\r\nx-late: 1\r\n\r\n")
        answer = await client.receive(b"encoding")
        await client.send(CHUNKED.replace(b"/ ", b"/headers ") + b"0\r\n\r\n")
        assert b"x-late" not in answer + await client.receive(b"encoding")


@pytest.mark.parametrize("parser", [HttpToolsConnection], ids=["httptools"])
async def test_chunks_are_written_while_the_client_reads() -> None:
    async with running(HttpToolsConnection) as server:
        request = b"GET /write HTTP/1.1\r\nhost: here\r\nconnection: close\r\n\r\n"
        chunks = _chunks_in(await (await server.client(request)).rest())
    assert server.app.written > 0
    assert chunks == [MANY * b"x"] * server.app.written + [b"waits", b"ok"]


def _chunks_in(answer: bytes) -> list[bytes]:
    chunks: list[bytes] = []
    rest = answer.partition(b"\r\n\r\n")[2]
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        chunks.append(rest[: int(size, 16)])
        rest = rest[int(size, 16) + 2 :]
    return chunks[:-1]


async def test_pipelined_requests_are_answered_in_turn(parser: type[Connection]) -> None:
    async with running(parser, head_s=0.2) as server:
        client = await server.client(GET.replace(b"/ ", b"/wait ") + GET + GET)
        await client.receive(b"begun")
        await asyncio.sleep(0.4)
        server.app.finish.set()
        for _ in range(3):
            await client.receive()


@pytest.mark.parametrize("more", [b"", GET, GET * 2], ids=["alone", "one", "two"])
async def test_client_that_leaves_is_reported_to_the_response_that_runs(
    parser: type[Connection], more: bytes
) -> None:
    """Also if further requests wait behind that response."""
    async with running(parser) as server:
        client = await server.client(GET.replace(b"/ ", b"/stay ") + more)
        await client.receive(b"begun")
        client.leave()
        async with asyncio.timeout(10):
            await server.app.left.wait()


async def test_bytes_that_are_no_request_are_answered_with_400(parser: type[Connection]) -> None:
    async with running(parser) as server:
        client = await server.client(b"\x16\x03\x01 hello\r\n\r\n")
        assert (await client.rest()).startswith(b"HTTP/1.1 400 Bad Request\r\n")


async def test_no_answer_stands_within_another(parser: type[Connection]) -> None:
    """A client sends what is no request while its stream is under way."""
    async with running(parser) as server:
        client = await server.client(GET.replace(b"/ ", b"/wait "))
        await client.receive(b"begun")
        await client.send(b"\x16\x03\x01 hello\r\n\r\n")
        if parser is HttpToolsConnection:
            answer = await client.rest()
        server.app.finish.set()
        if parser is H11Connection:  # parses it behind the stream
            answer = await client.rest()
    assert b"HTTP/1.1" not in answer.partition(b"0\r\n\r\n")[0]


# The sockets


async def test_connections_send_without_delay(parser: type[Connection]) -> None:
    """Else the body of a whole answer waits 40 ms for the acknowledgement of its head."""
    async with running(parser) as server:
        await (await server.client(GET)).receive()
        (connection,) = server.connections._open
        accepted = connection.transport.get_extra_info("socket")
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0


class ExhaustedSocket(socket.socket):
    """A listening socket of a process without free descriptors."""

    accepts = 0

    def accept(self) -> Any:
        self.accepts += 1
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


async def test_server_without_free_descriptors_does_not_try_without_a_pause(
    parser: type[Connection], caplog: pytest.LogCaptureFixture
) -> None:
    connections = Connections(9)
    with ExhaustedSocket() as listener, socket.socket() as client:
        listener.bind(("127.0.0.1", 0))
        acceptor = Acceptor(listener, connections, asyncio.Protocol)
        client.connect(listener.getsockname())
        for _ in range(10):
            connections.tick()
            await asyncio.sleep(0.01)
        assert listener.accepts == 1
        acceptor.close()
    assert caplog.messages == ["no connection can be accepted: Too many open files"]


async def test_port_is_free_once_the_server_has_stopped(parser: type[Connection]) -> None:
    async with running(parser) as server:
        port = server._port
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", port)
