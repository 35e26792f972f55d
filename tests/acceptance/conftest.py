"""Gateways and a browser that the tests of a module share."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from acceptance.gateways import Gateways, gateways_to_upstream
from support.browser import Browser, running_browser


@pytest.fixture(scope="module")
async def running() -> AsyncIterator[Gateways]:
    """Provide a gateway for each dialect of the upstream."""
    async with gateways_to_upstream() as known:
        yield known


@pytest.fixture(scope="module")
async def normalizing() -> AsyncIterator[Gateways]:
    """Provide gateways that write streams of the client's own dialect anew."""
    async with gateways_to_upstream(options={"normalize": True}) as known:
        yield known


@pytest.fixture(scope="module")
async def browser() -> AsyncIterator[Browser]:
    """Run Chromium without a window."""
    async with running_browser() as browser:
        yield browser
