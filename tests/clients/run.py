"""Run real agents against the gateway, with a scripted upstream of another dialect.

    python tests/clients/run.py [AGENT ...] [--upstream DIALECT] [--variant NAME] [--keep]
                                [--install]

Each agent is started headless, with dummy keys and a home of its own, in a network namespace
that has no interface but loopback.  It is given a task: its model calls tools in parallel, and
answers when their results are back.  Prints a table, and ends with status 1 if a run differs
from what is expected: in its number of requests, in how it ended, or in what the upstream got.
"""

from __future__ import annotations

import argparse
import asyncio
import fcntl
import os
import shutil
import socket
import struct
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from clients import installs
from clients.agents import AGENTS
from clients.cells import Cell, Run, run_cell
from clients.variants import VARIANTS

_INSIDE = "STREAMNORM_INSIDE_NAMESPACE"
_SIOCSIFFLAGS = 0x8914
_IFF_UP = 1


def _enter_namespace() -> None:
    """Run this command again in a new network namespace, unless it runs in one."""
    if _INSIDE not in os.environ:
        # Who is not root needs a user namespace, too.
        user = [] if os.geteuid() == 0 else ["--map-root-user"]
        environ = {**os.environ, _INSIDE: "1"}
        command = ["unshare", "--net", *user, sys.executable, *sys.argv]
        os.execvpe(command[0], command, environ)  # noqa: S606 - no shell
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", _IFF_UP))


def _cells(names: list[str], upstreams: list[str], variants: list[str]) -> list[Cell]:
    return [
        Cell(agent, upstream, variant)
        for agent in AGENTS.values()
        if not names or agent.name in names
        for upstream in agent.upstreams
        if not upstreams or upstream in upstreams
        for variant in (*VARIANTS.values(), *agent.variants)
        if (not variants or variant.name in variants) and agent.runs(variant, upstream)
    ]


async def _run(cells: list[Cell], folder: Path, *, keeps: bool) -> list[Run]:
    runs: list[Run] = []
    began = time.monotonic()
    print(f"{'agent':12} {'upstream':17} {'variant':16} requests  outcome")
    for number, cell in enumerate(cells, 1):
        missed = sum(bool(run.wrong) for run in runs)
        progress = (
            f"{number}/{len(cells)}, {missed} missed, {time.monotonic() - began:.0f} s: {cell}"
        )
        print(f"\r\x1b[K{progress}", end="", file=sys.stderr, flush=True)
        where = folder / str(cell).replace(", ", "-").replace(" ", "-")
        run = await run_cell(cell, where)
        runs.append(run)
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)
        line = f"{cell.agent.name:12} {cell.upstream:17} {cell.variant.name:16} {run.requests:8}"
        print(f"{line}  {run.outcome} in {run.seconds:.1f} s", flush=True)
        for wrong in run.wrong:
            print(f"    {wrong}")
        if run.wrong:
            print(f"    see {where}", flush=True)
        elif not keeps:
            shutil.rmtree(where)
    return runs


def main() -> int:
    """Run the cells that the command line names."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("agents", nargs="*", metavar="AGENT", help=", ".join(AGENTS))
    parser.add_argument("--upstream", action="append", default=[], metavar="DIALECT")
    parser.add_argument("--variant", action="append", default=[], metavar="NAME")
    parser.add_argument("--keep", action="store_true", help="keep what the upstream was sent")
    parser.add_argument("--install", action="store_true", help="install the agents first, by npm")
    arguments = parser.parse_args()
    for name in arguments.agents:
        if name not in AGENTS:
            parser.error(f"no agent {name}, expected one of {', '.join(AGENTS)}")
    if arguments.install and _INSIDE not in os.environ:
        installs.install()
    if missing := installs.missing():
        print(f"skipped: {missing}")
        return 0
    _enter_namespace()
    cells = _cells(arguments.agents, arguments.upstream, arguments.variant)
    absent = {cell.agent.name for cell in cells if installs.program(cell.agent.program) is None}
    for name in sorted(absent):
        print(f"{name}: skipped, it is not in {installs.FOLDER}")
    cells = [cell for cell in cells if cell.agent.name not in absent]
    folder = Path(tempfile.mkdtemp(prefix="streamnorm-clients-"))
    runs = asyncio.run(_run(cells, folder, keeps=arguments.keep))
    missed = sum(bool(run.wrong) for run in runs)
    if arguments.keep:
        print(f"kept in {folder}")
    elif not missed:
        folder.rmdir()
    print(f"{len(runs)} runs, {missed} differ from what is expected")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
