"""Time to the first token with a thousand simultaneous clients, compared to a relay.

All clients are connected before the first of them asks; the upstream answers each request as soon
as it has it, with all up to the first token.  The time is that from the first request to a
client's first bytes of the body.
"""

from __future__ import annotations

import select
import socket
import sys
import time
from contextlib import ExitStack
from statistics import quantiles

from gateway import Cell, serve
from gateway_exchanges import HEAD, LAST_CHUNK, Exchanges, chunk, encoded, is_whole
from timing import Figure
from workloads import workloads

__all__ = ["report"]

_STREAMS = 1000
_BACKLOG = 4096
_ROUNDS = 5
_BAR = 5.0  # times the relay's
_TIMEOUT_S = 60.0
_BUFFER = 1 << 16
_LAST_FRAMES = 3  # of each stream, behind its only token
_MEASURED = ("chat: text", "anthropic: text")


def report(rounds: int) -> list[Figure]:
    """Print the times to the first token; return the figures with a bar."""
    if not sys.platform.startswith("linux"):
        print("\nfirst tokens: skipped, it needs `select.poll` and sockets in thousands")
        return []
    exchanges = Exchanges(backlog=_BACKLOG)
    figures: list[Figure] = []
    print(f"\nms to the first token of {_STREAMS:,} streams, p50 / p99")
    print(f"{'':34}{'relay':>20}{'same dialect':>20}{'other dialect':>20}  bar {_BAR} x")
    with serve(exchanges) as server:
        for workload in (each for each in workloads(1) if each.name in _MEASURED):
            targets = (None, workload.dialect, workload.other)
            best = [(float("inf"), float("inf"))] * len(targets)
            for _ in range(min(rounds, _ROUNDS)):
                for number, target in enumerate(targets):
                    request = server.request(Cell(workload, "", target))
                    cuts = quantiles(
                        _times(exchanges, server.port, request, workload.frames), n=100
                    )
                    p50, p99 = best[number]
                    best[number] = min(p50, cuts[49]), min(p99, cuts[98])
            row = [f"{p50 * 1e3:.0f} / {p99 * 1e3:.0f}" for p50, p99 in best]
            for number, name in ((1, "same"), (2, "other")):
                ratio = max(mine / relay for mine, relay in zip(best[number], best[0], strict=True))
                figures.append(Figure(f"first tokens, {workload.name}, {name}", ratio, _BAR))
                row[number] += f" ({ratio:.1f} x{figures[-1].mark.strip()})"
            print(f"{workload.name:34}" + "".join(f"{text:>20}" for text in row))
    return figures


def _times(
    exchanges: Exchanges, port: int, request: tuple[str, bytes], frames: list[bytes]
) -> list[float]:
    """Return each stream's seconds from the first request to its first token."""
    asked = encoded(*request)
    answered = HEAD + chunk(b"".join(frames[:-_LAST_FRAMES]))
    rest = chunk(b"".join(frames[-_LAST_FRAMES:])) + LAST_CHUNK
    with ExitStack() as sockets:
        clients = {
            client.fileno(): client
            for client in (
                sockets.enter_context(socket.create_connection(("127.0.0.1", port), _TIMEOUT_S))
                for _ in range(_STREAMS)
            )
        }
        poll = select.poll()
        listener = exchanges.listener
        for number in (listener.fileno(), *clients):
            poll.register(number, select.POLLIN)
        upstreams: dict[int, socket.socket] = {}
        received: dict[int, bytes] = {}
        times: list[float] = []
        begin = time.perf_counter()
        for client in clients.values():
            client.sendall(asked)
        while len(times) < _STREAMS:
            ready = poll.poll(_TIMEOUT_S * 1000)
            assert ready, "the server answers no more"
            for number, _ in ready:
                if number == listener.fileno():
                    upstream = sockets.enter_context(listener.accept()[0])
                    upstreams[upstream.fileno()] = upstream
                    poll.register(upstream, select.POLLIN)
                    continue
                connection = upstreams.get(number) or clients[number]
                data = received[number] = received.get(number, b"") + connection.recv(_BUFFER)
                if number in upstreams:
                    if is_whole(data):
                        connection.sendall(answered)
                        poll.unregister(number)
                elif b"data: " in data:
                    times.append(time.perf_counter() - begin)
                    poll.unregister(number)
        for upstream in upstreams.values():
            upstream.sendall(rest)
        for client in clients.values():
            while client.recv(_BUFFER):
                pass
    return times
