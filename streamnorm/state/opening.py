"""The store that a URL names."""

from __future__ import annotations

from streamnorm.state.redis import RedisStore
from streamnorm.state.sqlite import SQLiteStore
from streamnorm.state.stored import DEFAULT_TTL_S, MemoryStore


def open_store(url: str, *, ttl_s: float = DEFAULT_TTL_S) -> MemoryStore | SQLiteStore | RedisStore:
    """Return the store that a URL names; nothing is opened before its first use.

    Args:
        url: `memory:` for one process; `sqlite:PATH` for the processes of one machine;
            `redis://`, `rediss://`, `valkey://` or `valkeys://` for those of several.
        ttl_s: Seconds after its last use at which a response is forgotten.

    Raises:
        ValueError: The URL names no store.
        ImportError: redis-py is needed and not installed.
    """
    scheme, _, rest = url.partition(":")
    if url == "memory:":
        return MemoryStore(max_age_s=ttl_s)
    if scheme == "sqlite" and rest:
        return SQLiteStore(rest, ttl_s=ttl_s)
    if scheme in ("redis", "rediss", "valkey", "valkeys"):
        return RedisStore(url, ttl_s=ttl_s)
    raise ValueError("no URL of a store, expected memory:, sqlite:PATH or redis://HOST")
