"""Streams that are cancelled once nobody, in any process, follows them."""

from __future__ import annotations

from math import ceil

import anyio
import pytest
from support.log.streams import GatedSource, produce, wait_for_reads
from support.state.stores import Clock
from support.streams.short import STREAMS

from streamnorm import TruncatedStream
from streamnorm.log import FollowedStream, Log, LogStore, Production, tails
from streamnorm.log import log as log_module
from streamnorm.log.memory import MemoryLogStore
from streamnorm.log.records import Streams
from streamnorm.state import StoreError

pytestmark = pytest.mark.anyio

CHAT = STREAMS["openai_chat"]
LINGER_S = 30.0
# How often a process tells the store what it follows, in these tests.
FOLLOW_S = 0.01


@pytest.fixture(params=["memory-asyncio", "sqlite-trio", "redis"])
def kind(request: pytest.FixtureRequest) -> str:
    """Return a kind of store, with the async back end to use it on."""
    return str(request.param)


@pytest.fixture(autouse=True)
def tell_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no test wait for a second."""
    monkeypatch.setattr(log_module, "_FOLLOW_S", FOLLOW_S)
    monkeypatch.setattr(tails, "_WAIT_S", FOLLOW_S)


@pytest.fixture
def log(store: LogStore) -> Log:
    """Provide a log whose producers do not die of time that passes by its store alone."""
    return Log(store, lease_s=1e4)


@pytest.fixture
def elsewhere(store: LogStore) -> Log:
    """Provide the log as another process has it."""
    return Log(store, lease_s=1e4)


async def pass_time(clock: Clock, seconds: float) -> None:
    """Let time pass by the clock of the store, so slowly that it learns who follows."""
    for _ in range(ceil(seconds / 2)):
        await anyio.sleep(3 * FOLLOW_S)
        clock.now += min(seconds, 2)
    await anyio.sleep(3 * FOLLOW_S)


async def assert_left(log: Log, run: Production, clock: Clock) -> None:
    """Assert that a stream ends as one that nobody follows, soon by the clock of the store."""
    for _ in range(20):
        if not run.has_ended:
            await pass_time(clock, 2)
    with anyio.fail_after(5):
        assert await run.wait() == "cancelled"
    assert (await log.status("a")).state == "cancelled"
    with pytest.raises(TruncatedStream, match="was cancelled because nobody followed it"):
        async with await log.follow("a") as stream:
            assert [event async for event in stream]


async def read_on(stream: FollowedStream[bytes]) -> None:
    """Read to the end of a stream."""
    async for _ in stream:
        pass


async def test_stream_without_readers_is_cancelled(log: Log, clock: Clock) -> None:
    source = GatedSource(CHAT[:3])
    async with log.produce("a", source, linger_s=LINGER_S) as run:
        await pass_time(clock, LINGER_S / 2)  # real time passes, too
        assert not run.has_ended
        await assert_left(log, run, clock)
    assert source.is_closed


async def test_reader_that_waits_is_enough(log: Log, elsewhere: Log, clock: Clock) -> None:
    for reader in (log, elsewhere):
        source = GatedSource(CHAT[:3], CHAT[3:])
        id = "here" if reader is log else "elsewhere"
        async with log.produce(id, source, linger_s=LINGER_S) as run:
            await wait_for_reads(log, id, 4)
            async with (
                await reader.follow(id, to="anthropic") as stream,
                anyio.create_task_group() as tasks,
            ):
                tasks.start_soon(read_on, stream)
                await pass_time(clock, LINGER_S + 10)
                assert not run.has_ended
                source.open()
            assert await run.wait() == "complete"


async def test_stream_that_its_last_reader_has_left_is_cancelled(
    log: Log, elsewhere: Log, clock: Clock
) -> None:
    async with log.produce("a", GatedSource(CHAT[:3]), linger_s=LINGER_S) as run:
        await wait_for_reads(log, "a", 4)
        for reader in (elsewhere, log):
            async with await reader.follow("a", to="anthropic") as stream:
                await pass_time(clock, LINGER_S / 2)
                await anext(stream)
        await pass_time(clock, LINGER_S / 2)
        assert not run.has_ended
        await assert_left(elsewhere, run, clock)


async def test_reader_that_reads_nothing_is_none(log: Log, clock: Clock) -> None:
    async with (
        log.produce("a", GatedSource(CHAT[:3]), linger_s=LINGER_S) as run,
        await log.follow("a", to="anthropic") as stream,
    ):
        await anext(stream)
        await assert_left(log, run, clock)


async def test_who_waits_for_the_end_follows(log: Log, elsewhere: Log, clock: Clock) -> None:
    source = GatedSource(CHAT[:3], CHAT[3:])

    async def join() -> None:
        async with elsewhere.produce("a", GatedSource(CHAT)) as run:
            assert not run.is_new
            assert await run.wait() == "complete"

    async with log.produce("a", source, linger_s=LINGER_S) as run:
        await wait_for_reads(log, "a", 4)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(join)
            await pass_time(clock, LINGER_S + 10)
            assert not run.has_ended
            source.open()


async def test_other_streams_of_the_process_go_on(log: Log, clock: Clock) -> None:
    other = GatedSource(CHAT[:3], CHAT[3:])
    async with (
        log.produce("b", other) as lasting,
        log.produce("a", GatedSource(CHAT[:3]), linger_s=LINGER_S) as run,
    ):
        await assert_left(log, run, clock)
        other.open()
        assert await lasting.wait() == "complete"


@pytest.mark.parametrize("linger_s", [4.9, 0, -1, float("nan")])
async def test_linger_is_longer_than_what_readers_need_to_be_known(
    log: Log, linger_s: float
) -> None:
    with pytest.raises(ValueError, match=r"linger_s of \S+, expected at least 5$"):
        await produce(log, "a", CHAT, linger_s=linger_s)


class DeafStore(MemoryLogStore):
    """A store that fails where it is told who follows.

    Attributes:
        calls: How often that was.
    """

    calls = 0

    async def afollow(self, followed: Streams, produced: Streams) -> set[str]:
        self.calls += 1
        raise StoreError("the store is down")


@pytest.mark.parametrize("kind", ["memory-asyncio"])
async def test_store_that_fails_ends_no_stream() -> None:
    store, source = DeafStore(ttl_s=100), GatedSource(CHAT[:3], CHAT[3:])
    async with Log(store).produce("a", source, linger_s=LINGER_S) as run:
        async with await Log(store).follow("a", to="anthropic") as stream:
            await anext(stream)
            while store.calls < 3:  # noqa: ASYNC110 - what a store is told
                await anyio.sleep(FOLLOW_S)
            source.open()
            await read_on(stream)
        assert await run.wait() == "complete"


@pytest.mark.parametrize("kind", ["memory-asyncio"])
async def test_store_is_told_once_for_all_streams_of_a_process() -> None:
    store = DeafStore(ttl_s=100)
    log, elsewhere = Log(store), Log(store)
    log_module._FOLLOW_S = 60.0  # restored as the fixture ends
    source = GatedSource(CHAT[:3], CHAT[3:])
    async with (
        log.produce("a", source, linger_s=LINGER_S),
        log.produce("b", GatedSource(CHAT), linger_s=LINGER_S),
    ):
        for _ in range(9):
            for id in ("a", "b"):
                async with await elsewhere.follow(id, to="anthropic") as stream:
                    await anext(stream)
        source.open()
    assert store.calls == 2  # of one process, and of the other
