"""Stores of all kinds, and helpers to read lookups."""

from __future__ import annotations

from typing import TypeAlias

from redis import Redis

from streamnorm.state import Lookup, MemoryStore, RedisStore, SQLiteStore

__all__ = ["MAX_BYTES", "AnyStore", "Clock", "chain_in", "emptied", "items_in"]

AnyStore: TypeAlias = MemoryStore | SQLiteStore | RedisStore

MAX_BYTES = 100_000


class Clock:
    """A clock that only a test advances."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def emptied(url: str) -> None:
    """Delete everything on a Redis or Valkey server."""
    with Redis.from_url(url) as server:
        server.flushall()


async def chain_in(store: AnyStore, id: str, scope: str = "a") -> list[str]:
    """Return the ids of a chain."""
    found = await store.afind(scope, Lookup(id))
    return [response.id for response in found.chain]


async def items_in(store: AnyStore, *ids: str, scope: str = "a") -> dict[str, bytes]:
    """Return the found items by id."""
    found = await store.afind(scope, Lookup(None, ids))
    return {id: item.json for id, item in found.items.items()}
