"""Stress test: stores shared by several processes, some killed during a put.

    python tests/stress/stores.py [--conversations 250] [--kills 50] [--store redis]

Four processes hold conversations of several turns each, and find every history before they go
on with it.  Meanwhile others are killed (SIGKILL) while they store a response.  At the end each
history that was acknowledged must be found as it was stored, and by no other client.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.state.stress import stress
from support.state.valkey_servers import valkey_server

_STORES = ("sqlite", "redis")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--conversations", type=int, default=250, help="of each process")
    parser.add_argument("--turns", type=int, default=8)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--store", choices=_STORES, action="append")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    status = 0
    for store in options.store or _STORES:
        with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
            url = f"sqlite:{name}/state.db"
            if store == "redis":
                url = f"redis://127.0.0.1:{stack.enter_context(valkey_server()).port}/0"
            began = time.perf_counter()
            report = stress(
                url,
                processes=4,
                conversations=options.conversations,
                turns=options.turns,
                kills=options.kills,
                seed=options.seed,
            )
        print(
            f"{store}: {4 * options.conversations:,} conversations, {report.stored:,} responses, "
            f"{report.killed} processes killed in the middle of a put, whose response is stored "
            f"in {report.unacknowledged} cases; wrong: {dict(report.wrong) or 'nothing'}, "
            f"{time.perf_counter() - began:.0f} s"
        )
        status |= bool(report.wrong) or report.killed != options.kills
    return status


if __name__ == "__main__":
    raise SystemExit(main())
