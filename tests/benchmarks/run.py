"""Measure streamnorm against the JSON decoding that no reader of a stream can do without.

    python tests/benchmarks/run.py [--rounds N] [--only WORD]

All workloads of one round run one after the other, many rounds; of each the fastest
counts.  A unit is untyped `msgspec.json.decode` of the same payloads.  A stream is read
(`events`) and written in each dialect, its own anew.
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
from typing import NamedTuple

import msgspec

import streamnorm

sys.path.insert(0, str(Path(__file__).parent))
import anthropic_workloads
import gemini_workloads
import partial
import responses_workloads
import workloads

DELTAS = 2000
DIALECTS = ("openai_chat", "anthropic", "openai_responses", "gemini")


class Workload(NamedTuple):
    """A stream that is measured.

    Attributes:
        name: What it is called in the report.
        dialect: Of its bytes.
        payloads: What its events hold.
        chunks: Its bytes, one event each.
    """

    name: str
    dialect: str
    payloads: workloads.Payloads
    chunks: list[bytes]


def streams() -> list[Workload]:
    """Return what is measured."""
    chat = {
        "chat: text": workloads.text(DELTAS),
        "chat: reasoning, text": workloads.reasoning(DELTAS // 2),
        "chat: 4 calls": workloads.calls(DELTAS, parallel=4),
        "chat: 4 calls, interleaved": workloads.calls(DELTAS, parallel=4, interleaved=True),
    }
    anthropic = {
        "anthropic: text": anthropic_workloads.text(DELTAS),
        "anthropic: thinking, text, calls": anthropic_workloads.thinking_text_and_tools(DELTAS),
    }
    responses = {
        "responses: text": responses_workloads.text(DELTAS),
        "responses: text as documented": responses_workloads.text(DELTAS, documented=True),
        "responses: reasoning, text, calls": responses_workloads.reasoning_text_and_calls(DELTAS),
        "responses: 4 calls, interleaved": responses_workloads.calls(
            DELTAS, parallel=4, interleaved=True
        ),
    }
    gemini = {
        "gemini: text": gemini_workloads.text(DELTAS),
        "gemini: thought, text, calls": gemini_workloads.thought_text_and_calls(DELTAS),
    }
    framed = [
        ("openai_chat", chat, workloads.frames),
        ("anthropic", anthropic, anthropic_workloads.frames),
        ("openai_responses", responses, responses_workloads.frames),
        ("gemini", gemini, gemini_workloads.frames),
    ]
    return [
        Workload(name, dialect, payloads, frames(payloads))
        for dialect, named, frames in framed
        for name, payloads in named.items()
    ]


def unit(payloads: list[str]) -> Callable[[], None]:
    data = [payload.encode() for payload in payloads]
    decode = msgspec.json.Decoder().decode

    def run() -> None:
        for payload in data:
            decode(payload)

    return run


def events(chunks: list[bytes], dialect: str) -> Callable[[], None]:
    def run() -> None:
        decoder = streamnorm.decoder(dialect)
        for chunk in chunks:
            for _ in decoder.feed(chunk):
                pass
        decoder.close()
        assert isinstance(decoder.outcome, streamnorm.Completed)

    return run


def transcode(chunks: list[bytes], dialect: str, to: str) -> Callable[[], None]:
    def run() -> None:
        transcoder = streamnorm.Transcoder(dialect, to, verbatim=False)
        for chunk in chunks:
            transcoder.feed(chunk)
        transcoder.close()
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
    parser.add_argument("--only", default="", help="measure the workloads of this name alone")
    arguments = parser.parse_args()
    rounds, only = arguments.rounds, arguments.only
    measured = [workload for workload in streams() if only in workload.name]
    runs: dict[str, Callable[[], None]] = {}
    for name, dialect, payloads, chunks in measured:
        runs[f"unit {name}"] = unit(payloads)
        runs[f"events {name}"] = events(chunks, dialect)
        for to in DIALECTS:
            runs[f"{to} {name}"] = transcode(chunks, dialect, to)
    if not only:
        runs |= others()
    best = fastest(runs, rounds)

    columns = ("events", *DIALECTS)
    print(f"{'in units':34}{'unit µs':>8}" + "".join(f"{c[-9:]:>10}" for c in columns))
    for name, _, payloads, _ in measured:
        one = best[f"unit {name}"]
        costs = "".join(f"{best[f'{column} {name}'] / one:10.2f}" for column in columns)
        print(f"{name:34}{one / len(payloads) * 1e6:8.2f}{costs}")
    if not only:
        report_others(best)
        partial.report(min(rounds, 3))


def others() -> dict[str, Callable[[], None]]:
    """Return what is measured once, of Chat Completions."""

    def chat(payloads: workloads.Payloads) -> Callable[[], None]:
        return transcode(workloads.frames(payloads), "openai_chat", "anthropic")

    text = workloads.text(DELTAS)
    small, large = workloads.calls(DELTAS, parallel=1), workloads.calls(10 * DELTAS, parallel=1)
    return {
        "iter_events": events_sync(text),
        "async": events_async(text),
        "async core": events_async(text, bare=True),
        "10 x longer": chat(workloads.text(10 * DELTAS)),
        "1 MB call": chat([p.replace("value", "value " + "x" * 30) for p in large]),
        "small call, long fragments": chat(
            [p.replace("value", "value " + "x" * 30) for p in small]
        ),
    }


def report_others(best: dict[str, float]) -> None:
    """Print what others compares."""
    stream, core, listed = best["async"], best["async core"], best["events chat: text"]
    print(f"events() / iter_events()     {stream / best['iter_events']:.2f}")
    print(f"events() / decoder.feed()    {stream / core:.2f}  (same source)")
    print(f"events() / decoder.feed()    {stream / listed:.2f}  (of a list)")
    longer = best["10 x longer"] / best["anthropic chat: text"]
    print(f"10 x longer text costs       {longer:.2f} x")
    per_delta = best["1 MB call"] / best["small call, long fragments"] / 10
    print(f"a delta of a 1 MB call       {per_delta:.2f} x one of a 100 kB call")
    print(f"an open stream holds         {open_stream_bytes()} bytes besides its text")


if __name__ == "__main__":
    main()
