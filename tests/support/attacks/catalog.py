"""The list of all attacks, and the function that runs one."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx

from support.attacks import (
    browsers,
    connections,
    floods,
    heads,
    http2,
    processes,
    stores,
    surroundings,
    tenants,
)
from support.attacks.bench import Attack, open_bench

__all__ = ["ATTACKS", "withstand"]

_MAX_S = 1800.0

ATTACKS: tuple[Attack, ...] = (
    *connections.ATTACKS,
    *browsers.ATTACKS,
    *tenants.ATTACKS,
    *stores.ATTACKS,
    *processes.ATTACKS,
    *heads.ATTACKS,
    *http2.ATTACKS,
    *surroundings.ATTACKS,
    *floods.ATTACKS,
)
"""The attacks, without the mixed requests."""


async def withstand(server: str, attack: Attack, directory: Path) -> tuple[str, list[str]]:
    """Attack a gateway; return the observations, and the problem if any."""
    seen = ""
    wrong: list[str] = []
    try:
        async with asyncio.timeout(_MAX_S), open_bench(server, attack.setup, directory) as bench:
            try:
                seen = await attack.run(bench)
            except (AssertionError, OSError, TimeoutError, httpx.HTTPError) as exc:
                wrong.append(f"{type(exc).__name__} {exc}")
            wrong += bench.watch.problems()
    except TimeoutError:
        wrong.append("the gateway does not start, or the attack does not end")
    return seen, wrong
