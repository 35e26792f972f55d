"""Measure streamnorm against the JSON decoding that no reader of a stream can do without.

    python tests/benchmarks/run.py [--rounds N]

All workloads of one round run one after the other, many rounds; of each the fastest
counts.  A unit is untyped `msgspec.json.decode` of the same payloads.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import sys
import time
import tracemalloc
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import msgspec

import streamnorm

sys.path.insert(0, str(Path(__file__).parent))
import anthropic_workloads
import partial
import workloads

DELTAS = 2000


def unit(payloads: list[str]) -> Callable[[], None]:
    data = [payload.encode() for payload in payloads]
    decode = msgspec.json.Decoder().decode

    def run() -> None:
        for payload in data:
            decode(payload)

    return run


FRAMES = {"openai_chat": workloads.frames, "anthropic": anthropic_workloads.frames}
OTHER = {"openai_chat": "anthropic", "anthropic": "openai_chat"}


def events(payloads: list[str], dialect: str = "openai_chat") -> Callable[[], None]:
    chunks = FRAMES[dialect](payloads)

    def run() -> None:
        decoder = streamnorm.decoder(dialect)
        for chunk in chunks:
            for _ in decoder.feed(chunk):
                pass
        assert isinstance(decoder.outcome, streamnorm.Completed)

    return run


def transcode(
    payloads: list[str], dialect: str = "openai_chat", to: str | None = None
) -> Callable[[], None]:
    chunks = FRAMES[dialect](payloads)

    def run() -> None:
        transcoder = streamnorm.Transcoder(dialect, to or OTHER[dialect], verbatim=False)
        for chunk in chunks:
            transcoder.feed(chunk)
        assert isinstance(transcoder.outcome, streamnorm.Completed)

    return run


def events_sync(payloads: list[str]) -> Callable[[], None]:
    chunks = workloads.frames(payloads)

    def run() -> None:
        for _ in streamnorm.iter_events(chunks, dialect="openai_chat"):
            pass

    return run


def events_async(payloads: list[str], *, bare: bool = False) -> Callable[[], None]:
    """Read an asynchronous source with `events`, or with the bare core."""
    chunks = workloads.frames(payloads)

    class Source:
        def __init__(self) -> None:
            self._chunks = iter(chunks)

        def __aiter__(self) -> AsyncIterator[bytes]:
            return self

        async def __anext__(self) -> bytes:
            for chunk in self._chunks:
                return chunk
            raise StopAsyncIteration

    async def stream() -> None:
        async for _ in streamnorm.events(Source(), dialect="openai_chat"):
            pass

    async def core() -> None:
        decoder = streamnorm.decoder("openai_chat")
        async for chunk in Source():
            for _ in decoder.feed(chunk):
                pass

    loop = asyncio.new_event_loop()
    return lambda: loop.run_until_complete(core() if bare else stream())


def fastest(runs: dict[str, Callable[[], None]], rounds: int) -> dict[str, float]:
    """Return CPU seconds of each run's fastest round, the rounds interleaved."""
    best = dict.fromkeys(runs, float("inf"))
    for number in range(rounds):
        for name, run in runs.items():
            gc.collect()
            gc.disable()
            start = time.process_time()
            run()
            best[name] = min(best[name], time.process_time() - start)
            gc.enable()
        print(f"\rround {number + 1} of {rounds}", end="", file=sys.stderr)
    print(file=sys.stderr)
    return best


def open_stream_bytes() -> int:
    """Return what one open transcoding holds besides its text, the blocks of Python included."""
    chunks = workloads.frames(workloads.text(DELTAS))[:-2]
    warm = streamnorm.Transcoder("openai_chat", "anthropic")
    for chunk in chunks[:3]:
        warm.feed(chunk)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    many = [streamnorm.Transcoder("openai_chat", "anthropic") for _ in range(20)]
    for transcoder in many:
        for chunk in chunks:
            transcoder.feed(chunk)
    held = (tracemalloc.get_traced_memory()[0] - before) // len(many)
    tracemalloc.stop()
    text = sum(len(transcoder.message.text.encode()) for transcoder in many) // len(many)
    return held - text


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=30)
    rounds = parser.parse_args().rounds
    streams = {
        "chat: text": workloads.text(DELTAS),
        "chat: reasoning, text": workloads.reasoning(DELTAS // 2),
        "chat: 4 calls": workloads.calls(DELTAS, parallel=4),
        "chat: 4 calls, interleaved": workloads.calls(DELTAS, parallel=4, interleaved=True),
        "anthropic: text": anthropic_workloads.text(DELTAS),
        "anthropic: thinking, text, calls": anthropic_workloads.thinking_text_and_tools(DELTAS),
    }
    runs: dict[str, Callable[[], None]] = {}
    for name, payloads in streams.items():
        dialect = "anthropic" if name.startswith("anthropic") else "openai_chat"
        runs[f"unit {name}"] = unit(payloads)
        runs[f"events {name}"] = events(payloads, dialect)
        runs[f"transcode {name}"] = transcode(payloads, dialect)
        runs[f"normalize {name}"] = transcode(payloads, dialect, dialect)
    text = streams["chat: text"]
    runs["iter_events"] = events_sync(text)
    runs["async"] = events_async(text)
    runs["async core"] = events_async(text, bare=True)
    runs["10 x longer"] = transcode(workloads.text(10 * DELTAS))
    small, large = workloads.calls(DELTAS, parallel=1), workloads.calls(10 * DELTAS, parallel=1)
    runs["1 MB call"] = transcode([p.replace("value", "value " + "x" * 30) for p in large])
    runs["small call, long fragments"] = transcode(
        [p.replace("value", "value " + "x" * 30) for p in small]
    )
    best = fastest(runs, rounds)

    print(f"{'':34}{'unit µs':>9}{'events':>9}{'transcode':>11}{'normalize':>11}   in units")
    for name, payloads in streams.items():
        one = best[f"unit {name}"]
        costs = [best[f"{what} {name}"] / one for what in ("events", "transcode", "normalize")]
        print(
            f"{name:34}{one / len(payloads) * 1e6:9.2f}{costs[0]:9.2f}{costs[1]:11.2f}"
            f"{costs[2]:11.2f}"
        )
    stream, core, listed = best["async"], best["async core"], best["events chat: text"]
    print(f"events() / iter_events()     {stream / best['iter_events']:.2f}")
    print(f"events() / decoder.feed()    {stream / core:.2f}  (same source)")
    print(f"events() / decoder.feed()    {stream / listed:.2f}  (of a list)")
    longer = best["10 x longer"] / best["transcode chat: text"]
    print(f"10 x longer text costs       {longer:.2f} x")
    per_delta = best["1 MB call"] / best["small call, long fragments"] / 10
    print(f"a delta of a 1 MB call       {per_delta:.2f} x one of a 100 kB call")
    print(f"an open stream holds         {open_stream_bytes()} bytes besides its text")
    partial.report(min(rounds, 3))


if __name__ == "__main__":
    main()
