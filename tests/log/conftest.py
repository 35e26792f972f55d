"""Stores of all kinds, for tests that hold for each."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from redis import Redis
from support.state.stores import Clock, emptied
from support.state.valkey_servers import valkey_url as valkey_url

from streamnorm.log import Log, LogStore
from streamnorm.log.memory import MemoryLogStore
from streamnorm.log.redis import RedisLogStore
from streamnorm.log.sqlite import SQLiteLogStore

TTL_S = 100.0


@pytest.fixture(params=["memory-asyncio", "memory-trio", "sqlite-asyncio", "sqlite-trio", "redis"])
def kind(request: pytest.FixtureRequest) -> str:
    """Return a kind of store, with the async back end to use it on."""
    return str(request.param)


@pytest.fixture
def anyio_backend(kind: str) -> str:
    """Use each store on the back ends that it is for."""
    return kind.partition("-")[2] or "asyncio"


class ServerClock(Clock):
    """The clock of a server, which nobody can set: what it stores grows older instead."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self._url = url

    @property
    def now(self) -> float:
        return 0.0

    @now.setter
    def now(self, seconds: float) -> None:
        if not seconds:
            return
        with Redis.from_url(self._url) as server:
            for key in server.scan_iter("streamnorm:log:{*}"):
                if server.type(key) == b"hash":
                    for field in ("lease", "expires", "followed"):
                        server.hincrby(key, field, int(-seconds * 1000))
                if (left_ms := server.pttl(key)) > 0:
                    server.pexpire(key, int(left_ms - seconds * 1000))


@pytest.fixture
def clock(kind: str, request: pytest.FixtureRequest) -> Clock:
    """Provide the clock of the store."""
    return ServerClock(request.getfixturevalue("valkey_url")) if kind == "redis" else Clock()


@pytest.fixture
async def store(
    kind: str, clock: Clock, request: pytest.FixtureRequest, tmp_path: Path
) -> AsyncIterator[LogStore]:
    """Provide an empty store, which forgets after `TTL_S`."""
    made: LogStore
    if kind.startswith("memory"):
        made = MemoryLogStore(ttl_s=TTL_S, clock=clock)
    elif kind.startswith("sqlite"):
        made = SQLiteLogStore(tmp_path / "log.db", ttl_s=TTL_S, clock=clock)
    else:
        url = request.getfixturevalue("valkey_url")
        emptied(url)
        made = RedisLogStore(url, ttl_s=TTL_S)
    yield made
    await made.aclose()


@pytest.fixture
def log(store: LogStore) -> Log:
    """Provide a log in the store."""
    return Log(store)
