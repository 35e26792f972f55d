"""Attacks on the real gateway, in every server that can run it.

    python tests/stress/attacks.py [--server hypercorn] [--only TEXT] [--list] [--requests 20000]

Each attack starts a gateway of its own: `streamnorm serve`, uvicorn with h11, with httptools and
with two workers, and hypercorn.  Afterwards its process lives, and its log has no traceback, no
key and no prompt.  Prints a line for each, and ends with status 1 if a gateway does not withstand
one.  Another tenant's answer, keys in logs and answers, pages in browsers, stores that fail, time
that jumps, names that do not resolve, HTTP/2: `--list` has all.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.attacks.bench import Attack
from support.attacks.catalog import ATTACKS, withstand
from support.attacks.mixed import mixed_requests
from support.gateway.processes import COMMANDS, missing_for


def _run(server: str, attack: Attack) -> bool:
    """Run an attack and print its observations; return whether the gateway withstood it."""
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as directory:
        seen, wrong = asyncio.run(withstand(server, attack, Path(directory)))
    took = time.monotonic() - begin
    verdict = f"FAILED: {'; '.join(wrong)}" if wrong else "ok"
    print(f"{server:18} {attack.name:44} {seen:60} {took:4.0f} s  {verdict}", flush=True)
    return not wrong


def main() -> int:
    """Run all or selected attacks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--server", choices=COMMANDS, action="append", help="default: all")
    parser.add_argument("--only", default="", help="run the attacks that have this in their name")
    parser.add_argument("--list", action="store_true", help="list the attacks")
    parser.add_argument("--requests", type=int, default=20_000, help="mixed ones, of each server")
    options = parser.parse_args()
    attacks = [*ATTACKS, mixed_requests(options.requests)]
    chosen = [attack for attack in attacks if options.only in attack.name]
    if options.list:
        for attack in chosen:
            servers = "all servers" if len(attack.servers) == len(COMMANDS) else attack.servers
            print(f"{attack.name:44} {servers}")
        return 0
    failed = total = 0
    for server in options.server or COMMANDS:
        if reason := missing_for(server):
            print(f"{server:18} left out: {reason}")
            continue
        for attack in chosen:
            if server in attack.servers:
                total += 1
                failed += not _run(server, attack)
    print(f"{total} attacks, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    raise SystemExit(main())
