"""Cost of recording behind httpx, and accuracy of replayed timing.

    python tests/benchmarks/recording.py [--bytes N] [--rounds N]

A server on loopback, in a process of its own, sends a body in chunks of one event or of
64 KiB.  The same client reads it without and with a `RecordingTransport`, round by round;
of each the fastest counts, in CPU time of this process.  The second figure is how far the
memory of the process grew at most.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import resource
import socket
import tempfile
import time
from collections.abc import AsyncIterator
from itertools import pairwise
from multiprocessing.connection import Connection
from pathlib import Path

import httpx

from streamnorm.recording import Recording
from streamnorm.transports.httpx import RecordingTransport, ReplayTransport

EVENT = (
    b'data: {"id":"chatcmpl-Kq81xWmZpT","object":"chat.completion.chunk","created":1763800000,'
    b'"model":"a-model","service_tier":"default","system_fingerprint":"fp_9d1c",'
    b'"choices":[{"index":0,"delta":{"content":" water and stone"},"logprobs":null,'
    b'"finish_reason":null}],"obfuscation":"k2"}\n\n'
)
BLOCK = EVENT * (65536 // len(EVENT))
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
GAPS_MS = [120, 3, 0, 45, 17, 1, 80, 33, 9, 0, 0, 61] * 4


def framed(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def serve(told: Connection) -> None:
    """Answer `GET /<bytes>/<chunk>`, one connection at a time, until the parent process ends."""
    listener = socket.create_server(("127.0.0.1", 0))
    told.send(listener.getsockname()[1])
    while True:
        connection, _ = listener.accept()
        with connection:
            request = b""
            while b"\r\n\r\n" not in request and (data := connection.recv(65536)):
                request += data
            if not request:
                continue
            _, total, kind = request.split(b" ")[1].split(b"/")
            chunk = EVENT if kind == b"event" else BLOCK
            # Many chunks a write: it is the client that is measured.
            batch = framed(chunk) * max(1, len(BLOCK) // len(chunk))
            connection.sendall(HEAD)
            for _ in range(int(total) // (len(chunk) * max(1, len(BLOCK) // len(chunk)))):
                connection.sendall(batch)
            connection.sendall(b"0\r\n\r\n")


async def read(url: str, directory: str | None) -> tuple[float, int]:
    """Read a body; return its CPU seconds and its size."""
    transport: httpx.AsyncBaseTransport = httpx.AsyncHTTPTransport()
    if directory is not None:
        transport = RecordingTransport(transport, directory)
    received = 0
    async with httpx.AsyncClient(transport=transport, timeout=60) as client:
        began = time.process_time()
        async with client.stream("GET", url) as response:
            async for chunk in response.aiter_raw():
                received += len(chunk)
        return time.process_time() - began, received


def cost(port: int, total: int, kind: str, rounds: int) -> None:
    url = f"http://127.0.0.1:{port}/{total}/{kind}"
    plain: list[float] = []
    recorded: list[float] = []
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(rounds):
        seconds, received = asyncio.run(read(url, None))
        plain.append(seconds)
        with tempfile.TemporaryDirectory() as directory:
            seconds, got = asyncio.run(read(url, directory))
            recorded.append(seconds)
            [file] = Path(directory).glob("*.sse")
            assert file.stat().st_size == got == received
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    share = min(recorded) / min(plain)
    print(
        f"{received / 1e6:8.0f} MB in chunks of one {kind:<6} httpx {min(plain):6.2f} s, recording"
        f" {min(recorded):6.2f} s: × {share:.2f}; memory grew by {grown / 1024:.1f} MB"
    )


class Paced(httpx.AsyncByteStream):
    """A body with known gaps."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for gap_ms in GAPS_MS:
            await asyncio.sleep(gap_ms / 1000)
            yield EVENT


async def arrivals(transport: httpx.AsyncBaseTransport) -> list[tuple[float, bytes]]:
    url = "http://127.0.0.1/v1/chat/completions"
    async with (
        httpx.AsyncClient(transport=transport) as client,
        client.stream("POST", url) as response,
    ):
        return [(time.monotonic(), chunk) async for chunk in response.aiter_raw()]


def timing() -> None:
    body = httpx.MockTransport(
        lambda _: httpx.Response(200, headers={"content-type": "text/event-stream"}, stream=Paced())
    )
    with tempfile.TemporaryDirectory() as directory:
        recorded = asyncio.run(arrivals(RecordingTransport(body, directory)))
        [file] = Path(directory).glob("*.sse")
        reads = Recording.load(file).reads or []
        replayed = asyncio.run(arrivals(ReplayTransport(directory, speed=1)))
    assert [chunk for _, chunk in recorded] == [chunk for _, chunk in replayed]
    gaps_ms = [(now - then) * 1000 for (then, _), (now, _) in pairwise(replayed)]
    errors = [abs(gap - read.gap_ms) for gap, read in zip(gaps_ms, reads[1:], strict=True)]
    print(
        f"replay of {len(replayed)} chunks at speed 1: byte-identical; gaps differ by at most"
        f" {max(errors):.1f} ms (mean {sum(errors) / len(errors):.2f})"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--bytes", type=int, default=1_000_000_000, help="size of the large body")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    server = context.Process(target=serve, args=(there,), daemon=True)
    server.start()
    try:
        port = here.recv()
        timing()
        cost(port, arguments.bytes // 20, "event", arguments.rounds)
        cost(port, arguments.bytes, "block", arguments.rounds)
    finally:
        server.terminate()
        server.join()


if __name__ == "__main__":
    main()
