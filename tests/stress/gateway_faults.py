"""Fault matrix of the gateway: every upstream fault, at every moment, in all dialects.

    python tests/stress/gateway_faults.py [--only TEXT]

An official SDK asks a gateway over a real connection, and the gateway an upstream that fails by
a script.  Each cell asserts the outcome, the exception of the SDK and the body of an error
response, that the upstream got one request and no connection to it is left, and that no key,
prompt, answer or query is in any log.  Clients of Responses ask over a WebSocket, too, where an
answer has one end, and its error the status of the response.  Prints a table, and ends with status
1 if a cell misses.

Left out, as loopback connections cannot show it or the gateway does not speak it: names that
cannot be resolved, and certificates of other names (the resolver and the store of certificates
are the system's; a failing handshake is here); HTTP/2's RST_STREAM, GOAWAY and END_STREAM (the
gateway asks its upstreams over HTTP/1.1 alone); a line of a gigabyte (the bound on events is
lowered instead).
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from acceptance.fault_cells import CELLS, SOCKET_CELLS, Cell
from acceptance.fault_runs import open_bench


async def _run(cells: list[Cell]) -> dict[Cell, list[str]]:
    missed: dict[Cell, list[str]] = {}
    begin = time.monotonic()
    async with open_bench() as bench:
        for number, cell in enumerate(cells, 1):
            if wrong := await bench.run(cell):
                missed[cell] = wrong
            progress = f"{number}/{len(cells)} cells, {len(missed)} missed"
            print(f"\r{progress}, {time.monotonic() - begin:.0f} s", end="", file=sys.stderr)
    print(file=sys.stderr)
    return missed


def _print_table(cells: list[Cell], missed: dict[Cell, list[str]]) -> None:
    total: Counter[str] = Counter()
    bad: Counter[str] = Counter()
    for cell in cells:
        form = "" if cell.fault.stream else " (whole)"
        total[cell.fault.name + form] += 1
        bad[cell.fault.name + form] += cell in missed
    for name, count in total.items():
        print(f"{name:45} {count:4} cells  {f'{bad[name]} missed' if bad[name] else 'ok'}")
    for cell, wrong in missed.items():
        print(f"\n{cell}", *wrong, sep="\n    ")
    pairs = {(cell.client, cell.upstream) for cell in cells}
    print(f"\n{len(cells)} cells, {len(total)} faults, {len(pairs)} pairs, {len(missed)} missed")


def main() -> int:
    """Run the matrix, or a part of it."""
    parser = argparse.ArgumentParser(description=__doc__, add_help=True)
    parser.add_argument("--only", default="", help="run the cells that have this in their name")
    only = parser.parse_args().only
    cells = [cell for cell in (*CELLS, *SOCKET_CELLS) if only in str(cell)]
    missed = asyncio.run(_run(cells))
    _print_table(cells, missed)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
