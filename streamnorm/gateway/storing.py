"""The gateway's response store and log, from its configuration or its caller."""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from math import inf
from pathlib import Path
from time import monotonic

from streamnorm._core.errors import StoreError
from streamnorm._upstream.requests import RequestRefused
from streamnorm.gateway.admission import resolve_key
from streamnorm.gateway.config import Config, ConfigError
from streamnorm.gateway.receiving import BodyThread
from streamnorm.log import Log, open_log
from streamnorm.state import (
    Found,
    Lookup,
    MemoryStore,
    ResponseStore,
    StoredResponse,
    open_store,
)

_LOG = logging.getLogger("streamnorm.gateway")

_MEMORY, _SQLITE = "memory:", "sqlite:"
_PLACE = "env:"
# The stores have shorter bounds of their own; a client waits for no store longer than this.
_STORE_S = 20.0
# For which a write that succeeded or failed says that the next one does.
_PROBED_S = 1.0
_PROBE = "streamnorm.probe"  # scope and id; a client's scope is a digest
_PROBE_BYTES = 4096
_MAX_PROBE_BYTES = 1024 * 1024


class GatewayStore:
    """Response store whose failures become refusals with status 503.

    Args:
        store: The store.
        bodies: The thread for large bodies.
        close: Closes the store; None if it belongs to the caller of the gateway.

    Raises:
        RequestRefused: By any method but `aclose`: the store failed or does not answer.
    """

    def __init__(
        self,
        store: ResponseStore,
        bodies: BodyThread,
        close: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._store = store
        self._bodies = bodies
        self._close = close
        self._written_at = self._failed_at = -inf
        self._probe_bytes = _PROBE_BYTES
        self._probe: asyncio.Task[bool] | None = None

    async def check(self) -> None:
        """Check that the store can be written, before an upstream is paid for an answer.

        At most once a second the store is written; a store that can only be read (a locked or
        full file, a replica, a server without memory) is found in no other way.
        """
        now = monotonic()
        if isinstance(self._store, MemoryStore) or now - self._written_at < _PROBED_S:
            return
        if now - self._failed_at < _PROBED_S:
            raise _unavailable()
        if self._probe is None:
            self._probe = asyncio.create_task(self._write_probe())
        # One client that leaves does not end the probe of others.
        if not await asyncio.shield(self._probe):
            raise _unavailable()

    async def _write_probe(self) -> bool:
        """Write and delete a test response; return whether that succeeded."""
        # Of the size that failed last: a full disk still stores small rows.
        probe = StoredResponse(_PROBE, None, b" " * self._probe_bytes, (), ())
        try:
            await self.aput(_PROBE, probe)
            await self.adelete(_PROBE, _PROBE)
        except RequestRefused:
            self._failed_at = monotonic()
            return False
        finally:
            self._probe = None
        return True

    async def afind(self, scope: str, lookup: Lookup) -> Found:
        """Return the stored responses and items; see `ResponseStore`."""
        async with _store_answer():
            return await self._store.afind(scope, lookup)

    async def aput(self, scope: str, response: StoredResponse, size: int = 0) -> bool:
        """Store a response; see `ResponseStore`.

        Args:
            scope: As for `ResponseStore`.
            response: The response.
            size: Bytes of it, where it may be large.

        Returns:
            Whether it is stored, and not beyond a bound of the store.
        """
        try:
            async with _store_answer():
                is_stored = await self._put(scope, response, size) is not False
        except RequestRefused:
            # A store may have room for a small response and for no large one.
            self._probe_bytes = min(max(response.size, _PROBE_BYTES), _MAX_PROBE_BYTES)
            self._written_at, self._failed_at = -inf, monotonic()
            raise
        if is_stored:
            self._written_at, self._probe_bytes = monotonic(), _PROBE_BYTES
        return is_stored

    async def _put(self, scope: str, response: StoredResponse, size: int) -> bool | None:
        store = self._store
        if isinstance(store, MemoryStore):  # which indexes all items in the calling thread
            return await self._bodies.run(size, partial(store.put, scope, response))
        return await store.aput(scope, response)

    async def adelete(self, scope: str, id: str) -> bool:
        """Delete a response and its items; see `ResponseStore`."""
        async with _store_answer():
            return await self._store.adelete(scope, id)

    async def aclose(self) -> None:
        """Close the store, unless it belongs to the caller of the gateway."""
        if self._close is not None:
            await self._close()


@contextmanager
def store_refusals() -> Generator[None]:
    """Raise `RequestRefused` if a store fails or its content is damaged."""
    try:
        yield
    except StoreError as exc:
        _LOG.warning("the store of responses failed: %s", exc)
        raise _unavailable() from exc


@asynccontextmanager
async def _store_answer() -> AsyncGenerator[None]:
    """Bound the time of a store's method, and raise `RequestRefused` for whatever it raises."""
    with store_refusals():
        try:
            async with asyncio.timeout(_STORE_S):
                yield
        except StoreError:
            raise
        except Exception as exc:
            # A store of the program may raise its client's errors, whose texts may hold its URL.
            raise StoreError(f"the store raised {type(exc).__name__}") from exc


def _unavailable() -> RequestRefused:
    text = "the store of responses does not answer, try again"
    return RequestRefused(text, 503, code="store_unavailable")


def gateway_store(
    config: Config, environ: Mapping[str, str], bodies: BodyThread, given: ResponseStore | None
) -> GatewayStore | None:
    """Return the gateway's store: the caller's, else the configured store; None without either.

    Args:
        config: The configuration.
        environ: The environment that holds the URL of `env:NAME`.
        bodies: The thread for large bodies.
        given: The store that the program has given; None if it has not.

    Raises:
        ConfigError: There is no such store, there are two, or this process must not have one of
            its own.
    """
    url = config.state
    if given is not None:
        if url is not None:
            raise ConfigError("state: a URL beside a store of the program, expected one of both")
        return GatewayStore(given, bodies)
    if url is None:
        return None
    url = resolve_shared_url(url, "state", environ)
    try:
        store = open_store(url, ttl_s=config.state_ttl_s)
    except (ValueError, ImportError) as exc:
        raise ConfigError(f"state: {exc}") from exc
    return GatewayStore(store, bodies, store.aclose)


def open_configured_log(config: Config, environ: Mapping[str, str]) -> Log | None:
    """Return the configured log, or None.

    Args:
        config: The configuration.
        environ: The environment that holds the URL of `env:NAME`.

    Raises:
        ConfigError: There is no such log, or this process must not have one of its own.
    """
    if config.log is None:
        return None
    try:
        return open_log(
            resolve_shared_url(config.log.url, "log.url", environ),
            ttl_s=config.log.ttl_s,
            lease_s=config.log.lease_s,
            max_bytes=config.log.max_bytes,
        )
    except (ValueError, ImportError) as exc:
        raise ConfigError(f"log.url: {exc}") from exc


def resolve_shared_url(url: str, where: str, environ: Mapping[str, str]) -> str:
    """Return the URL of a store that several processes of a gateway can share.

    Args:
        url: The URL, or `env:NAME`, a variable of the environment that holds it.
        where: The key in the configuration.
        environ: The environment.

    Raises:
        ConfigError: There is no such variable, no directory for a file, or this process must not
            have a store of its own.
    """
    if url.startswith(_PLACE):
        url = resolve_key(url, where, environ, wanted="the URL of a store")
    if url == _MEMORY and is_worker(environ):
        raise ConfigError(
            f"{where}: memory: in a worker process, expected sqlite: or redis:, "
            "which all workers share"
        )
    if url.startswith(_SQLITE):
        # Each request would find that out, long after the start.
        directory = Path(url.removeprefix(_SQLITE)).parent
        if not directory.is_dir():
            raise ConfigError(f"{where}: no directory {directory}, expected one for the file")
    return url


def is_worker(environ: Mapping[str, str]) -> bool:
    """Return whether this process may be one of several workers."""
    if multiprocessing.parent_process() is not None:  # as uvicorn and hypercorn start them
        return True
    return environ.get("SERVER_SOFTWARE", "").startswith("gunicorn")
