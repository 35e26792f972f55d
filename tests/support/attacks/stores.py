"""Attacks on a gateway's store file: locked, deleted, full."""

from __future__ import annotations

import asyncio
import resource
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

from support.attacks.bench import Attack, Bench, Setup

__all__ = ["ATTACKS"]

# A store that was written within a second is taken for one that can be.
_PROBED_S = 1.2
_SETUP = Setup('state = "sqlite:{directory}/state.db"\n')


async def _refused(bench: Bench) -> None:
    """Send requests that must be refused before the upstream is asked."""
    before = len(bench.upstream.requests)
    for stream in (False, True):
        answer = await bench.send("openai_responses", stream=stream)
        assert answer.status_code == 503, f"status {answer.status_code}, expected 503"
    assert len(bench.upstream.requests) == before, "the upstream was asked"
    # Others do not depend on the store.
    await bench.ask("anthropic")


async def _locked(bench: Bench) -> str:
    await bench.ask("openai_responses")
    await asyncio.sleep(_PROBED_S)
    with closing(sqlite3.connect(bench.directory / "state.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        await _refused(bench)
        other.execute("ROLLBACK")
    await asyncio.sleep(_PROBED_S)
    await bench.ask("openai_responses")
    return "the upstream was not asked, and is again"


async def _deleted(bench: Bench) -> str:
    await bench.ask("openai_responses")
    for path in bench.directory.glob("state.db*"):
        path.unlink()
    for _ in range(4):
        await bench.ask("openai_responses")
    answer = await bench.send("openai_responses")
    assert answer.json()["store"] is True, "the answer is not stored"
    found = await bench.ask_for("GET", f"/v1/responses/{answer.json()['id']}")
    assert found.status_code == 200, f"status {found.status_code} for a stored answer"
    return "the file was made anew"


async def _full(bench: Bench) -> str:
    """Attack by a full disk: no file of the gateway can grow."""
    await bench.ask("openai_responses")
    await asyncio.sleep(_PROBED_S)
    before = {pid: resource.prlimit(pid, resource.RLIMIT_FSIZE) for pid in _processes(bench)}
    try:
        for pid, (_, hard) in before.items():
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (1, hard))
        await _refused(bench)
    finally:
        for pid, limits in before.items():
            with suppress(ProcessLookupError):
                resource.prlimit(pid, resource.RLIMIT_FSIZE, limits)
    await asyncio.sleep(_PROBED_S)
    await bench.ask("openai_responses")
    return "the upstream was not asked, and is again"


def _processes(bench: Bench) -> list[int]:
    own = bench.gateway.process.pid
    children = Path(f"/proc/{own}/task/{own}/children").read_text().split()
    return [own, *map(int, children)]


ATTACKS = (
    Attack("SQLite: a locked file", _locked, _SETUP),
    Attack("SQLite: a deleted file", _deleted, _SETUP),
    Attack("SQLite: a full disk", _full, _SETUP),
)
