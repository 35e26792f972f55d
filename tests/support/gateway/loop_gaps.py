"""A gateway in a process of its own that measures its event loop's stalls."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import uvicorn

from streamnorm.gateway import Config, Gateway, UpstreamConfig

__all__ = ["LargeUpstream", "Measured", "MeasuredGateway", "measured_gateway", "serve_measured"]

_TICK_S = 0.001
_TESTS = Path(__file__).parents[2]
_MIB = 1024 * 1024


class Measured(NamedTuple):
    """Stalls and memory of a gateway's process during one request.

    Attributes:
        status: HTTP status of the answer.
        size: Bytes of the answer.
        wall_ms: Longest time between two ticks of a task, less the time that the task sleeps.
        cpu_ms: The same, counted as CPU time of the process: of it, a busy machine takes nothing.
        peak_bytes: Growth of the resident memory up to its peak.
    """

    status: int
    size: int
    wall_ms: float
    cpu_ms: float
    peak_bytes: int


class _Ticker:
    """Measures stalls of the event loop and the memory of the process."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Reset the measurements."""
        self._wall_s = self._cpu_s = 0.0
        Path("/proc/self/clear_refs").write_text("5")  # the peak is the present value again
        self._before_bytes = _resident_bytes("VmHWM")

    async def tick(self) -> None:
        while True:
            wall, cpu = time.perf_counter(), time.process_time()
            await asyncio.sleep(_TICK_S)
            wall_s = time.perf_counter() - wall - _TICK_S
            self._wall_s = max(self._wall_s, wall_s)
            self._cpu_s = max(self._cpu_s, min(wall_s, time.process_time() - cpu))

    def report(self) -> dict[str, float]:
        return {
            "wall_ms": 1000 * self._wall_s,
            "cpu_ms": 1000 * self._cpu_s,
            "peak_bytes": _resident_bytes("VmHWM") - self._before_bytes,
        }


def _resident_bytes(name: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name):
            return 1024 * int(line.split()[1])
    raise AssertionError(name)


async def serve_measured(settings: str) -> None:
    """Serve a gateway; answer each line on stdin with a line of measurements.

    Args:
        settings: JSON: the settings of the gateway, and its `upstreams`.
    """
    fields: dict[str, Any] = json.loads(settings)
    upstreams = {name: UpstreamConfig(**of) for name, of in fields.pop("upstreams").items()}
    app = Gateway(Config(upstreams=upstreams, **fields), environ={})
    config = uvicorn.Config(app, port=0, log_config=None, log_level="critical", ws="none")
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110 - uvicorn has no event for it
        await asyncio.sleep(0.01)
    print(server.servers[0].sockets[0].getsockname()[1], flush=True)
    loop = asyncio.get_running_loop()
    lines = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    ticker = _Ticker()
    ticking = asyncio.create_task(ticker.tick())
    while await lines.readline():
        print(json.dumps(ticker.report()), flush=True)
        ticker.begin()
    ticking.cancel()
    server.should_exit = True
    await serving


class LargeUpstream:
    """A provider that answers each request with the same bytes.

    Attributes:
        body: Its answer.
        content_type: The kind of that.
        received: Sizes of the bodies that arrived.
    """

    def __init__(self) -> None:
        self.body = b"{}"
        self.content_type = "application/json"
        self.received: list[int] = []

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                size = _content_length(head)
                left = size
                while left:
                    left -= len(await reader.read(min(left, _MIB)))
                self.received.append(size)
                writer.write(
                    b"HTTP/1.1 200 OK\r\ncontent-type: %s\r\ncontent-length: %d\r\n\r\n"
                    % (self.content_type.encode(), len(self.body))
                )
                await _write(writer, self.body)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()


class MeasuredGateway:
    """A gateway in its own process, with an upstream in this one.

    Attributes:
        upstream: The upstream.
    """

    def __init__(self, process: asyncio.subprocess.Process, upstream: LargeUpstream) -> None:
        self.upstream = upstream
        self._process = process
        self._port = 0

    async def wait(self) -> None:
        """Wait until the gateway listens."""
        self._port = int(await self._line())

    async def post(self, path: str, body: bytes) -> Measured:
        """Send a request; return the measurements of the gateway's process."""
        await self._command()  # what was measured before counts no longer
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port, limit=_MIB)
        writer.write(
            b"POST %s HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n"
            b"content-type: application/json\r\ncontent-length: %d\r\n\r\n"
            % (path.encode(), len(body))
        )
        with suppress(ConnectionError):  # answered before all was read
            await _write(writer, body)
        status = int((await reader.readuntil(b"\r\n\r\n")).split()[1])
        size = 0
        while data := await reader.read(_MIB):
            size += len(data)
        writer.close()
        return Measured(status, size, **(await self._command()))

    async def _command(self) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(b"\n")
        measured: dict[str, Any] = json.loads(await self._line())
        return measured

    async def _line(self) -> bytes:
        assert self._process.stdout is not None
        return await self._process.stdout.readline()


@asynccontextmanager
async def measured_gateway(
    dialect: str,
    **settings: Any,
) -> AsyncIterator[MeasuredGateway]:
    """Run a gateway in its own process.

    Args:
        dialect: Dialect of its upstream.
        settings: Settings of the gateway.
    """
    upstream = LargeUpstream()
    server = await asyncio.start_server(upstream.answer, "127.0.0.1", 0, limit=_MIB)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    configured = {"local": {"dialect": dialect, "base_url": url}}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        "import asyncio, sys; sys.path.insert(0, sys.argv[1]);"
        "from support.gateway.loop_gaps import serve_measured;"
        "asyncio.run(serve_measured(sys.argv[2]))",
        str(_TESTS),
        json.dumps({"upstreams": configured, **settings}),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        gateway = MeasuredGateway(process, upstream)
        await gateway.wait()
        yield gateway
    finally:
        assert process.stdin is not None
        process.stdin.close()
        await process.wait()
        server.close()


def _content_length(head: bytes) -> int:
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return int(line.partition(b":")[2])
    return 0


async def _write(writer: asyncio.StreamWriter, data: bytes) -> None:
    for start in range(0, len(data), _MIB):
        writer.write(data[start : start + _MIB])
        await writer.drain()
