"""What a log costs, in steps of its store and calls of functions, without a clock."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

from redis import Redis
from support.log.stores import CountingStore, long_stream
from support.log.streams import GatedSource, append, follow, ids_in, produce, source_of
from support.operation_counts import operations
from support.state.stores import emptied
from support.streams.short import STREAMS

from streamnorm import transcode
from streamnorm.log import Log, open_log
from streamnorm.log.records import Chunk, Record
from streamnorm.log.redis import RedisLogStore

CHAT = STREAMS["openai_chat"]


def test_what_is_read_while_the_store_is_busy_is_stored_at_once() -> None:
    async def run() -> Counter[str]:
        store = CountingStore()
        await produce(Log(store), "a", long_stream(1000))
        return store.steps

    assert asyncio.run(run())["append"] < 30


def test_readers_of_a_process_read_the_store_as_often_as_one() -> None:
    async def run(count: int) -> int:
        store = CountingStore()
        source, other = GatedSource(CHAT[:2], long_stream(100)[2:]), Log(store)
        async with Log(store).produce("a", source), asyncio.TaskGroup() as tasks:
            for _ in range(count):
                tasks.create_task(follow(other, "a", "anthropic"))
            await asyncio.sleep(0.01)
            source.open()
        return store.steps["read"] - count  # each asks once whether there is the stream

    assert asyncio.run(run(200)) < 1.2 * asyncio.run(run(1))


def test_readers_cost_what_each_of_them_does() -> None:
    async def run(count: int) -> None:
        log, source = open_log("memory:"), GatedSource(CHAT[:2], long_stream(20)[2:])
        async with log.produce("a", source), asyncio.TaskGroup() as tasks:
            for _ in range(count):
                tasks.create_task(follow(log, "a", "anthropic"))
            await asyncio.sleep(0)
            source.open()

    few, many = (operations(lambda count=count: asyncio.run(run(count))) for count in (10, 100))
    assert many < 10.5 * few


def test_the_end_of_a_long_stream_costs_what_reading_it_does() -> None:
    reads = long_stream(2000)
    log = open_log("memory:")

    async def prepare() -> str:
        await produce(log, "a", reads)
        return ids_in(await follow(log, "a", "anthropic"))[-2]

    async def resume() -> None:
        assert b"message_stop" in await follow(log, "a", "anthropic", after=cursor)

    async def read() -> None:
        async for _ in transcode(source_of(reads), to="anthropic", dialect="openai_chat"):
            pass

    cursor = asyncio.run(prepare())
    assert operations(_run(resume)) < operations(_run(read))


def test_the_end_of_a_long_stream_takes_few_reads_of_the_store() -> None:
    async def run() -> int:
        store = CountingStore()
        log = Log(store)
        async with log.produce("a", source_of(long_stream(12_000))) as run:
            assert await run.wait() == "complete"
            cursor = ids_in(await follow(log, "a", "anthropic"))[-2]
            store.steps.clear()
            assert b"message_stop" in await follow(log, "a", "anthropic", after=cursor)
        return store.steps["read"]

    # The stream has 0.9 MB, the last 256 KB of them in memory.
    assert asyncio.run(run()) <= 5


def _run(step: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    return lambda: asyncio.run(step())


def test_reads_that_were_stored_alone_are_read_as_one_value(valkey_url: str) -> None:
    async def prepare() -> None:
        store = RedisLogStore(valkey_url, ttl_s=100)
        await store.aclaim("", "a", Record("e1", b"", 0, 0, False, None, 60.0))
        for number in range(1, 301):
            assert await append(store, "", "a", "e1", Chunk(number, [b"a" * 100], [0]), 60.0)
        await store.aclose()

    async def read() -> None:
        store = RedisLogStore(valkey_url, ttl_s=100)
        reading = await store.aread("", "a", 0, 1 << 20, 0)
        assert reading is not None
        assert [chunk.first for chunk in reading.chunks] == list(range(1, 301))
        await store.aclose()

    async def ask() -> None:
        store = RedisLogStore(valkey_url, ttl_s=100)
        assert await store.aread("", "a", 300, 1 << 20, 0) is not None
        await store.aclose()

    emptied(valkey_url)
    asyncio.run(prepare())
    assert operations(_run(read)) - operations(_run(ask)) < 5 * 300


def test_streams_share_commands_of_the_server(valkey_url: str) -> None:
    async def source() -> AsyncIterator[bytes]:
        for read in long_stream(20):
            await asyncio.sleep(0.001)
            yield read

    async def run() -> None:
        log = open_log(valkey_url)

        async def make(id: str) -> None:
            async with log.produce(id, source()) as run:
                assert await run.wait() == "complete"

        async with asyncio.TaskGroup() as tasks:
            for number in range(50):
                tasks.create_task(make(str(number)))
        await log.aclose()

    emptied(valkey_url)
    with Redis.from_url(valkey_url) as server:
        server.config_resetstat()
        asyncio.run(run())
        called: Any = server.info("commandstats")
    stored, commands = called["cmdstat_xadd"]["calls"], called["cmdstat_evalsha"]["calls"]
    # 50 claims among them.
    assert commands - 50 < stored / 4


def test_reader_elsewhere_asks_the_server_once_for_each_change(valkey_url: str) -> None:
    async def run() -> None:
        here, elsewhere = (RedisLogStore(valkey_url, ttl_s=100) for _ in range(2))
        await here.aclaim("", "a", Record("e1", b"", 0, 0, False, None, 60.0))
        for number in range(1, 51):
            reading = asyncio.create_task(elsewhere.aread("", "a", number - 1, 1000, 60.0))
            await asyncio.sleep(0.002)
            assert await append(here, "", "a", "e1", Chunk(number, [b"a"], [0]), 60.0)
            found = await asyncio.wait_for(reading, 30)
            assert found is not None
            assert found.chunks == [Chunk(number, [b"a"], [0])]
        await here.aclose()
        await elsewhere.aclose()

    emptied(valkey_url)
    with Redis.from_url(valkey_url) as server:
        server.config_resetstat()
        asyncio.run(run())
        called: Any = server.info("commandstats")
    # One to claim, fifty to store, and one or two more before the reader is subscribed.
    assert called["cmdstat_evalsha"]["calls"] < 2 * 50 + 10
