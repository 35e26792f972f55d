"""Clients that leave a gateway at random points: a share of tests/stress/gateway_cancels.py."""

from __future__ import annotations

import asyncio

import pytest
from support.gateway.cancelled_streams import cancel_streams
from support.gateway.servers import SERVERS, ServerName


@pytest.mark.slow
@pytest.mark.parametrize("server", SERVERS)
def test_nothing_is_left_of_cancelled_streams(server: ServerName) -> None:
    left = asyncio.run(cancel_streams(60, 7, server, pause_s=0.01))
    assert (left.answers, max(left.tasks, 0), max(left.descriptors, 0)) == (0, 0, 0)
    assert left.endings["abandoned"] > 40
    assert left.release_s
