"""Streams in a server of Valkey that is away, is restarted, or holds something else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest
from msgspec import structs
from redis import Redis
from support.log.streams import append, follow, ids_in, produce
from support.state.stores import emptied
from support.state.valkey_servers import valkey_server
from support.streams.short import STREAMS

from streamnorm.log import Log, open_log
from streamnorm.log import redis as redis_log
from streamnorm.log.records import LOST, Append, Chunk, Record
from streamnorm.log.redis import RedisLogStore
from streamnorm.state import StoreError

pytestmark = [pytest.mark.anyio, pytest.mark.on_asyncio]

KEY = "scope", "id"
CLAIM = Record("e1", b"print", 0, 0, False, None, 60.0)
CHAT = STREAMS["openai_chat"]


@pytest.fixture
def anyio_backend() -> str:
    """Run on asyncio: redis-py has no other."""
    return "asyncio"


@pytest.fixture
async def store(valkey_url: str) -> AsyncIterator[RedisLogStore]:
    """Provide an empty store."""
    emptied(valkey_url)
    store = RedisLogStore(valkey_url, ttl_s=100)
    yield store
    await store.aclose()


async def waiting_for_news(store: RedisLogStore) -> asyncio.Task[object]:
    """Return a task that waits for the first read of `KEY`, once it is subscribed."""
    reading = asyncio.create_task(store.aread(*KEY, 0, 1000, 60.0))
    channels = await store._redis.pubsub_channels()
    while not channels:
        await asyncio.sleep(0.001)
        channels = await store._redis.pubsub_channels()
    return reading


def test_log_is_opened_before_there_is_an_event_loop(valkey_url: str) -> None:
    log = open_log(valkey_url)

    async def state() -> str:
        async with aclosing(log):
            return (await log.status("never-produced")).state

    assert asyncio.run(state()) == "unknown"


async def test_server_that_does_not_run(free_tcp_port: int) -> None:
    store = RedisLogStore(f"redis://127.0.0.1:{free_tcp_port}", ttl_s=100)
    for call in (
        store.aclaim(*KEY, CLAIM),
        append(store, *KEY, "e1", Chunk(1, [], []), 1.0),
        store.aend(*KEY, "e1", b""),
        store.afree(*KEY, "e1"),
        store.acancel(*KEY),
        store.acancelled(),
        store.aread(*KEY, 0, 1, 0),
    ):
        with pytest.raises(StoreError, match="cannot be reached"):
            await call
    await store.aclose()


async def test_stream_survives_readers_of_other_logs(valkey_url: str) -> None:
    emptied(valkey_url)
    one, two = open_log(valkey_url), open_log(valkey_url)
    await produce(one, "a", CHAT)
    whole = await follow(two, "a", "anthropic")
    for id in ids_in(whole):
        assert whole.endswith(await follow(one, "a", "anthropic", after=id))
    await one.aclose()
    await two.aclose()


async def test_reader_is_woken_by_the_append(store: RedisLogStore) -> None:
    await store.aclaim(*KEY, CLAIM)
    for number in (1, 2):  # the second time it is subscribed
        reading = asyncio.create_task(store.aread(*KEY, number - 1, 1000, 60.0))
        await asyncio.sleep(0.05)
        await append(store, *KEY, "e1", Chunk(number, [b"a"], [0]), 60.0)
        found = await asyncio.wait_for(reading, 5)
        assert found is not None
        assert found.chunks == [Chunk(number, [b"a"], [0])]


async def test_reader_that_waited_in_vain_waits_again(store: RedisLogStore) -> None:
    await store.aclaim(*KEY, CLAIM)
    for _ in range(2):
        found = await store.aread(*KEY, 0, 1000, 0.01)
        assert found is not None
        assert found.chunks == []


async def test_lost_subscription_is_made_again(store: RedisLogStore) -> None:
    await store.aclaim(*KEY, CLAIM)
    reading = await waiting_for_news(store)
    await store._redis.client_kill_filter(_type="pubsub")
    while not await store._redis.pubsub_channels():  # noqa: ASYNC110 - of another connection
        await asyncio.sleep(0.001)
    await append(store, *KEY, "e1", Chunk(1, [b"a"], [0]), 60.0)
    assert await asyncio.wait_for(reading, 5)


async def test_readers_that_begin_at_once_share_a_connection(store: RedisLogStore) -> None:
    for number in range(8):
        await store.aclaim("", str(number), CLAIM)
    for _ in range(2):
        await asyncio.gather(*[store.aread("", str(n), 0, 1, 0.05) for n in range(8)])
        assert len(await store._redis.client_list(_type="pubsub")) == 1
    await store.aclose()
    assert not store._redis.connection_pool._in_use_connections


async def test_store_is_closed_while_it_connects_again(store: RedisLogStore) -> None:
    """At each step of that, since a cancellation of redis-py's task may be lost there."""
    await store.aclaim(*KEY, CLAIM)
    for steps in range(40):
        await store.aread(*KEY, 0, 1, 0.001)
        reader = store._news._channels.connection._reader
        await store._redis.client_kill_filter(_type="pubsub")
        while not reader.at_eof():  # noqa: ASYNC110 - of a connection
            await asyncio.sleep(0)
        for _ in range(steps):
            await asyncio.sleep(0)
        await asyncio.wait_for(store.aclose(), 5)


async def test_server_that_dies_while_readers_wait() -> None:
    with valkey_server() as server:
        store = RedisLogStore(server.connection_url, ttl_s=100)
        await store.aclaim(*KEY, CLAIM)
        reading = await waiting_for_news(store)
        server.stop()
        with pytest.raises(StoreError, match="cannot be reached"):
            await asyncio.wait_for(reading, 10)
        with pytest.raises(StoreError, match="cannot be reached"):
            await store.aread(*KEY, 0, 1000, 1.0)
        server.start()
        await store.aclaim(*KEY, CLAIM)
        again = await waiting_for_news(store)
        await append(store, *KEY, "e1", Chunk(1, [b"a"], [0]), 60.0)
        assert await asyncio.wait_for(again, 5)
        await store.aclose()


async def test_oldest_subscription_makes_place(
    store: RedisLogStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_log, "_MAX_SUBSCRIPTIONS", 2)
    for id in ("a", "b", "c"):
        await store.aclaim("", id, CLAIM)
        await store.aread("", id, 0, 1, 0.001)
    assert len(await store._redis.pubsub_channels()) == 2


async def test_append_between_two_looks_is_not_missed(store: RedisLogStore) -> None:
    await store.aclaim(*KEY, CLAIM)
    watch = store._news.watch

    async def append_meanwhile(channel: bytes) -> redis_log._Watch:
        await append(store, *KEY, "e1", Chunk(1, [b"a"], [0]), 60.0)
        return await watch(channel)

    store._news.watch = append_meanwhile  # type: ignore[method-assign]
    found = await asyncio.wait_for(store.aread(*KEY, 0, 1000, 60.0), 5)
    assert found is not None
    assert found.chunks == [Chunk(1, [b"a"], [0])]


async def test_stream_that_cannot_be_stored_fails_alone(
    store: RedisLogStore, valkey_url: str
) -> None:
    for id in ("a", "b", "c"):
        await store.aclaim("", id, CLAIM)
    with Redis.from_url(valkey_url) as server:
        server.set(redis_log._keys("", "b")[1].decode(), "of another application")
    streams = (("a", "e1"), ("b", "e1"), ("c", "e1"), ("d", "e1"), ("c", "e2"))
    chunk = Chunk(1, [b"a"], [0])
    results = await store.aappend([Append("", id, epoch, chunk, 60.0) for id, epoch in streams])
    assert [results[0], results[2], results[4]] == [True, True, False]
    assert str(results[1]) == "the store holds data of another application"
    assert str(results[3]) == LOST


async def test_two_readers_of_a_stream_listen_to_it_once(store: RedisLogStore) -> None:
    await store.aclaim(*KEY, CLAIM)
    readings = [asyncio.create_task(store.aread(*KEY, 0, 1000, 60.0)) for _ in range(2)]
    while not await store._redis.pubsub_channels():  # noqa: ASYNC110 - of the server
        await asyncio.sleep(0.001)
    await append(store, *KEY, "e1", Chunk(1, [b"a"], [0]), 60.0)
    one, other = await asyncio.wait_for(asyncio.gather(*readings), 5)
    assert one is not None
    assert other is not None
    assert one.chunks == other.chunks == [Chunk(1, [b"a"], [0])]


async def test_readers_of_many_streams_are_all_woken(store: RedisLogStore) -> None:
    ids = [str(number) for number in range(20)]
    for id in ids:
        await store.aclaim("", id, CLAIM)
    readings = [asyncio.create_task(store.aread("", id, 0, 1000, 60.0)) for id in ids]
    while len(await store._redis.pubsub_channels()) < len(ids):  # noqa: ASYNC110 - of the server
        await asyncio.sleep(0.001)
    for id in ids:
        await append(store, "", id, "e1", Chunk(1, [b"a"], [0]), 60.0)
    await asyncio.wait_for(asyncio.gather(*readings), 5)


@pytest.mark.parametrize(
    ("field", "value"), [("epoch", b"\xff"), ("count", b"x"), ("size", b"x"), ("lease", b"x")]
)
async def test_damaged_record(
    store: RedisLogStore, valkey_url: str, field: str, value: bytes
) -> None:
    await store.aclaim(*KEY, CLAIM)
    with Redis.from_url(valkey_url) as server:
        server.hset(redis_log._keys(*KEY)[0].decode(), field, value)  # type: ignore[arg-type]
    with pytest.raises(StoreError):
        await store.aread(*KEY, 0, 1, 0)


async def test_damaged_reads(store: RedisLogStore, valkey_url: str) -> None:
    await store.aclaim(*KEY, CLAIM)
    await append(store, *KEY, "e1", Chunk(1, [b"a"], [0]), 60.0)
    with Redis.from_url(valkey_url) as server:
        server.xadd(redis_log._keys(*KEY)[1].decode(), {"r": b"\xc1"}, id="2-1")
        server.hset(redis_log._keys(*KEY)[0].decode(), "count", "2")
    with pytest.raises(StoreError, match="a damaged stream"):
        await store.aread(*KEY, 0, 1000, 0)


async def test_streams_of_another_release_are_refused(
    store: RedisLogStore, valkey_url: str
) -> None:
    await store.aclaim(*KEY, CLAIM)
    with Redis.from_url(valkey_url) as server:
        server.hset(redis_log._keys(*KEY)[0].decode(), "format", "2")
    other = structs.replace(CLAIM, epoch="e2")
    for call in (store.aclaim(*KEY, other), store.aread(*KEY, 0, 1, 0)):
        with pytest.raises(StoreError, match="streams of format 2, expected 1"):
            await call


async def test_server_that_loses_all(valkey_url: str) -> None:
    with valkey_server() as server:
        log = Log(RedisLogStore(server.connection_url, ttl_s=100))
        await produce(log, "a", CHAT)
        emptied(server.connection_url)
        assert (await log.status("a")).state == "unknown"
        assert await produce(log, "a", CHAT) == "complete"
        await log.aclose()
