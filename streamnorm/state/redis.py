"""A store in Redis or Valkey, for processes of several machines.

https://redis.io/docs/latest/develop/programmability/eval-intro/ (read 2026-11-23).  Scripts run
in the server, so a lookup takes one round trip, however long its chain is.  Since a script holds
up all other clients, it returns at most 1 MiB; each further one takes another round trip.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from hashlib import sha256
from typing import TYPE_CHECKING

from streamnorm._core.errors import StoreError
from streamnorm.state.packing import key_of, pack
from streamnorm.state.redis_replies import add_contents, batches_of, found_in, read_reply
from streamnorm.state.redis_scripts import DELETE, FIND, PUT, READ
from streamnorm.state.stored import (
    DEFAULT_TTL_S,
    MAX_CHAIN_BYTES,
    RESPONSE_BYTES,
    Found,
    Lookup,
    StoredResponse,
)

if TYPE_CHECKING:
    from redis.asyncio import Redis

__all__ = ["RedisStore"]

_SCHEMES = {"valkey": "redis", "valkeys": "rediss"}
_MAX_CONNECTIONS = 32
# What one script returns; more is read by further ones.
_MAX_RETURNED_BYTES = 1024 * 1024
# Items of a response, and of a lookup: a script takes some 10 µs for each.
_MAX_ITEMS = 10_000
_CLUSTER = "is part of a cluster, expected one server"
_NO_REDIS = "answers in another protocol"
# What it means that the client fails, by the class of its error or a base of that.
_FAILURES = {
    "AuthenticationError": "refuses the user or the password",
    "BusyLoadingError": "is loading its data",
    "ConnectionError": "cannot be reached",
    "MovedError": _CLUSTER,
    "NoPermissionError": "refuses a command to this user",
    "OutOfMemoryError": "has no memory left",
    "ReadOnlyError": "is read-only",
    "RecursionError": _NO_REDIS,
    "TimeoutError": "is late",
    "ValueError": _NO_REDIS,
}
# The same, by the first word of an error that has no class of its own.
_REFUSALS = {
    "MISCONF": "cannot write to its disk",
    "MOVED": _CLUSTER,
    "WRONGTYPE": "holds data of another application",
}


class RedisStore:
    """A store in Redis or Valkey: a `ResponseStore` for asyncio.

    A response is forgotten at most 1/32 of `ttl_s` late, and earlier if the server evicts it.
    Of its items, the first 10,000 are found by their ids.

    Args:
        url: URL of the server: `redis://`, `rediss://`, `valkey://` or `valkeys://`.
        ttl_s: Seconds after its last use at which a response is forgotten.
        max_chain_bytes: Bytes that a response, or what a lookup finds, takes approximately.  A
            larger response is not stored, and of a longer chain only its end is found.
        timeout_s: Seconds in which the server must answer.

    Raises:
        ValueError: The URL is none.
        ImportError: redis-py is not installed.
    """

    def __init__(
        self,
        url: str,
        *,
        ttl_s: float = DEFAULT_TTL_S,
        max_chain_bytes: int = MAX_CHAIN_BYTES,
        timeout_s: float = 5.0,
    ) -> None:
        self._ttl_ms = max(1, int(ttl_s * 1000))
        self._max_chain_bytes = max_chain_bytes
        self._redis = _client(url, timeout_s)
        self._find = self._redis.register_script(FIND)
        self._read = self._redis.register_script(READ)
        self._put = self._redis.register_script(PUT)
        self._delete = self._redis.register_script(DELETE)

    async def afind(self, scope: str, lookup: Lookup) -> Found:
        """Return what is stored; see `ResponseStore`."""
        if lookup == Lookup():
            return Found()
        items = tuple(dict.fromkeys(lookup.items))[:_MAX_ITEMS]
        starts = [] if lookup.response is None else [key_of(lookup.response)]
        prefix = _prefix(scope)
        with _failures():
            reply = await self._find(
                keys=[prefix],
                args=[
                    self._ttl_ms,
                    self._max_chain_bytes,
                    _MAX_RETURNED_BYTES,
                    len(starts),
                    *starts,
                    *[key_of(id) for id in items],
                ],
            )
            entries, length, holders = read_reply(reply, len(items))
            for batch in batches_of(entries, _MAX_RETURNED_BYTES):
                reply = await self._read(keys=[prefix], args=[entry.id for entry in batch])
                add_contents(batch, reply)
        return found_in(entries, length, dict(zip(items, holders, strict=True)))

    async def aput(self, scope: str, response: StoredResponse) -> None:
        """Store a response; see `ResponseStore`."""
        if response.size + RESPONSE_BYTES > self._max_chain_bytes:
            await self.adelete(scope, response.id)
            return
        ids = [*response.items_by_id][:_MAX_ITEMS]
        previous = [] if response.previous is None else [key_of(response.previous)]
        with _failures():
            await self._put(
                keys=[_prefix(scope)],
                args=[
                    self._ttl_ms,
                    key_of(response.id),
                    pack(response),
                    response.size + RESPONSE_BYTES,
                    len(previous),
                    *previous,
                    *[key_of(id) for id in ids],
                ],
            )

    async def adelete(self, scope: str, id: str) -> bool:
        """Delete a response and its items; see `ResponseStore`."""
        with _failures():
            return bool(await self._delete(keys=[_prefix(scope)], args=[key_of(id)]))

    async def aclose(self) -> None:
        """Close the connections."""
        await self._redis.aclose()


def _client(url: str, timeout_s: float) -> Redis:
    """Return a client that waits for a connection, and for an answer, for some time only."""
    try:
        from redis.asyncio import BlockingConnectionPool, Redis
        from redis.asyncio.retry import Retry
        from redis.backoff import NoBackoff
        from redis.exceptions import ConnectionError, RedisError
    except ImportError as exc:
        raise ImportError("no redis, expected the extra `redis`: pip install redis") from exc

    scheme, separator, rest = url.partition("://")
    try:
        pool = BlockingConnectionPool.from_url(  # pyright: ignore[reportUnknownMemberType] - **kwargs
            _SCHEMES.get(scheme, scheme) + separator + rest,
            max_connections=_MAX_CONNECTIONS,
            timeout=timeout_s,
            socket_timeout=timeout_s,
            socket_connect_timeout=timeout_s,
            # A connection that the server has closed since its last use is opened again.
            retry=Retry(NoBackoff(), 1, supported_errors=(ConnectionError,)),
            protocol=2,
        )
        # Fails where the URL has an unknown option; redis-py declares no type of it.
        pool.make_connection()  # type: ignore[no-untyped-call]
    except (AttributeError, RedisError, TypeError, ValueError):
        # The text of the error may hold the URL, and this its password.
        raise ValueError("no URL of a Redis server, expected redis://HOST") from None
    return Redis.from_pool(pool)


def _prefix(scope: str) -> bytes:
    """Return what all keys of a scope begin with; a digest, so that none contains another."""
    return b"streamnorm:{%b}:" % sha256(key_of(scope)).hexdigest().encode()


@contextmanager
def _failures() -> Generator[None]:
    """Raise `StoreError` for what the client raises."""
    from redis.exceptions import RedisError

    try:
        yield
    except (RedisError, ValueError, RecursionError) as exc:  # the last two by its parser
        word = str(exc).partition(" ")[0]
        bases = [base.__name__ for base in type(exc).__mro__ if base.__name__ in _FAILURES]
        reason = _FAILURES[bases[0]] if bases else _REFUSALS.get(word, "refuses a command")
        raise StoreError(f"the store {reason}") from exc
