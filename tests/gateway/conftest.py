"""The gateway runs on asyncio alone."""

from __future__ import annotations

import pytest


@pytest.fixture
def anyio_backend() -> str:
    """Run each async test on asyncio."""
    return "asyncio"
