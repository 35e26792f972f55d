"""Attacks by clients that occupy connections: silence, slow bodies, large heads."""

from __future__ import annotations

import asyncio

from support.attacks.bench import TENANTS, Attack, Bench, Setup
from support.http.raw_client import converse

__all__ = ["ATTACKS"]

_CONNECTIONS = 80
_WORKERS = 2  # at most
# Of which a server has fewer than there are connections.
_FEW_DESCRIPTORS = """
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
"""
_PLACES = 4
_BYTES = 12  # of each slow body, of which one a second arrives
_LARGE = 100_000
_SERVE = ("serve",)


async def _silent(bench: Bench) -> str:
    """Attack by more silent connections than the server allows."""
    port = int(bench.url.rpartition(":")[2])
    silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(_CONNECTIONS)]
    for _ in range(3):
        await bench.ask()
    for _, writer in silent:
        writer.write(b"POST /v1/messages HTTP/1.1\r\nhost: loc")
    for _ in range(3):
        await bench.ask()
    for _, writer in silent:
        writer.transport.abort()
    return f"{_CONNECTIONS} silent connections at 64 descriptors, honest requests are answered"


async def _slow_bodies(bench: Bench) -> str:
    """Attack by as many slow bodies as there may be requests."""
    head = "POST /v1/messages HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    head += f"authorization: Bearer {TENANTS[0]}\r\ncontent-length: 1000\r\n\r\n"
    pieces = [head.encode(), *[piece for _ in range(_BYTES) for piece in (b" ", 1.0)]]
    slow = [
        asyncio.create_task(converse(bench.url, pieces, answer_s=60, close_s=20))
        for _ in range(_PLACES * _WORKERS)
    ]
    answers = [await task for task in slow]
    statuses = {answer.data[9:12] for answer in answers}
    assert statuses <= {b"408", b"429"}, f"statuses {statuses} for slow bodies"
    assert b"408" in statuses, "no slow body timed out"
    assert all(answer.is_closed for answer in answers), "a connection does not end"
    for _ in range(_PLACES):
        await bench.ask()
    return f"{len(answers)} slow bodies end with {sorted(status.decode() for status in statuses)}"


async def _large_heads(bench: Bench) -> str:
    honest = f"GET /v1/models HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {TENANTS[0]}\r\n"
    heads = (
        honest + "x: " + "a" * _LARGE + "\r\n\r\n",
        honest + "x: " + "a" * _LARGE,
        honest + "".join(f"x{number}: {'a' * 500}\r\n" for number in range(_LARGE // 500)) + "\r\n",
        "GET /" + "a" * _LARGE + " HTTP/1.1\r\nhost: localhost\r\n\r\n",
    )
    begin = bench.watch.resident_bytes()
    for head in heads:
        answer = await converse(bench.url, [head.encode()], answer_s=20, close_s=20)
        assert answer.data[9:10] == b"4", f"{answer.data[:12]!r} for a head of {len(head):,} bytes"
        assert answer.is_closed, "the connection does not end"
    growth = bench.watch.resident_bytes() - begin
    assert growth < 100 * _LARGE, f"{growth:,} bytes more memory"
    await bench.ask()
    return f"{len(heads)} heads of {_LARGE:,} bytes are refused"


ATTACKS = (
    Attack(
        "silent connections", _silent, Setup(patch=_FEW_DESCRIPTORS), _SERVE
    ),  # other servers have no bound on them
    Attack("slow bodies", _slow_bodies, Setup(f"idle_s = 3\nmax_streams = {_PLACES}\n")),
    Attack("large heads", _large_heads, servers=_SERVE),
)
