"""Soak test: ten thousand streams in one process, with constant memory.

    python tests/stress/soak.py [--streams 10000]

All recordings, those that fail and those that are cut too, through each kind of stream: read
to the end, left in the middle, and cancelled.  After a tenth of them, which fills the caches,
nothing may stay allocated.
"""

from __future__ import annotations

import argparse
import gc
import sys
import tracemalloc
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.http.asgi_client import Client
from support.http.byte_source import AsyncBytes
from support.streams.content import DIALECTS
from support.streams.corpus import pieces, recordings
from support.streams.kinds import open_events, open_tap, open_to_chat, open_transcode

import streamnorm
from streamnorm import StreamnormError
from streamnorm.recording import Recording

_MAX_GROWTH_BYTES = 64 * 1024
_KINDS = (open_events, open_tap, open_transcode, open_to_chat)
_LEAVE_AFTER = 2  # items
_CHUNK_BYTES = 700


async def _read(stream: Any) -> None:
    async for _ in stream:
        pass


async def _leave(stream: Any) -> None:
    count = 0
    async with stream:
        async for _ in stream:
            count += 1
            if count == _LEAVE_AFTER:
                break


async def _cancel(stream: Any) -> None:
    with anyio.CancelScope() as scope:
        async with stream:
            async for _ in stream:
                scope.cancel()


async def _respond(stream: Any) -> None:
    await Client().request(streamnorm.asgi.EventStreamResponse(stream))


_ENDS = (_read, _leave, _cancel)


async def _play(number: int, recording: Recording) -> None:
    kind, end = _KINDS[number % len(_KINDS)], _ENDS[number % len(_ENDS)]
    if kind is not open_events and number % 5 == 0:
        end = _respond
    source = AsyncBytes(pieces(recording.body, _CHUNK_BYTES), waits=True)
    with suppress(StreamnormError):  # some end so in their recording
        await end(kind(source, []))
    if source.closed != 1:
        raise SystemExit(f"{recording.name}: source closed {source.closed} times, expected once")


async def _soak(count: int, samples: list[int]) -> None:
    every = [recording for dialect in DIALECTS for recording in recordings(dialect)]
    for number in range(1, count + 1):
        await _play(number, every[number * 7 % len(every)])
        if number % (count // 10) == 0:
            gc.collect()
            samples.append(tracemalloc.get_traced_memory()[0])
            print(f"{number:6,} streams, {samples[-1] / 1024:8,.0f} KB", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, default=10_000)
    parser.add_argument("--backend", choices=("asyncio", "trio"), default="asyncio")
    options = parser.parse_args()
    samples: list[int] = []
    tracemalloc.start()
    anyio.run(_soak, options.streams, samples, backend=options.backend)
    growth = max(samples[1:]) - samples[0]
    print(f"grown by {growth / 1024:,.1f} KB since the first tenth (at most 64)")
    return growth > _MAX_GROWTH_BYTES


if __name__ == "__main__":
    raise SystemExit(main())
