"""Damaged bytes of clients and upstreams: a round of tests/fuzz/gateway.py for each server."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.gateway.fuzz.rounds import fuzzed_gateway
from support.gateway.processes import COMMANDS, missing_for

pytestmark = pytest.mark.anyio

_EACH_PUSH = "serve"


@pytest.mark.parametrize(
    "server",
    [pytest.param(name, marks=[] if name == _EACH_PUSH else pytest.mark.slow) for name in COMMANDS],
)
async def test_damaged_bytes_break_no_gateway(server: str, tmp_path: Path) -> None:
    if reason := missing_for(server):
        pytest.skip(reason)
    async with fuzzed_gateway(server, tmp_path) as gateway:
        for seed in (1, 2):
            assert await gateway.round(seed) == []
    assert gateway.answers["200"] > 10
