"""Stores of all kinds, for tests that hold for each."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support.state.stores import Clock

from streamnorm.log import Log, LogStore
from streamnorm.log.memory import MemoryLogStore
from streamnorm.log.sqlite import SQLiteLogStore

TTL_S = 100.0


@pytest.fixture(params=["memory-asyncio", "memory-trio", "sqlite-asyncio", "sqlite-trio"])
def kind(request: pytest.FixtureRequest) -> str:
    """Return a kind of store, with the async back end to use it on."""
    return str(request.param)


@pytest.fixture
def anyio_backend(kind: str) -> str:
    """Use each store on the back ends that it is for."""
    return kind.partition("-")[2]


@pytest.fixture
def clock() -> Clock:
    """Provide the clock of the store."""
    return Clock()


@pytest.fixture
async def store(kind: str, clock: Clock, tmp_path: Path) -> AsyncIterator[LogStore]:
    """Provide an empty store, which forgets after `TTL_S`."""
    made: LogStore = (
        MemoryLogStore(ttl_s=TTL_S, clock=clock)
        if kind.startswith("memory")
        else SQLiteLogStore(tmp_path / "log.db", ttl_s=TTL_S, clock=clock)
    )
    yield made
    await made.aclose()


@pytest.fixture
def log(store: LogStore) -> Log:
    """Provide a log in the store."""
    return Log(store)
