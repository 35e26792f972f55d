"""The store in Redis or Valkey: its keys, its time to live, and what it costs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest
from redis import Redis
from support.state.responses import response
from support.state.stores import chain_in, items_in

from streamnorm.state import Lookup, RedisStore, ResponseStore

pytestmark = [pytest.mark.anyio, pytest.mark.on_asyncio]

TTL_MS = 32_000
STEP_MS = 1000


@pytest.fixture
async def store(valkey_url: str, server: Redis) -> AsyncIterator[RedisStore]:
    """Provide an empty store."""
    store = RedisStore(valkey_url, ttl_s=TTL_MS / 1000)
    yield store
    await store.aclose()


async def filled(store: RedisStore, count: int) -> None:
    """Store a chain, each response with an item."""
    for number in range(count):
        previous = f"r{number - 1}" if number else None
        await store.aput("a", response(f"r{number}", previous, f"i{number}"))


def key_in(server: Redis, end: str) -> bytes:
    [key] = server.keys(f"*{end}")
    return bytes(key)


def age(server: Redis, *ends: str) -> None:
    """Make keys as old as if they were last used ten seconds ago."""
    for end in ends:
        key = key_in(server, end)
        expires = server.pexpiretime(key) - 10_000
        server.pexpireat(key, expires)
        if b":r:" in key:
            server.hset(key, "e", expires)


async def test_store_is_a_store(store: RedisStore) -> None:
    asynchronous: ResponseStore = store
    assert asynchronous is store


async def test_keys_of_a_scope_are_in_one_slot(store: RedisStore, server: Redis) -> None:
    await filled(store, 2)
    tags = {key[key.index(b"{") : key.index(b"}")] for key in server.keys("*")}
    assert len(server.keys("streamnorm:*")) == 4
    assert len(tags) == 1
    assert all(b"}:r:" in key or b"}:i:" in key for key in server.keys("*"))


async def test_deleted_responses_leave_no_keys(store: RedisStore, server: Redis) -> None:
    await filled(store, 2)
    for id in ("r0", "r1"):
        await store.adelete("a", id)
    assert server.dbsize() == 0


@pytest.mark.parametrize("scheme", ["redis", "valkey"])
async def test_scheme_of_the_url(valkey_url: str, server: Redis, scheme: str) -> None:
    store = RedisStore(valkey_url.replace("redis", scheme))
    await filled(store, 1)
    assert await chain_in(store, "r0") == ["r0"]
    await store.aclose()


@pytest.mark.parametrize("size", [1024 * 1024, 3 * 1024 * 1024])
async def test_body_that_no_script_returns(store: RedisStore, size: int) -> None:
    await store.aput("a", response("r1", None, "x", size=size))
    await store.aput("a", response("r2", "r1", size=size))
    found = await store.afind("a", Lookup("r2", ("x",)))
    assert [len(found.body) for found in found.chain] == [size, 0]
    assert list(found.items) == ["x"]


async def test_response_of_an_earlier_release_has_its_body(
    store: RedisStore, server: Redis
) -> None:
    """It is part of the content, whose field was the only one."""
    await filled(store, 2)
    for end in ("r:r0", "r:r1"):
        server.hdel(key_in(server, end), "b")
        server.hset(key_in(server, end), "c", b"\x93\xc4\x02{}\x90\x90")
    found = await store.afind("a", Lookup("r1"))
    assert [(found.id, found.body) for found in found.chain] == [("r1", b"{}"), ("r0", b"")]


# Time to live


async def test_keys_expire(store: RedisStore, server: Redis) -> None:
    await filled(store, 2)
    left = {key: server.pttl(key) for key in server.keys("*")}
    assert len(left) == 4
    assert all(TTL_MS - STEP_MS < ms <= TTL_MS + STEP_MS for ms in left.values())
    assert all(server.pexpiretime(key) % STEP_MS == 0 for key in left)


async def test_found_chain_is_stored_for_longer(store: RedisStore, server: Redis) -> None:
    await filled(store, 3)
    before = server.pexpiretime(key_in(server, "r:r0"))
    age(server, "r:r0", "i:i0", "r:r1", "i:i1", "r:r2", "i:i2")
    assert await chain_in(store, "r1") == ["r1", "r0"]
    expires = [server.pexpiretime(key_in(server, end)) for end in ("r:r0", "i:i0", "r:r1", "i:i1")]
    assert min(expires) >= before
    assert server.pexpiretime(key_in(server, "r:r2")) < before


async def test_found_item_stores_its_chain_for_longer(store: RedisStore, server: Redis) -> None:
    await filled(store, 3)
    before = server.pexpiretime(key_in(server, "r:r0"))
    age(server, "r:r0", "i:i0", "r:r1", "i:i1", "r:r2", "i:i2")
    assert list(await items_in(store, "i1")) == ["i1"]
    assert server.pexpiretime(key_in(server, "r:r0")) >= before
    assert server.pexpiretime(key_in(server, "r:r2")) < before


async def test_continued_chain_is_stored_for_longer(store: RedisStore, server: Redis) -> None:
    await filled(store, 2)
    before = server.pexpiretime(key_in(server, "r:r0"))
    age(server, "r:r0", "r:r1")
    await store.aput("a", response("next", "r1"))
    assert server.pexpiretime(key_in(server, "r:r0")) >= before


async def test_item_of_a_forgotten_response_is_that_of_one_before(
    store: RedisStore, server: Redis
) -> None:
    await store.aput("a", response("r1", None, "x"))
    await store.aput("a", response("r2", None, "x"))
    server.delete(key_in(server, "r:r2"))
    assert await items_in(store, "x") == {"x": b'{"id": "x", "of": "r1"}'}


async def filled_and_expired(store: RedisStore, server: Redis, count: int) -> None:
    """Store an item of many responses, of which all but the first expire."""
    for number in range(count):
        await store.aput("a", response(f"r{number}", None, "x"))
    server.delete(*[key_in(server, f"r:r{number}") for number in range(1, count)])


async def test_item_is_searched_behind_many_forgotten_responses(
    store: RedisStore, server: Redis
) -> None:
    await filled_and_expired(store, server, 150)
    assert await items_in(store, "x") == {"x": b'{"id": "x", "of": "r0"}'}
    assert server.zcard(key_in(server, "i:x")) == 1


async def test_forgotten_responses_do_not_fill_an_item(store: RedisStore, server: Redis) -> None:
    await filled_and_expired(store, server, 150)
    for number in range(300):
        await store.aput("a", response(f"s{number % 10}", None, "x"))
    assert server.zcard(key_in(server, "i:x")) <= 65 + 10
    assert await items_in(store, "x") == {"x": b'{"id": "x", "of": "s9"}'}


# Cost, in commands of the server


async def find_chain(store: RedisStore, count: int) -> None:
    assert len(await chain_in(store, f"r{count - 1}")) == count


async def find_items(store: RedisStore, count: int) -> None:
    assert len(await items_in(store, *[f"i{number}" for number in range(count)])) == count


async def put_next(store: RedisStore, count: int) -> None:
    await store.aput("a", response("next", f"r{count - 1}", "item"))


async def commands(store: RedisStore, server: Redis, work: Callable[..., object], n: int) -> int:
    """Return how many commands the server runs, those of scripts included."""
    server.flushdb()
    await filled(store, n)
    counts = []
    for _ in range(2):  # in one of them, times may be rounded up to the next step
        server.config_resetstat()
        await work(store, n)  # type: ignore[misc]
        counts.append(sum(stats["calls"] for stats in server.info("commandstats").values()))
    return min(counts)


@pytest.mark.parametrize(
    ("work", "growth"), [(find_chain, 4.1), (find_items, 4.1), (put_next, 1.0)]
)
async def test_cost_grows_in_proportion(
    store: RedisStore, server: Redis, work: Callable[..., object], growth: float
) -> None:
    await put_next(store, 1)  # loads the scripts
    await find_chain(store, 0)
    assert await commands(store, server, work, 200) <= growth * await commands(
        store, server, work, 50
    )


async def test_lookup_takes_one_round_trip(store: RedisStore, server: Redis) -> None:
    await filled(store, 100)
    await store.afind("a", Lookup("r99"))
    server.config_resetstat()
    await store.afind("a", Lookup("r99", ("i3", "i4")))
    assert server.info("commandstats")["cmdstat_evalsha"]["calls"] == 1
