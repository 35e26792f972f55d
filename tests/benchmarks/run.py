"""Run all benchmarks, and compare the figures with their bars.

    python tests/benchmarks/run.py [--rounds N] [--only WORD] [--quick]

Every workload at every read size, then long streams, framings, asynchronous layers, transports,
memory, starts, whole bodies, compressed requests, stores, the gateway, its first tokens, its
state and its WebSockets, and the log of streams.
The runs are interleaved in rounds; of each run the fastest round counts, in CPU time.  The exit
status is 1 if anything is over its bar.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

import asynchronous
import bodies
import compressed_requests
import conversations
import framings
import gateway
import gateway_first_tokens
import gateway_state
import gateway_websockets
import log
import long_streams
import matrix
import memory
import partial
import real_streams
import starts
import stores
import transports
from timing import Figure

EVENTS = 1000
QUICK_ROUNDS = 4

SECTIONS: dict[str, Callable[[int], list[Figure]]] = {
    "real streams": real_streams.report,
    "long streams": long_streams.report,
    "framings": framings.report,
    "asynchronous": asynchronous.report,
    "transports": transports.report,
    "memory": memory.report,
    "starts": starts.report,
    "partial values": partial.report,
    "bodies": bodies.report,
    "conversations": conversations.report,
    "compressed requests": compressed_requests.report,
    "gateway": gateway.report,
    "first tokens": gateway_first_tokens.report,
    "stores": stores.report,
    "state": gateway_state.report,
    "websockets": gateway_websockets.report,
    "log": log.report,
}


def main() -> int:
    arguments = _arguments()
    rounds = QUICK_ROUNDS if arguments.quick else arguments.rounds
    cells, ratios = matrix.report(EVENTS, rounds, arguments.only)
    sections = {} if arguments.quick else SECTIONS
    chosen = [report for name, report in sections.items() if arguments.only in name]
    others = [figure for report in chosen for figure in report(rounds)]
    if not cells and not chosen:
        print(f"no workload or section is named {arguments.only!r}", file=sys.stderr)
        return 2
    print()
    _summarize(cells, "cells")
    _summarize(ratios, "ratios of several events a read to one")
    _summarize(others, "other figures")
    return int(any(figure.is_over for figure in (*cells, *ratios, *others)))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=25)
    names = ", ".join(SECTIONS)
    parser.add_argument(
        "--only", default="", help=f"the workloads and sections whose name holds WORD ({names})"
    )
    parser.add_argument("--quick", action="store_true", help="few rounds of the matrix alone")
    return parser.parse_args()


def _summarize(figures: list[Figure], what: str) -> None:
    """Print how many figures are within their bars, and the one furthest above."""
    if not figures:
        return
    within = sum(not figure.is_over for figure in figures)
    worst = max(figures, key=lambda figure: figure.value / figure.bar)
    print(
        f"{within} of {len(figures)} {what} within their bar;"
        f" worst {worst.name}: {worst.value:.2f} of {worst.bar:.2f}"
    )


if __name__ == "__main__":
    sys.exit(main())
