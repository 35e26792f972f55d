"""Exchanges through a server in another process, with CPU time and latency per event.

This process is both client and upstream: it writes one read of a stream to the server, waits for
what the server writes to the client, and goes on.  So the server reads exactly what was written,
however fast it is, and one clock measures the latency.
"""

from __future__ import annotations

import re
import select
import socket
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import NamedTuple

__all__ = ["HEAD", "LAST_CHUNK", "Exchanges", "Sample", "chunk", "cpu_clock", "encoded", "is_whole"]

HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
    b"transfer-encoding: chunked\r\nconnection: close\r\n\r\n"
)
LAST_CHUNK = b"0\r\n\r\n"
_NOT_FOUND = b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
_TIMEOUT_S = 10.0
# Some events give the client nothing; a server of which an output is known may be slow.
_FIRST_OUTPUT_MS = 20
_SILENT_MS = 1
_OUTPUT_MS = 200
# After its last write a server has still to return to its event loop.
_SETTLE_S = 0.001
_BUFFER = 1 << 20


class Sample(NamedTuple):
    """Measurements of one exchange.

    Attributes:
        stream_s: CPU seconds of the server for all reads but the first.
        request_s: CPU seconds of the server for the rest: the request, the first read, the end.
        latencies_s: Seconds from each of these writes to its output, unless there was none.
        silent: Positions of the reads without an output.
        received: The responses.
    """

    stream_s: float
    request_s: float
    latencies_s: list[float]
    silent: frozenset[int]
    received: list[bytes]


def cpu_clock(pid: int) -> Callable[[], float]:
    """Return a clock of a process's CPU time in nanoseconds; Linux only."""
    clock_id = (~pid << 3) | 2  # as clock_getcpuclockid(3) does
    return lambda: time.clock_gettime(clock_id)


class Exchanges:
    """The client and the upstream of a measured server.

    Args:
        backlog: Number of connections that may wait for the upstream.

    Attributes:
        listener: Socket of the upstream.
        upstream_url: Base URL for the server's requests.
    """

    def __init__(self, backlog: int = 128) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=backlog)
        self.listener.settimeout(_TIMEOUT_S)
        self.upstream_url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"

    def run(
        self,
        port: int,
        clock: Callable[[], float],
        request: tuple[str, bytes],
        reads: list[bytes],
        *,
        streams: int = 1,
        pause_s: float = 0.0,
        silent: frozenset[int] | None = None,
    ) -> Sample:
        """Run one exchange, and return its measurements.

        Args:
            port: Port of the server.
            clock: Its CPU clock.
            request: Path and JSON body of the request.
            reads: What the upstream writes, one after the other.
            streams: Number of exchanges at the same time, one read of each after the other.
            pause_s: Seconds from the last output to the next write.
            silent: Positions of the reads without an output; None to find out.
        """
        first, *others = map(chunk, reads)
        start = clock()
        with ExitStack() as sockets:
            pairs = [self._open(sockets, port, request, first) for _ in range(streams)]
            clients = {client.fileno(): client for client, _ in pairs}
            received = dict.fromkeys(clients, b"")
            poll = select.poll()
            for number in clients:
                poll.register(number, select.POLLIN)
            while ready := poll.poll(_FIRST_OUTPUT_MS):
                for number, _ in ready:
                    received[number] += clients[number].recv(_BUFFER)
            latencies: list[float] = []
            begun = clock()
            found: set[int] = set()
            for position, read in enumerate(others):
                if pause_s:
                    time.sleep(pause_s)
                    # A server that writes an event in several pieces has done so by now.
                    for number, _ in poll.poll(0):
                        received[number] += clients[number].recv(_BUFFER)
                sent_at = time.perf_counter()
                for _, upstream in pairs:
                    upstream.sendall(read)
                if silent is None:
                    timeout_ms = _FIRST_OUTPUT_MS
                else:
                    timeout_ms = _SILENT_MS if position in silent else _OUTPUT_MS
                missing = streams
                while missing > 0 and (ready := poll.poll(timeout_ms)):
                    latencies.append(time.perf_counter() - sent_at)
                    missing -= len(ready)
                    for number, _ in ready:
                        received[number] += clients[number].recv(_BUFFER)
                if missing == streams:
                    found.add(position)
            time.sleep(_SETTLE_S)
            ended = clock()
            for client, upstream in pairs:
                upstream.sendall(LAST_CHUNK)
                while data := client.recv(_BUFFER):
                    received[client.fileno()] += data
        time.sleep(_SETTLE_S)
        whole = clock() - start
        stream_s = (ended - begun) / streams
        return Sample(
            stream_s, whole / streams - stream_s, latencies, frozenset(found), [*received.values()]
        )

    def _open(
        self, sockets: ExitStack, port: int, request: tuple[str, bytes], first: bytes
    ) -> tuple[socket.socket, socket.socket]:
        """Return the client's and the upstream's socket of a new exchange."""
        client = sockets.enter_context(socket.create_connection(("127.0.0.1", port), _TIMEOUT_S))
        client.sendall(encoded(*request))
        upstream = sockets.enter_context(self._accept())
        while not _read_request(upstream).startswith(b"POST "):
            upstream.sendall(_NOT_FOUND)  # LiteLLM asks for the list of models now and then
            upstream = sockets.enter_context(self._accept())
        upstream.sendall(HEAD + first)
        return client, upstream

    def _accept(self) -> socket.socket:
        upstream, _ = self.listener.accept()
        upstream.settimeout(_TIMEOUT_S)
        upstream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return upstream


def encoded(path: str, body: bytes) -> bytes:
    """Return a request as bytes of HTTP."""
    return (
        f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
        f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
    ).encode() + body


def chunk(data: bytes) -> bytes:
    """Return a chunk of a chunked body."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def _read_request(upstream: socket.socket) -> bytes:
    """Read and return a whole request."""
    data = b""
    while not is_whole(data):
        read = upstream.recv(_BUFFER)
        assert read, "the request ends early"
        data += read
    return data


def is_whole(data: bytes) -> bool:
    """Return whether the bytes contain a request's whole body."""
    head, end, body = data.partition(b"\r\n\r\n")
    if not end or head.startswith(b"GET "):
        return bool(end)
    length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
    return len(body) >= int(length[1]) if length else body.endswith(b"0\r\n\r\n")
