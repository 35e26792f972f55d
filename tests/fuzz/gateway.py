"""The running gateway: hostile clients and upstreams break no other request, and learn nothing.

An input is the seed of a round in one server.  A round is forty connections: requests whose heads,
framing, pipelining, encoding or JSON are damaged, and upstreams that answer with damaged streams,
heads and chunks.  The process lives, no answer is a fault of the gateway's, none has the marker of
another client or a key, every connection ends, the log has no traceback and no secret, memory is
bounded, and after each round honest requests are answered.
"""

from __future__ import annotations

import asyncio
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path

from support.gateway.fuzz.rounds import FuzzedGateway, fuzzed_gateway
from support.gateway.processes import COMMANDS

MAX_BYTES = 8  # of a seed

_runner = asyncio.Runner()
_exits = AsyncExitStack()
_gateways: dict[str, FuzzedGateway] = {}


def samples() -> list[bytes]:
    """Return no inputs: any bytes are a seed."""
    return []


def check(data: bytes) -> None:
    """Run one round in one of the servers."""
    seed = int.from_bytes(data)
    found = _runner.run(_round([*COMMANDS][seed % len(COMMANDS)], seed))
    assert not found, "; ".join(found)


def close() -> None:
    """End the servers."""
    _runner.run(_exits.aclose())


async def _round(server: str, seed: int) -> list[str]:
    if server not in _gateways:
        folder = Path(_exits.enter_context(tempfile.TemporaryDirectory()))
        gateway = fuzzed_gateway(server, folder)
        _gateways[server] = await _exits.enter_async_context(gateway)
    return [f"{server}: {text}" for text in await _gateways[server].round(seed)]
