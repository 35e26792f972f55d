"""Clients of Redis and Valkey, and conversion of their errors."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from streamnorm._core.errors import StoreError

if TYPE_CHECKING:
    from redis.asyncio import Redis

_SCHEMES = {"valkey": "redis", "valkeys": "rediss"}
_MAX_CONNECTIONS = 32
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
    "BUSY": "is busy with a script",
    "MISCONF": "cannot write to its disk",
    "MOVED": _CLUSTER,
    "WRONGTYPE": "holds data of another application",
}


def open_client(url: str, timeout_s: float) -> Redis:
    """Return a client of a Redis or Valkey server, with time limits for connecting and replies.

    Raises:
        ValueError: The URL is none.
        ImportError: redis-py is not installed.
    """
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
            # RESP2, which every server and proxy has.
            protocol=2,
        )
        # Fails where the URL has an unknown option; redis-py declares no type of it.
        pool.make_connection()  # type: ignore[no-untyped-call]
    except (AttributeError, RedisError, TypeError, ValueError):
        # The text of the error may hold the URL, and this its password.
        raise ValueError("no URL of a Redis server, expected redis://HOST") from None
    return Redis.from_pool(pool)


@contextmanager
def store_failures() -> Generator[None]:
    """Raise the client's errors as `StoreError`."""
    from redis.exceptions import RedisError

    try:
        yield
    except (RedisError, ValueError, RecursionError) as exc:  # the last two by its parser
        # Errors of scripts begin with a code in capitals.
        word = str(exc).partition(" ")[0]
        bases = [base.__name__ for base in type(exc).__mro__ if base.__name__ in _FAILURES]
        reason = _FAILURES[bases[0]] if bases else _REFUSALS.get(word, "refuses a command")
        raise StoreError(f"the store {reason}") from exc
