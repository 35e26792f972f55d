"""What a log costs, in steps of its store and calls of functions, without a clock."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from typing import Any

from redis import Redis
from support.log.streams import GatedSource, append, follow, ids_in, produce, source_of
from support.operation_counts import operations
from support.state.stores import emptied
from support.streams.short import STREAMS

from streamnorm import transcode
from streamnorm.log import Log, open_log
from streamnorm.log.memory import MemoryLogStore
from streamnorm.log.records import Append, Chunk, Reading, Record
from streamnorm.log.redis import RedisLogStore
from streamnorm.state import StoreError

CHAT = STREAMS["openai_chat"]
PIECE = b'data: {"id": "1", "choices": [{"index": 0, "delta": {"content": "%d"}}]}\n\n'


def long_stream(count: int) -> list[bytes]:
    """Return the reads of a stream with so many pieces of text."""
    return [*CHAT[:2], *(PIECE % number for number in range(count)), *CHAT[2:]]


class CountingStore(MemoryLogStore):
    """A store whose steps take some turns of the loop, and are counted."""

    def __init__(self) -> None:
        super().__init__(ttl_s=100)
        self.steps: Counter[str] = Counter()

    async def aappend(self, appends: Sequence[Append]) -> list[bool | StoreError]:
        self.steps["append"] += 1
        for _ in range(50):
            await asyncio.sleep(0)
        return await super().aappend(appends)

    async def aread(
        self, scope: str, id: str, after: int, max_bytes: int, wait_s: float
    ) -> Reading | None:
        self.steps["read"] += 1
        return await super().aread(scope, id, after, max_bytes, wait_s)


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


def test_short_stream_of_another_process_is_read_at_once() -> None:
    async def run() -> int:
        store = CountingStore()
        await produce(Log(store), "a", long_stream(100))
        assert b"message_stop" in await follow(Log(store), "a", "anthropic")
        return store.steps["read"]

    assert asyncio.run(run()) == 1


def test_readers_that_look_for_a_stream_at_once_share_what_is_found() -> None:
    class DistantStore(CountingStore):
        async def aread(self, *args: Any) -> Reading | None:
            reading = await super().aread(*args)
            await may_answer.wait()
            return reading

    may_answer = asyncio.Event()

    async def run() -> int:
        store = DistantStore()
        await produce(Log(store), "a", long_stream(100))
        log = Log(store)
        async with asyncio.TaskGroup() as tasks:
            found = [tasks.create_task(log.follow("a", to="anthropic")) for _ in range(3)]
            await asyncio.sleep(0.01)
            may_answer.set()
        for task in found:
            async with task.result() as stream:
                assert b"message_stop" in b"".join([data async for data in stream])
        return store.steps["read"]

    assert asyncio.run(run()) == 3


def test_start_that_the_tail_has_lost_is_read_with_the_record() -> None:
    async def run() -> list[int]:
        store = CountingStore()
        log, counts = Log(store), []
        async with log.produce("a", source_of(long_stream(12_000))) as producing:
            assert await producing.wait() == "complete"
        tail = producing.tail  # which has the last 256 KB of 0.9 MB
        cursor = ids_in(await follow(log, "a", "anthropic"))[-2]
        for after in ("", cursor):
            store.steps.clear()
            assert b"message_stop" in await follow(log, "a", "anthropic", after=after)
            counts.append(store.steps["read"])
        assert not tail.has_start
        return counts

    from_start, resumed = asyncio.run(run())
    assert resumed == 2  # of 384 KB; the rest is in the tail
    assert resumed < from_start < 20  # of 64 KB, since its client may be slow


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
