"""Cost of an event through the gateway, compared to a byte relay in the same server.

The server is another process; its CPU time an event, in µs, is that of the stream without the
request, its first read and its end, whose cost has its own line.  At one event a read both the
relay and the gateway wake up, read, and write once an event.  The added latency is measured with
pauses between the events.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import quantiles
from typing import NamedTuple

import msgspec
from gateway_exchanges import Exchanges, Sample, cpu_clock
from gateway_peers import PEERS, interpreter, started
from reads import ONE_EVENT, READS, SEGMENTS
from timing import Figure, decode_json, fastest
from workloads import Workload, chat, workloads

import streamnorm
from streamnorm import Completed, InputMessage, Request, Text, encode_request

__all__ = ["Cell", "Server", "report", "serve"]

_EVENTS = 250
_MAX_ROUNDS = 15
_BAR_US = 4.0
_STREAMS = 8
_PACED_EVENTS = 200
_PACED_PAUSE_S = 0.002
_MEASURED = (
    "chat: text",
    "chat: 4 calls",
    "chat: 4 calls, interleaved",
    "anthropic: text",
    "anthropic: thinking, text, calls",
    "responses: text",
    "gemini: text",
)
_PACED = ("chat: text", "anthropic: text", "responses: text")
_READS = (ONE_EVENT, SEGMENTS)
_PEER_WORKLOADS = ("chat: text", "anthropic: text")
_PEER_ROUNDS = 3
_RELAY = "relay"


class Cell(NamedTuple):
    """One measured combination of stream, read size and target.

    Attributes:
        workload: The stream.
        reads: How it is read.
        target: Dialect of the client; None for the relay.
    """

    workload: Workload
    reads: str
    target: str | None

    @property
    def name(self) -> str:
        return f"{self.workload.name}, {self.reads}, to {self.target or _RELAY}"

    @property
    def relayed(self) -> Cell:
        """The cell of the same stream through the relay."""
        return self._replace(target=None)

    @property
    def request(self) -> tuple[str, bytes]:
        """Path and body of the request for the stream."""
        if self.target is None:
            return "/stream", b"{}"
        messages = (InputMessage("user", (Text("Hi."),)),)
        dialect = self.workload.dialect
        asked = Request(model=dialect, stream=True, max_tokens=100, messages=messages)
        encoded = encode_request(asked, self.target)
        return encoded.path, msgspec.json.encode(encoded.body)

    def check(self, received: bytes, *, exactly: bool) -> None:
        """Assert that a response is right; byte for byte if `exactly`."""
        head, _, body = received.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200"), self.name
        body = _without_chunks(body)
        if exactly and self.target in (None, self.workload.dialect):
            assert body == self.workload.body, self.name
            return
        decoder = streamnorm.codec.decoder(self.target)
        decoder.feed(body)
        decoder.close()
        assert isinstance(decoder.outcome, Completed), self.name


class Server:
    """A server under measurement, in a process of its own."""

    def __init__(self, exchanges: Exchanges, pid: int, port: int, *, prefix: str = "") -> None:
        self.port = port
        self._clock = cpu_clock(pid)
        self._exchanges = exchanges
        self._prefix = prefix  # of the paths of a server with several applications
        self._silent: dict[str, frozenset[int]] = {}

    def check(self, cell: Cell) -> None:
        """Assert that an exchange is right, and find events without output."""
        sample = self._run(cell, streams=1)
        cell.check(sample.received[0], exactly=bool(self._prefix))
        self._silent[cell.name] = sample.silent

    def run(self, cell: Cell, *, streams: int = _STREAMS, pause_s: float = 0.0) -> Sample:
        """Return measured exchanges of a checked cell."""
        silent = self._silent[cell.name]
        return self._run(cell, streams=streams, pause_s=pause_s, silent=silent)

    def request(self, cell: Cell) -> tuple[str, bytes]:
        """Return path and body of the request for a cell."""
        path, body = cell.request
        return ("/relay" if cell.target is None else self._prefix) + path, body

    def _run(
        self,
        cell: Cell,
        *,
        streams: int,
        pause_s: float = 0.0,
        silent: frozenset[int] | None = None,
    ) -> Sample:
        return self._exchanges.run(
            self.port,
            self._clock,
            self.request(cell),
            READS[cell.reads](cell.workload.frames),
            streams=streams,
            pause_s=pause_s,
            silent=silent,
        )


def report(rounds: int) -> list[Figure]:
    """Print cost and latency of an event; return the figures with a bar."""
    if not sys.platform.startswith("linux"):
        print("\ngateway: skipped, there is no clock of another process's CPU time")
        return []
    rounds = min(rounds, _MAX_ROUNDS)
    unit_payloads = chat.text(1000)
    unit = fastest({"U": decode_json(unit_payloads)}, rounds)["U"] / len(unit_payloads)
    exchanges = Exchanges()
    with serve(exchanges) as server:
        figures = _report_costs(server, rounds, unit * 1e6)
        _report_latency(server, rounds)
        _report_peers(server, min(rounds, _PEER_ROUNDS))
    return figures


@contextmanager
def serve(exchanges: Exchanges) -> Iterator[Server]:
    here = Path(__file__).parent
    # The package under test, even if another version is installed.
    path = os.pathsep.join([str(Path(streamnorm.__file__).parent.parent), str(here)])
    process = subprocess.Popen(
        [sys.executable, str(here / "gateway_server.py"), exchanges.upstream_url],
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            assert process.stdout is not None
            port = int(process.stdout.readline())
            yield Server(exchanges, process.pid, port, prefix="/gateway")
        finally:
            process.terminate()


def _cells(measured: list[Workload]) -> list[Cell]:
    return [
        Cell(workload, reads, target)
        for workload in measured
        for reads in _READS
        for target in (None, workload.dialect, workload.other)
    ]


def _report_costs(server: Server, rounds: int, unit_us: float) -> list[Figure]:
    """Print and return the CPU µs that the gateway adds to each event."""
    cells = _cells([each for each in workloads(_EVENTS) if each.name in _MEASURED])
    for cell in cells:
        server.check(cell)
    event_us = {cell.name: float("inf") for cell in cells}
    request_us = event_us.copy()
    for number in range(rounds):
        for cell in cells:
            sample = server.run(cell)
            us = sample.stream_s / len(cell.workload.frames) * 1e6
            event_us[cell.name] = min(event_us[cell.name], us)
            request_us[cell.name] = min(request_us[cell.name], sample.request_s * 1e6)
        if sys.stderr.isatty():
            print(f"\rround {number + 1} of {rounds}\r", end="", file=sys.stderr)
    print(f"\ngateway, µs of CPU an event beside the relay; U = {unit_us:.2f} µs")
    print(f"{'':34}{'relay':>12}{'same dialect':>20}{'other dialect':>20}  bar {_BAR_US}")
    figures: list[Figure] = []
    for relay, *others in _rows(cells):
        row = [
            Figure(f"gateway, {cell.name}", event_us[cell.name] - event_us[relay.name], _BAR_US)
            for cell in others
        ]
        figures += row
        texts = [f"{each.value:8.1f}{each.mark}({each.value / unit_us:4.1f} U)" for each in row]
        name = f"{relay.workload.name}, {relay.reads}"
        print(
            f"{name:46}"[:46]
            + f"{event_us[relay.name]:6.1f}"
            + "".join(f"{text:>20}" for text in texts)
        )
    requests = [
        request_us[cell.name] - request_us[cell.relayed.name] for cell in cells if cell.target
    ]
    print(f"a request costs {min(requests):.0f} to {max(requests):.0f} µs beside the relay's")
    return figures


def _report_latency(server: Server, rounds: int) -> None:
    """Print the latency of an event with pauses between events."""
    measured = [each for each in workloads(_PACED_EVENTS) if each.name in _PACED]
    cells = [cell for cell in _cells(measured) if cell.reads == ONE_EVENT]
    for cell in cells:
        server.check(cell)
    best = {cell.name: (float("inf"), float("inf")) for cell in cells}
    for _ in range(rounds):
        for cell in cells:
            cuts = quantiles(server.run(cell, streams=1, pause_s=_PACED_PAUSE_S).latencies_s, n=100)
            p50, p99 = best[cell.name]
            best[cell.name] = min(p50, cuts[49] * 1e6), min(p99, cuts[98] * 1e6)
    print("\ngateway, µs of latency of an event, p50 / p99; the gateway's beside the relay's")
    for relay, *others in _rows(cells):
        p50, p99 = best[relay.name]
        added = [(best[cell.name][0] - p50, best[cell.name][1] - p99) for cell in others]
        texts = [f"{p50:.0f} / {p99:.0f}", *(f"{a:.0f} / {b:.0f}" for a, b in added)]
        print(f"{relay.workload.name:34}" + "".join(f"{text:>20}" for text in texts))


def _report_peers(gateway: Server, rounds: int) -> None:
    """Print the cost and latency of an event in this and other gateways."""
    servers = {"streamnorm": gateway}
    with ExitStack() as running:
        for peer in PEERS:
            python = interpreter(peer)
            if python is None:
                print(f"\n{peer.name}: skipped, it is not installed")
                continue
            exchanges = Exchanges()  # its own: what one asks again must not reach another
            if process := running.enter_context(started(peer, python, exchanges.upstream_url)):
                servers[peer.name] = Server(exchanges, *process)
            else:
                print(f"\n{peer.name}: skipped, it does not start")
        if len(servers) == 1:
            return
        measured = [each for each in workloads(_PACED_EVENTS) if each.name in _PEER_WORKLOADS]
        cells = [cell for cell in _cells(measured) if cell.target and cell.reads == ONE_EVENT]
        print("\nµs of CPU an event in all, and p50 / p99 of its latency in µs")
        print(f"{'':34}" + "".join(f"{name:>28}" for name in servers))
        for cell in cells:
            texts = _compare(cell, list(servers.values()), rounds)
            print(
                f"{cell.workload.name + ' to ' + (cell.target or ''):34}"
                + "".join(f"{text:>28}" for text in texts)
            )


def _compare(cell: Cell, servers: list[Server], rounds: int) -> list[str]:
    """Return the cost of a cell in each server, or "fails"."""
    costs: dict[Server, list[tuple[float, float, float]]] = {server: [] for server in servers}
    for _ in range(rounds):
        for server in servers:
            try:
                server.check(cell)
                us = server.run(cell).stream_s / len(cell.workload.frames) * 1e6
                paced = server.run(cell, streams=1, pause_s=_PACED_PAUSE_S).latencies_s
            except (AssertionError, OSError):
                continue
            cuts = quantiles(paced, n=100)
            costs[server].append((us, cuts[49] * 1e6, cuts[98] * 1e6))
    best = [tuple(map(min, zip(*each, strict=True))) for each in costs.values()]
    return [f"{each[0]:.0f}, {each[1]:.0f} / {each[2]:.0f}" if each else "fails" for each in best]


def _rows(cells: list[Cell]) -> Iterator[tuple[Cell, ...]]:
    """Return the cells grouped by stream and read size, the relay's first."""
    return zip(*[iter(cells)] * 3, strict=True)


def _without_chunks(body: bytes) -> bytes:
    """Decode a chunked body."""
    parts: list[bytes] = []
    while body:
        size, _, body = body.partition(b"\r\n")
        length = int(size, 16)
        parts.append(body[:length])
        body = body[length + 2 :]
    return b"".join(parts)
