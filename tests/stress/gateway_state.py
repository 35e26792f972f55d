"""Stress test: stored conversations on a gateway with four workers, some of them killed.

    python tests/stress/gateway_state.py [--conversations 1000] [--kills 50] [--store redis]

Clients hold conversations of four turns, each turn over a connection of its own, so that any
worker may answer it.  In the middle of some answers the worker is killed (SIGKILL), and its
clients send their requests again.  The upstream compares each history with what was said.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.gateway.stored_conversations import converse
from support.state.valkey_servers import valkey_server

_STORES = ("sqlite", "redis")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--conversations", type=int, default=1000)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--store", choices=_STORES, action="append")
    options = parser.parse_args()
    logging.getLogger("asyncio").setLevel(logging.ERROR)  # connections of killed workers
    status = 0
    for store in options.store or _STORES:
        with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
            state = f"sqlite:{name}/state.db"
            if store == "redis":
                state = f"redis://127.0.0.1:{stack.enter_context(valkey_server()).port}/0"
            began = time.perf_counter()
            report = asyncio.run(
                converse(
                    Path(name), state, conversations=options.conversations, kills=options.kills
                )
            )
        print(
            f"{store}: {options.conversations:,} conversations, {report.answers:,} answers, "
            f"{report.killed} workers killed, {report.repeated:,} requests repeated, "
            f"{report.refused} refused, {len(report.wrong)} wrong, "
            f"{time.perf_counter() - began:.0f} s"
        )
        for text in report.wrong[:20]:
            print(f"  {text}")
        status |= bool(report.wrong) or report.killed != options.kills
    return status


if __name__ == "__main__":
    raise SystemExit(main())
