"""A client of servers that a command runs."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest


@pytest.fixture
def client() -> Iterator[httpx.Client]:
    """Provide a client that reads no environment."""
    with httpx.Client(trust_env=False, timeout=30) as client:
        yield client
