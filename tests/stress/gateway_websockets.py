"""Soak test of a gateway over WebSockets: constant memory, and nothing left open.

    python tests/stress/gateway_websockets.py [--connections 2400] [--long 120] [--turns 50]
        [--together 1000] [--together-long 100]

Connections of one turn each, then conversations of many turns, each of which continues the
response before.  In the second half of each, the resident memory of the process may grow by 1 MiB:
in the first it grows with the garbage that was not collected yet.

Then as many connections are open together, of which every second client leaves within an answer:
no task, open answer, history or file descriptor may be left.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.gateway.socket_soak import find_left, soak

_MIB = 1024 * 1024
_MAX_GROWTH_BYTES = _MIB


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--connections", type=int, default=2400)
    parser.add_argument("--long", type=int, default=120)
    parser.add_argument("--turns", type=int, default=50)
    parser.add_argument("--together", type=int, default=1000)
    parser.add_argument("--together-long", type=int, default=100)
    options = parser.parse_args()
    failed = False
    for connections, turns in ((options.connections, 1), (options.long, options.turns)):
        samples = asyncio.run(soak(connections, turns))
        growth = min(samples[-3:]) - max(samples[5:7])
        shown = ", ".join(f"{sample / _MIB:.2f}" for sample in samples)
        print(f"{connections} connections of {turns} turns: {shown} MiB")
        print(f"grown by {growth / _MIB:.2f} MiB in the second half (at most 1)")
        failed |= growth > _MAX_GROWTH_BYTES
    for connections, turns in ((options.together, 1), (options.together_long, options.turns)):
        left = asyncio.run(find_left(connections, turns))
        counts = ", ".join(f"{count} {name}" for name, count in left._asdict().items())
        print(f"{connections} connections of {turns} turns at once: {counts} left")
        failed |= any(left)
    return failed


if __name__ == "__main__":
    raise SystemExit(main())
