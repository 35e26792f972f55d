"""A client of servers that a command runs, and the signals that a command hears."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import httpx
import pytest


@pytest.fixture
def client() -> Iterator[httpx.Client]:
    """Provide a client that reads no environment."""
    with httpx.Client(trust_env=False, timeout=30) as client:
        yield client


@pytest.fixture
def heard_interrupts() -> Iterator[None]:
    """A shell that starts the tests in the background has all their children ignore SIGINT."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
