"""`RecordingProxy` closes what it opened, whoever leaves: real connections, on both back ends."""

from __future__ import annotations

import gc
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from anyio.abc import SocketAttribute, SocketStream, TaskStatus
from support.http.asgi_caller import Caller
from support.http.asgi_client import Message

from streamnorm.asgi import RecordingProxy
from streamnorm.recording import Recording

pytestmark = pytest.mark.anyio

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
OPEN = HEAD + b"transfer-encoding: chunked\r\n\r\n9\r\ndata: 1\n\n\r\n"
TWO_READS = OPEN + b"9\r\ndata: 2\n\n\r\n"
WHOLE = HEAD + b"content-length: 9\r\n\r\ndata: 1\n\n"


class Upstream:
    """A provider that sends the same bytes on each connection.

    Attributes:
        url: Its URL.
        closed: Set once the proxy has closed a connection.
    """

    def __init__(self, response: bytes) -> None:
        self.url = ""
        self.closed = anyio.Event()
        self._response = response

    async def serve(self, *, task_status: TaskStatus[None]) -> None:
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
        _, port = listener.listeners[0].extra_attributes[SocketAttribute.local_address]()
        self.url = f"http://127.0.0.1:{port}"
        task_status.started()
        async with listener:
            await listener.serve(self._answer)

    async def _answer(self, stream: SocketStream) -> None:
        async with stream:
            await stream.receive()
            await stream.send(self._response)
            try:
                await stream.receive()
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                self.closed.set()


@asynccontextmanager
async def serving(response: bytes) -> AsyncGenerator[Upstream]:
    upstream = Upstream(response)
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            await tasks.start(upstream.serve)
            yield upstream
            await upstream.closed.wait()
            tasks.cancel_scope.cancel()


def names_in(directory: Path) -> list[str]:
    gc.collect()  # a generator or connection left to the collector fails the test
    return sorted(path.name for path in directory.iterdir())


def assert_aborted(directory: Path, at_least: bytes) -> None:
    """Check that the recording is complete up to the disconnect."""
    assert names_in(directory) == ["01-chat-completions.json", "01-chat-completions.sse"]
    recording = Recording.load(directory / "01-chat-completions.sse")
    # A chunk that the client did not wait for is recorded if it had arrived.
    assert recording.body.startswith(at_least)
    assert b"data: 1\n\ndata: 2\n\n".startswith(recording.body)
    assert recording.response.end == "aborted"


@pytest.mark.slow
@pytest.mark.parametrize("response", [OPEN, TWO_READS], ids=["one_chunk", "two_chunks"])
@pytest.mark.parametrize("waits_in", ["start", "send", "read"])
@pytest.mark.parametrize("who", ["client", "server"])
async def test_upstream_response_is_closed(
    response: bytes, waits_in: str, who: str, tmp_path: Path
) -> None:
    sent = anyio.Event()

    async def on_send(message: Message) -> None:
        step = "send" if message.get("body") else "start"
        if step == waits_in:  # a client that reads slowly
            sent.set()
            await anyio.sleep_forever()
        elif step == "send":
            sent.set()

    async with serving(response) as upstream:
        app = RecordingProxy(upstream.url, tmp_path)
        caller = Caller("/v1/chat/completions", on_send=on_send)
        async with anyio.create_task_group() as server:
            server.start_soon(caller.call, app)
            await sent.wait()
            if who == "client":
                caller.gone.set()
            else:
                server.cancel_scope.cancel()
        await upstream.closed.wait()
        await app.aclose()
    assert_aborted(tmp_path, at_least=b"" if waits_in == "start" else b"data: 1\n\n")


async def test_request_without_an_answer_is_cancelled(tmp_path: Path) -> None:
    async with serving(b"") as upstream:
        app = RecordingProxy(upstream.url, tmp_path)
        caller = Caller("/v1/chat/completions")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(caller.call, app)
            await anyio.wait_all_tasks_blocked()
            caller.gone.set()
        await upstream.closed.wait()
        await app.aclose()
    assert names_in(tmp_path) == []


@pytest.mark.parametrize("is_cancelled", [False, True])
async def test_idle_connections_are_closed_with_the_server(
    is_cancelled: bool, tmp_path: Path
) -> None:
    shut_down, started = anyio.Event(), anyio.Event()
    sent: list[str] = []

    async def receive() -> Message:
        if not started.is_set():
            return {"type": "lifespan.startup"}
        await shut_down.wait()
        return {"type": "lifespan.shutdown"}

    async def send(message: Message) -> None:
        sent.append(message["type"])
        started.set()

    async with serving(WHOLE) as upstream:
        app = RecordingProxy(upstream.url, tmp_path)
        async with anyio.create_task_group() as server:
            server.start_soon(app, {"type": "lifespan"}, receive, send)
            await started.wait()
            caller = Caller("/v1/chat/completions")
            await caller.call(app)
            assert caller.finished
            assert not upstream.closed.is_set()
            if is_cancelled:
                server.cancel_scope.cancel()
            shut_down.set()
        await upstream.closed.wait()
    complete = ["lifespan.startup.complete", "lifespan.shutdown.complete"]
    assert sent == complete[:1] if is_cancelled else complete
