"""Fuzz a running gateway with hostile clients and upstreams.

    python tests/fuzz/gateway.py [--minutes 20] [--seed N] [--rounds N] [--server serve]

A round is forty connections: requests whose heads, framing, pipelining, encoding or JSON are
damaged, and upstreams that answer with damaged streams, heads and chunks.  The process lives, no
answer is a fault of the gateway's, none has the marker of another client or a key, every
connection ends, the log has no traceback and no secret, memory is bounded, and after each round
honest requests are answered.  A find is printed with the seed that makes it again: `--seed N
--rounds 1`.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.gateway.fuzz.rounds import fuzzed_gateway
from support.gateway.processes import COMMANDS

_SHOWN = 60
_REPORT_S = 60


async def _fuzz(server: str, seed: int, rounds: int | None, minutes: float) -> int:
    finds = Counter[str]()
    begin = reported = time.monotonic()
    with tempfile.TemporaryDirectory() as directory:
        async with fuzzed_gateway(server, Path(directory)) as gateway:
            while gateway.rounds != rounds and time.monotonic() < begin + minutes * 60:
                for text in await gateway.round(seed):
                    finds[text.partition(":")[0]] += 1
                    if finds.total() <= _SHOWN:
                        print(f"seed {seed}: {text}", flush=True)
                seed += 1
                if time.monotonic() > reported + _REPORT_S:
                    reported = time.monotonic()
                    done = f"{gateway.rounds:,} rounds, {gateway.requests:,} requests"
                    print(f"{server}: {done}, {finds.total()} finds", flush=True)
            print(
                f"{server}: {gateway.rounds:,} rounds, {gateway.requests:,} requests, "
                f"statuses {dict(sorted(gateway.answers.items()))}, "
                f"{finds.total()} finds: {dict(finds)}"
            )
    return finds.total()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=20, help="of all servers (default 20)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, help="of each server")
    parser.add_argument("--server", choices=COMMANDS, action="append", help="default: all")
    options = parser.parse_args()
    servers = options.server or [*COMMANDS]
    minutes = options.minutes / len(servers)
    finds = [
        asyncio.run(_fuzz(server, options.seed, options.rounds, minutes)) for server in servers
    ]
    return any(finds)


if __name__ == "__main__":
    raise SystemExit(main())
