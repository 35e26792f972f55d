"""Logged streams, which survive their clients and can be followed from any cursor.

    log = streamnorm.log.open_log("sqlite:streams.db")

    async with log.produce(id, lambda: client.stream("POST", url, json=body)) as run:
        await run.wait()

    async with await log.follow(id, to="anthropic", after=cursor) as stream:
        async for data in stream:
            ...

A log stores what the provider sends as it comes.  Each reader gets it as events or in the bytes of
any dialect, while it grows or later, from the start or behind a cursor: from a cursor on it is the
same bytes at any time and in any process.  A producer that dies is no clean end: the first reader
that notices ends the stream as truncated, for all.

`open_log` returns the log that a URL names.  Streams in memory end with the process; those in a
SQLite file are there after a crash, and for other processes of the machine; those in Redis or
Valkey for processes of other machines.
"""

from __future__ import annotations

from streamnorm._core.errors import LogError
from streamnorm.log.following import FollowedStream, LogReader
from streamnorm.log.log import (
    DEFAULT_LEASE_S,
    DEFAULT_TTL_S,
    MAX_STREAM_BYTES,
    Log,
    StreamStatus,
)
from streamnorm.log.memory import MemoryLogStore
from streamnorm.log.producing import OpenedSource, Production
from streamnorm.log.records import LogStore, State
from streamnorm.log.redis import RedisLogStore
from streamnorm.log.sqlite import SQLiteLogStore

__all__ = [
    "FollowedStream",
    "Log",
    "LogError",
    "LogReader",
    "LogStore",
    "OpenedSource",
    "Production",
    "State",
    "StreamStatus",
    "open_log",
]


def open_log(
    url: str,
    *,
    ttl_s: float = DEFAULT_TTL_S,
    lease_s: float = DEFAULT_LEASE_S,
    max_bytes: int = MAX_STREAM_BYTES,
) -> Log:
    """Return the log at a URL, whose store is opened at the first use.

    Args:
        url: `memory:` for one process; `sqlite:PATH` for the processes of one machine;
            `redis://`, `rediss://`, `valkey://` or `valkeys://` for those of several.
        ttl_s: Seconds after its last change at which a stream is forgotten.
        lease_s: Seconds without news after which a producer counts as dead.
        max_bytes: Bytes of one stream; it ends there as truncated.

    Raises:
        ValueError: The URL names no store.
        ImportError: redis-py is needed and not installed.
    """
    scheme, _, rest = url.partition(":")
    store: LogStore
    if url == "memory:":
        store = MemoryLogStore(ttl_s=ttl_s)
    elif scheme == "sqlite" and rest:
        store = SQLiteLogStore(rest, ttl_s=ttl_s)
    elif scheme in ("redis", "rediss", "valkey", "valkeys"):
        store = RedisLogStore(url, ttl_s=ttl_s)
    else:
        raise ValueError("no URL of a log, expected memory:, sqlite:PATH or redis://HOST")
    return Log(store, lease_s=lease_s, max_bytes=max_bytes)
