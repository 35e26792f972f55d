"""Upstream of all dialects on a raw socket, which echoes each request's marker."""

from __future__ import annotations

import asyncio
import re
import secrets
import select
import ssl
import struct
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import NamedTuple

from streamnorm.recording import UnrecordedRequest
from streamnorm.recording.format import Playback, WireRequest
from streamnorm.testing import FakeProvider
from streamnorm.testing.fake import FakeRequest
from support.faults.upstream import Pause, Step, run_steps

__all__ = [
    "MARKER",
    "EchoUpstream",
    "EchoedRequest",
    "endless_steps",
    "head_of",
    "honest_steps",
    "new_marker",
    "slow_steps",
]

_PAUSE_S, _PAUSES = 0.05, 10_000

MARKER = re.compile(rb"mk[0-9a-f]{10}")
"""A marker: a word that stands in one request alone, and in its answer."""

NO_MARKER = "mk" + 10 * "0"

_MAX_HEAD_BYTES = 256 * 1024
_RESET_AT_CLOSE = struct.pack("ii", 1, 0)


def new_marker() -> str:
    """Return a unique marker."""
    return "mk" + secrets.token_hex(5)  # short: a stream has it in one piece


class EchoedRequest(NamedTuple):
    """A request read by the upstream.

    Attributes:
        marker: The marker that it holds; `NO_MARKER` if it has none.
        connection: Number of its connection, from 0.
        head: Its head.
        body: Its body.
    """

    marker: str
    connection: int
    head: bytes
    body: bytes

    @property
    def target(self) -> str:
        """Path and query of the request."""
        return self.head.split(b" ", 2)[1].decode("latin-1")

    @property
    def playback(self) -> Playback:
        """The honest answer, with the marker as text in the request's dialect."""
        wire = WireRequest("POST", f"http://provider.test{self.target}", (), self.body)
        try:
            return FakeProvider(_echo(self.marker)).respond(wire)
        except UnrecordedRequest:
            return Playback(404, {"content-type": "application/json"}, ())


class EchoUpstream:
    """A server that answers honestly, or by planned steps.

    After the steps of an answer it reads the next request of the connection.  Bytes are never
    sent once the next request has arrived: no client could tell them from its answer.

    Attributes:
        url: Its URL, without a path.
        requests: The requests that it has read.
        plan: Returns the steps of the answer to a request; None for the honest answer.
        writers: Its open connections, by number.
        connections: How many it has accepted.
        running: How many answers are being sent.
    """

    def __init__(self) -> None:
        self.url = ""
        self.requests: list[EchoedRequest] = []
        self.plan: Callable[[EchoedRequest], Sequence[Step] | None] = lambda _: None
        self.writers: dict[int, asyncio.StreamWriter] = {}
        self.connections = self.running = 0
        self._tasks: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def serving(self, context: ssl.SSLContext | None = None) -> AsyncIterator[EchoUpstream]:
        """Serve on a loopback port, over TLS if a context is given."""
        server = await asyncio.start_server(
            self._serve, "127.0.0.1", 0, ssl=context, limit=_MAX_HEAD_BYTES
        )
        scheme = "http" if context is None else "https"
        self.url = f"{scheme}://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        try:
            yield self
        finally:
            server.close()
            for writer in [*self.writers.values()]:
                writer.transport.abort()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        has_arrived = partial(_has_arrived, reader, writer)
        number = self.connections
        self.connections += 1
        self.writers[number] = writer
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            # Of a task that is cancelled, asyncio would log a traceback.
            with suppress(
                OSError,
                asyncio.CancelledError,
                asyncio.IncompleteReadError,
                asyncio.LimitOverrunError,
            ):
                while (request := await _read_request(reader, number)) is not None:
                    self.requests.append(request)
                    steps = self.plan(request) or honest_steps(request)
                    self.running += 1
                    try:
                        if not await run_steps(
                            steps or honest_steps(request), reader, writer, has_arrived
                        ):
                            return
                    finally:
                        self.running -= 1
        finally:
            self._tasks.discard(task)
            del self.writers[number]
            writer.close()


def honest_steps(request: EchoedRequest) -> list[Step]:
    """Return the honest answer, whole or in chunks."""
    playback = request.playback
    if "event-stream" not in playback.headers["content-type"]:
        head = head_of(playback, f"content-length: {len(playback.body)}\r\n")
        return [head + playback.body]
    chunks = [b"%x\r\n%b\r\n" % (len(step.data), step.data) for step in playback.steps if step.data]
    return [head_of(playback), *chunks, b"0\r\n\r\n"]


def slow_steps(request: EchoedRequest, pause_s: float) -> list[Step]:
    """Return the honest answer with a pause after each piece."""
    return [each for step in honest_steps(request) for each in (step, Pause(pause_s))]


def endless_steps(request: EchoedRequest) -> list[Step]:
    """Return the beginning of an answer, then a long silence.

    Between two pauses, the upstream finds that the gateway has closed the connection.
    """
    return [*honest_steps(request)[:3], *[Pause(_PAUSE_S)] * _PAUSES]


def head_of(playback: Playback, framing: str = "transfer-encoding: chunked\r\n") -> bytes:
    """Return the head of an answer."""
    kind = playback.headers["content-type"]
    return f"HTTP/1.1 {playback.status} Status\r\ncontent-type: {kind}\r\n{framing}\r\n".encode()


def _echo(marker: str) -> Callable[[FakeRequest], str]:
    return lambda _request: f"The answer to {marker} is snow ☃."


async def _read_request(reader: asyncio.StreamReader, number: int) -> EchoedRequest | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
    body = await reader.readexactly(int(length or b"0"))
    found = MARKER.search(body) or MARKER.search(head)
    marker = NO_MARKER if found is None else found[0].decode()
    return EchoedRequest(marker, number, head, body)


def _has_arrived(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    """Return whether the next request or the end of the connection has arrived."""
    if writer.is_closing() or reader.at_eof() or reader._buffer:  # type: ignore[attr-defined]  # of asyncio
        return True
    poll = select.poll()
    poll.register(writer.get_extra_info("socket").fileno(), select.POLLIN)
    return bool(poll.poll(0))
