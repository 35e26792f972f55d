"""A server of Redis that is away, refuses, or holds something else: an error that says so."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeAlias

import pytest
from redis import Redis
from support.state.responses import response
from support.state.stores import chain_in
from support.state.valkey_servers import valkey_server

from streamnorm.state import Lookup, RedisStore, StoreError

pytestmark = [pytest.mark.anyio, pytest.mark.on_asyncio]

Serve: TypeAlias = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

_ALL = Lookup("r1", ("x",))


@pytest.fixture
async def store(valkey_url: str, server: Redis) -> AsyncIterator[RedisStore]:
    """Provide a store of two responses."""
    store = RedisStore(valkey_url)
    await store.aput("a", response("r0"))
    await store.aput("a", response("r1", "r0", "x"))
    yield store
    await store.aclose()


async def failure_of(url: str, timeout_s: float = 5.0) -> str:
    """Return how all methods of a store fail."""
    store = RedisStore(url, timeout_s=timeout_s)
    texts: set[str] = set()
    for call in (
        store.afind("a", _ALL),
        store.aput("a", response("r1")),
        store.adelete("a", "r1"),
    ):
        with pytest.raises(StoreError) as caught:
            await call
        texts.add(str(caught.value))
    await store.aclose()
    [text] = texts
    return text


@asynccontextmanager
async def serving(serve: Serve) -> AsyncIterator[str]:
    """Run a server, and return its URL."""
    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}/0"


async def test_server_that_does_not_run(free_tcp_port: int) -> None:
    url = f"redis://user:secret@127.0.0.1:{free_tcp_port}/0"
    assert await failure_of(url) == "the store cannot be reached"


async def test_host_that_is_no_name() -> None:
    assert await failure_of(f"redis://{'a' * 64}.invalid/0") == "the store cannot be reached"


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (b"", "the store cannot be reached"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "the store refuses a command"),
        (b"-BUSY Redis is busy running a script\r\n", "the store is busy with a script"),
        (b"-LOADING Redis is loading the dataset in memory\r\n", "the store is loading its data"),
        (b"-MOVED 3999 10.0.0.1:6381\r\n", "the store is part of a cluster, expected one server"),
        (b"-MISCONF Redis is configured to save\r\n", "the store cannot write to its disk"),
        (b"-OOM command not allowed\r\n", "the store has no memory left"),
        (b"+OK\r\n", "the store holds data of another application"),
        (b"*1\r\n$-1\r\n", "the store holds data of another application"),
        (b":one\r\n", "the store answers in another protocol"),
        (b"$-5\r\n", "the store answers in another protocol"),
        (b"-MOVED there\r\n", "the store answers in another protocol"),
        (b"*1\r\n" * 2000, "the store answers in another protocol"),
    ],
)
async def test_server_that_answers_otherwise(answer: bytes, expected: str) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while answer and (received := await reader.read(65536)):
            is_script = b"EVALSHA" in received
            writer.write(answer if is_script else b"+OK\r\n" * received.count(b"*"))
        writer.close()
        await writer.wait_closed()

    async with serving(serve) as url:
        store = RedisStore(url)
        with pytest.raises(StoreError) as caught:
            await store.afind("a", _ALL)
        await store.aclose()
    assert str(caught.value) == expected


async def test_server_that_is_silent() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async with serving(serve) as url:
        assert await failure_of(url, 0.02) == "the store is late"


async def test_server_that_has_another_password(valkey_url: str, server: Redis) -> None:
    server.acl_setuser("limited", enabled=True, passwords=["+right"], commands=["+get"])
    host = valkey_url.removeprefix("redis://")
    text = "the store refuses the user or the password"
    assert await failure_of(f"redis://limited:wrong@{host}") == text
    text = "the store refuses a command to this user"
    assert await failure_of(f"redis://limited:right@{host}") == text


async def test_server_without_memory(store: RedisStore, server: Redis) -> None:
    server.config_set("maxmemory", 1)
    try:
        with pytest.raises(StoreError, match=r"^the store has no memory left$"):
            await store.aput("a", response("r2"))
    finally:
        server.config_set("maxmemory", 0)
    assert await chain_in(store, "r1") == ["r1", "r0"]


async def test_server_that_is_a_replica(store: RedisStore, server: Redis) -> None:
    server.replicaof("127.0.0.1", 1)
    try:
        with pytest.raises(StoreError, match=r"^the store is read-only$"):
            await store.aput("a", response("r2"))
    finally:
        server.replicaof("NO", "ONE")


async def test_server_that_starts_again() -> None:
    with valkey_server() as server:
        store = RedisStore(f"redis://127.0.0.1:{server.port}/0")
        await store.aput("a", response("r1"))
        server.stop()
        with pytest.raises(StoreError, match=r"^the store cannot be reached$"):
            await store.afind("a", _ALL)
        server.start()
        assert await chain_in(store, "r1") == []
        await store.aput("a", response("r1"))
        assert await chain_in(store, "r1") == ["r1"]
        await store.aclose()


async def test_scripts_that_the_server_has_forgotten(store: RedisStore, server: Redis) -> None:
    server.script_flush()
    assert await chain_in(store, "r1") == ["r1", "r0"]


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("c", b"text", "the store holds a damaged response"),
        ("p", b"\xff", "the store holds an id that is no UTF-8"),
        ("s", b"text", "the store refuses a command"),
        ("e", b"text", "the store refuses a command"),
    ],
)
async def test_damaged_response(
    store: RedisStore, server: Redis, field: str, value: bytes, expected: str
) -> None:
    [key] = server.keys("*:r:r1")
    server.hset(key, field, value)
    with pytest.raises(StoreError) as caught:
        await store.afind("a", Lookup("r1"))
    assert str(caught.value) == expected


async def test_key_of_another_application(store: RedisStore, server: Redis) -> None:
    [key] = server.keys("*:r:r1")
    server.set(key, "text")
    with pytest.raises(StoreError, match=r"^the store holds data of another application$"):
        await store.afind("a", _ALL)


# URLs


@pytest.mark.parametrize(
    "url",
    [
        "redis://user:sec/ret@host",
        "redis://host:secret/0",
        "redis://host/0?secret=1",
        "redis://host/0?db=secret",
        "redis://host/0?protocol=9",
        "redis://host/0?retry=1",
        "rediss://host/0?ssl_cert_reqs=secret",
        "secret",
        "http://secret",
    ],
)
def test_url_of_no_server(url: str) -> None:
    with pytest.raises(ValueError, match=r"^no URL of a Redis server, expected redis://HOST$"):
        RedisStore(url)


def test_client_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "redis.asyncio", None)
    with pytest.raises(ImportError, match=r"^no redis, expected the extra `redis`: pip install r"):
        RedisStore("redis://127.0.0.1/0")
