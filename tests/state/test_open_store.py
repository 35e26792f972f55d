"""The store that a URL names."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support.state.responses import response

from streamnorm.state import Lookup, MemoryStore, RedisStore, SQLiteStore, open_store


def test_memory() -> None:
    store = open_store("memory:", ttl_s=5)
    assert isinstance(store, MemoryStore)
    assert store._max_age_s == 5


@pytest.mark.parametrize("slashes", ["", "//"])
def test_sqlite(tmp_path: Path, slashes: str) -> None:
    store = open_store(f"sqlite:{slashes}{tmp_path}/state.db", ttl_s=5)
    assert isinstance(store, SQLiteStore)
    store.put("a", response("r1"))
    assert store.find("a", Lookup("r1")).chain
    assert os.listdir(tmp_path)
    assert store._ttl_ms == 5000
    store.close()


@pytest.mark.parametrize(
    ("scheme", "is_encrypted"),
    [("redis", False), ("rediss", True), ("valkey", False), ("valkeys", True)],
)
def test_redis(scheme: str, *, is_encrypted: bool) -> None:
    store = open_store(f"{scheme}://user:pass@host:1/2", ttl_s=5)
    assert isinstance(store, RedisStore)
    pool = store._redis.connection_pool
    arguments = pool.connection_kwargs
    assert [arguments[name] for name in ("host", "port", "db")] == ["host", 1, 2]
    assert pool.connection_class.__name__.startswith("SSL") == is_encrypted
    assert store._ttl_ms == 5000


@pytest.mark.parametrize("url", ["", "memory", "memory:secret", "sqlite:", "sqlite", "secret://a"])
def test_other_urls(url: str) -> None:
    with pytest.raises(ValueError, match=r"^no URL of a store, expected memory:, sqlite:PATH or "):
        open_store(url)
