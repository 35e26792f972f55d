"""Stores of all kinds, for tests that hold for each."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from redis import Redis
from support.state.stores import MAX_BYTES, AnyStore, emptied
from support.state.valkey_servers import valkey_url as valkey_url

from streamnorm.state import MemoryStore, RedisStore, SQLiteStore


@pytest.fixture
def server(valkey_url: str) -> Iterator[Redis]:
    """Provide a client of the empty server."""
    emptied(valkey_url)
    with Redis.from_url(valkey_url) as client:
        yield client


@pytest.fixture(params=["memory-asyncio", "memory-trio", "sqlite-asyncio", "sqlite-trio", "redis"])
def kind(request: pytest.FixtureRequest) -> str:
    """Return a kind of store, with the async back end to use it on."""
    return str(request.param)


@pytest.fixture
async def store(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> AsyncIterator[AnyStore]:
    """Provide an empty store that holds 100,000 bytes of a chain."""
    made: AnyStore
    if kind.startswith("memory"):
        made = MemoryStore(max_bytes=MAX_BYTES)
    elif kind.startswith("sqlite"):
        made = SQLiteStore(tmp_path / "state.db", max_chain_bytes=MAX_BYTES)
    else:
        url = request.getfixturevalue("valkey_url")
        emptied(url)
        made = RedisStore(url, max_chain_bytes=MAX_BYTES)
    yield made
    await made.aclose()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the path of a file that does not exist yet."""
    return tmp_path / "state.db"
