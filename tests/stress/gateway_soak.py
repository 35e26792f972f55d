"""Soak test of a gateway: ten thousand streams in one process, with constant memory.

    python tests/stress/gateway_soak.py [--streams 10000]

Clients of all dialects read streams and whole answers, short and long, that end, fail and break
off; one of ten leaves.  From the second to the last tenth of them, the resident memory of the
process may grow by 1 MiB.  It varies by as much with the garbage that was not collected yet, so
the least of three samples counts at both ends.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.gateway.soak import soak

_MAX_GROWTH_BYTES = 1024 * 1024
_MIB = 1024 * 1024


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--streams", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    samples, statuses = asyncio.run(soak(options.streams, options.seed))
    for number, sample in enumerate(samples, 1):
        print(f"{number * options.streams // 10:6,} streams, {sample / _MIB:6.2f} MiB")
    growth = min(samples[-3:]) - min(samples[1:4])
    print(f"statuses {dict(statuses)}")
    print(f"grown by {growth / _MIB:.2f} MiB from the second tenth (at most 1)")
    return growth > _MAX_GROWTH_BYTES


if __name__ == "__main__":
    raise SystemExit(main())
