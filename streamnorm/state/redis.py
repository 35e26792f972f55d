"""A store in Redis or Valkey, for processes of several machines.

https://redis.io/docs/latest/develop/programmability/eval-intro/ (read 2026-11-23).  Scripts run
in the server: a lookup takes one round trip, however long its chain is, and a second one if it
finds much, since a script holds up all other clients while it runs.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from hashlib import sha256
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from streamnorm._core.errors import StoreError
from streamnorm.state.packing import id_of, key_of, pack, unpack
from streamnorm.state.redis_scripts import DELETE, FIND, PUT
from streamnorm.state.stored import Found, Lookup, StoredResponse

if TYPE_CHECKING:
    from redis.asyncio import Redis

__all__ = ["RedisStore"]

_Found: TypeAlias = tuple[list[bytes | None], int, list[bytes | None]]
"""What the script for a lookup returns."""

_SCHEMES = {"valkey": "redis", "valkeys": "rediss"}
_MAX_CONNECTIONS = 32
# What a script returns at once; more is fetched in one command for each response.
_MAX_RETURNED_BYTES = 1024 * 1024
# What a response costs in memory beside its items and its body.
_RESPONSE_BYTES = 512
# What it means that the client fails, by the class of its error or a base of that.
_FAILURES = {
    "AuthenticationError": "refuses the user or the password",
    "BusyLoadingError": "is loading its data",
    "ConnectionError": "cannot be reached",
    "MovedError": "is part of a cluster, expected a single server",
    "NoPermissionError": "refuses a command to this user",
    "OSError": "cannot be reached",
    "OutOfMemoryError": "has no memory left",
    "ReadOnlyError": "is read-only",
    "TimeoutError": "is late",
    "UnicodeError": "cannot be reached: its host is no name",
}
# The same, by the first word of an error that has no class.
_REFUSALS = {
    "MISCONF": "cannot write to its disk",
    "WRONGTYPE": "holds data of another application",
}


class RedisStore:
    """A store in Redis or Valkey: a `ResponseStore` for asyncio.

    A response is forgotten at most 1/32 of `ttl_s` late, and earlier if the server evicts it.

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
        ttl_s: float = 30 * 24 * 3600.0,
        max_chain_bytes: int = 64 * 1024 * 1024,
        timeout_s: float = 5.0,
    ) -> None:
        self._ttl_ms = max(1, int(ttl_s * 1000))
        self._max_chain_bytes = max_chain_bytes
        self._redis = _client(url, timeout_s)
        self._find = self._redis.register_script(FIND)
        self._put = self._redis.register_script(PUT)
        self._delete = self._redis.register_script(DELETE)

    async def afind(self, scope: str, lookup: Lookup) -> Found:
        """Return what is stored; see `ResponseStore`."""
        if lookup == Lookup():
            return Found()
        items = tuple(dict.fromkeys(lookup.items))
        start = [] if lookup.response is None else [key_of(lookup.response)]
        prefix = _prefix(scope)
        with _failures():
            reply = await self._find(
                keys=[prefix],
                args=[
                    self._ttl_ms,
                    self._max_chain_bytes,
                    _MAX_RETURNED_BYTES,
                    len(start),
                    *start,
                    *[key_of(id) for id in items],
                ],
            )
            entries, length, holders = msgspec.convert(reply, _Found)
            left = [at for at in range(2, len(entries), 3) if entries[at] is None]
            if left:
                async with self._redis.pipeline(transaction=False) as pipeline:
                    for at in left:
                        pipeline.hget(prefix + b"r:" + (entries[at - 2] or b""), "c")
                    for at, content in zip(left, await pipeline.execute(), strict=True):
                        entries[at] = content
        return _found(entries, length, dict(zip(items, holders, strict=True)))

    async def aput(self, scope: str, response: StoredResponse) -> None:
        """Store a response; see `ResponseStore`."""
        if response.size > self._max_chain_bytes:
            await self.adelete(scope, response.id)
            return
        ids = dict.fromkeys([item.id for item in (*response.input, *response.output)])
        previous = [] if response.previous is None else [key_of(response.previous)]
        with _failures():
            await self._put(
                keys=[_prefix(scope)],
                args=[
                    self._ttl_ms,
                    key_of(response.id),
                    pack(response),
                    response.size + _RESPONSE_BYTES,
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
        from redis.exceptions import ConnectionError
    except ImportError as exc:
        raise ImportError("no redis, expected the extra `redis`: pip install redis") from exc

    scheme, separator, rest = url.partition("://")
    try:
        pool = BlockingConnectionPool.from_url(
            _SCHEMES.get(scheme, scheme) + separator + rest,
            max_connections=_MAX_CONNECTIONS,
            timeout=timeout_s,
            socket_timeout=timeout_s,
            socket_connect_timeout=timeout_s,
            # A connection that the server has closed since its last use is opened again.
            retry=Retry(NoBackoff(), 1, supported_errors=(ConnectionError,)),
            protocol=2,
        )
    except ValueError:
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
    except (RedisError, OSError, UnicodeError) as exc:
        word = str(exc).partition(" ")[0]
        bases = [base.__name__ for base in type(exc).__mro__ if base.__name__ in _FAILURES]
        reason = _FAILURES[bases[0]] if bases else _REFUSALS.get(word, "refuses a command")
        raise StoreError(f"the store {reason}") from exc


def _found(entries: list[bytes | None], length: int, holders: dict[str, bytes | None]) -> Found:
    """Return what a script found.

    Args:
        entries: Id, id of the response that it continues, and content of each response.
        length: How many of them are the chain.
        holders: For each item the id of the response that has it.
    """
    responses: dict[bytes | None, StoredResponse] = {}
    chain: list[StoredResponse] = []
    for at in range(0, len(entries), 3):
        key, previous, content = entries[at : at + 3]
        if content is None:  # it has expired since the script ran
            continue
        earlier = None if previous is None else id_of(previous)
        responses[key] = response = unpack(id_of(key), earlier, content)
        if at == 3 * len(chain) and len(chain) < length:
            chain.append(response)
    items_of = {key: responses[key].items_by_id for key in {*holders.values()} & responses.keys()}
    items = {
        id: items_of[holder][id] for id, holder in holders.items() if id in items_of.get(holder, ())
    }
    return Found(tuple(chain), items)
