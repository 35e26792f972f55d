"""How often a store is asked for a stream that is followed."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

from support.log.stores import CountingStore, long_stream
from support.log.streams import GatedSource, follow, ids_in, produce, source_of

from streamnorm.log import Log
from streamnorm.log.records import Reading


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


def test_reader_is_answered_late_while_another_finds_the_same_reads() -> None:
    """Two pages that ask another process for a stream which begins at that moment."""

    class LateStore(CountingStore):
        async def aread(
            self, scope: str, id: str, after: int, max_bytes: int, wait_s: float
        ) -> Reading | None:
            reading = await super().aread(scope, id, after, max_bytes, wait_s)
            if wait_s:  # of a reader that waits for the first reads
                answered.set()
                await may_answer.wait()
            return reading

    answered, may_answer = asyncio.Event(), asyncio.Event()

    async def run() -> list[bytes]:
        store = LateStore()
        log = Log(store)
        chat = long_stream(3)
        source = GatedSource((), chat)
        async with Log(store).produce("a", source), asyncio.TaskGroup() as tasks:
            early = tasks.create_task(follow(log, "a", "anthropic"))
            await asyncio.sleep(0.01)  # it has found no reads
            source.open()
            await answered.wait()
            found = await log.follow("a", to="anthropic")
            may_answer.set()
            async with found:
                late = b"".join([data async for data in found])
        return [early.result(), late]

    early, late = asyncio.run(run())
    assert early == late
    assert b"message_stop" in early
    assert len(ids_in(early)) == early.count(b"event: ")


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
    assert resumed == 1  # the rest is in the tail
    # Of 64 KB and less, since its client may be slow, and never one for each of the 12,000.
    assert resumed < from_start < 50


def test_resumed_stream_of_another_process_is_read_at_once() -> None:
    async def run() -> tuple[bytes, int]:
        store = CountingStore()
        await produce(Log(store), "a", long_stream(12_000))  # 0.9 MB
        cursor = ids_in(await follow(Log(store), "a", "anthropic"))[-2]
        store.steps.clear()
        missed = await follow(Log(store), "a", "anthropic", after=cursor)
        return missed, store.steps["read"]

    missed, questions = asyncio.run(run())
    assert missed.count(b"event: ") == 1
    assert questions == 1


def test_few_readers_read_much_at_once() -> None:
    gc.collect()  # readers that other tests left open count, too

    async def run() -> tuple[list[int], int]:
        store = CountingStore()
        await produce(Log(store), "a", long_stream(12_000))
        cursor = ids_in(await follow(Log(store), "a", "anthropic"))[-2]
        store.steps.clear()
        followed = [await Log(store).follow("a", to="anthropic", after=cursor) for _ in range(10)]
        counts = []
        for stream in followed:
            before = store.steps["read"]
            async with stream:
                assert b"message_stop" in b"".join([data async for data in stream])
            counts.append(store.steps["read"] - before)
        first = store.steps["read"]
        await follow(Log(store), "a", "anthropic", after=cursor)
        return counts, store.steps["read"] - first

    counts, later = asyncio.run(run())
    assert counts == [0] * 8 + [2] * 2  # behind what came with the record
    assert later == 1  # once the others have ended


def test_tail_keeps_no_large_read() -> None:
    async def run() -> tuple[int, bool]:
        store = CountingStore()
        await produce(Log(store), "a", long_stream(12_000))
        cursor = ids_in(await follow(Log(store), "a", "anthropic"))[-2]
        log = Log(store)
        async with await log.follow("a", to="anthropic", after=cursor) as stream:
            await anext(stream)
            tail = log._tails["", "a"]
            kept = (await tail.read(tail.count - 1)).reads
            assert len(kept) == 1
            return tail._size, tail.has_start

    size, has_start = asyncio.run(run())
    assert 128 * 1024 < size <= 256 * 1024
    assert not has_start
