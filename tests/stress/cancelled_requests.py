"""Stress test: requests cancelled at random points, with and without a transcoding transport.

    python tests/stress/cancelled_requests.py [--requests 500] [--seed 1]

A client of httpx and one of httpx2, on asyncio and on trio, is cancelled before its request
is sent, within the header of the response, within its stream, and at its end; on asyncio half
of the times as a task.  The same requests are cancelled without the transport, because httpx
leaks connections by itself: with it there may be no more.
"""

from __future__ import annotations

import argparse
import sys
import tracemalloc
import warnings
from functools import partial
from pathlib import Path

import anyio

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.http.cancelled_requests import Leftovers, cancel_requests
from support.http.families import FAMILIES

_MAX_GROWTH_BYTES = 64 * 1024  # beyond that of the bare client; an open stream holds 9 KB


def _exceeds(left: Leftovers, bare: Leftovers) -> bool:
    growth_bytes = left.memory_bytes - max(bare.memory_bytes, 0)
    return left.counts_exceed(bare) or growth_bytes > _MAX_GROWTH_BYTES


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--requests", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    # Generators that httpx leaves to the garbage collector.
    warnings.simplefilter("ignore", ResourceWarning)
    tracemalloc.start()
    failed = False
    print(
        f"{'left of ' + str(options.requests) + ' requests':40}"
        + "".join(f"{name:>14}" for name in Leftovers._fields)
    )
    for backend in ("asyncio", "trio"):
        for family in FAMILIES:
            left = {}
            for through in (False, True):
                run = partial(
                    cancel_requests, family, options.requests, options.seed, through=through
                )
                left[through] = anyio.run(run, backend=backend)
                name = f"{backend}, {family}, {'through the transport' if through else 'bare'}"
                print(f"{name:40}" + "".join(f"{value:14,}" for value in left[through]), flush=True)
            failed |= _exceeds(left[True], left[False])
    print(
        "the transport leaves more"
        if failed
        else "the transport leaves no more than the bare client"
    )
    return failed


if __name__ == "__main__":
    raise SystemExit(main())
