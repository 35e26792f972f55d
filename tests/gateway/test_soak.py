"""Streams of all kinds through one process: a share of tests/stress/gateway_soak.py."""

from __future__ import annotations

import asyncio

import pytest
from support.gateway.soak import soak

_MAX_GROWTH_BYTES = 8 * 1024 * 1024  # of which most fills caches


@pytest.mark.slow
def test_memory_of_a_gateway_stays_flat() -> None:
    samples, statuses = asyncio.run(soak(200, 3))
    assert sum(statuses.values()) == 200
    assert statuses[200] > 100
    assert min(samples[-3:]) - min(samples[1:4]) < _MAX_GROWTH_BYTES
