"""Streams of a process that are stored together."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import anyio
import pytest
from support.log.streams import GatedSource, follow, ids_in, produce, wait_for_reads
from support.streams.short import STREAMS

from streamnorm.log import Log, OpenedSource, committing, producing
from streamnorm.log.memory import MemoryLogStore
from streamnorm.log.records import Append, Reading
from streamnorm.state import StoreError

pytestmark = pytest.mark.anyio

CHAT = STREAMS["openai_chat"]


class GatedStore(MemoryLogStore):
    """A store that a test stops.

    Attributes:
        gate: What appends wait for.
        appended: Ids of the streams of each append.
        refused: Id of a stream whose appends fail.
    """

    def __init__(self) -> None:
        super().__init__(ttl_s=100)
        self.gate = anyio.Event()
        self.gate.set()
        self.appended: list[list[str]] = []
        self.refused = ""

    async def aappend(self, appends: Sequence[Append]) -> list[bool | StoreError]:
        self.appended.append([append.id for append in appends])
        await self.gate.wait()
        return [
            StoreError("no") if append.id == self.refused else result
            for append, result in zip(appends, await super().aappend(appends), strict=True)
        ]


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def test_what_waits_for_the_store_is_stored_at_once() -> None:
    store = GatedStore()
    log, ids = Log(store), [str(number) for number in range(5)]
    sources = {id: GatedSource(CHAT[:2], CHAT[2:]) for id in ids}

    async def make(id: str) -> None:
        async with log.produce(id, sources[id]) as run:
            assert await run.wait() == "complete"

    async with anyio.create_task_group() as tasks:
        for id in ids:
            tasks.start_soon(make, id)
        for id in ids:
            await wait_for_reads(log, id, 3)
        store.gate = anyio.Event()
        store.appended.clear()
        sources["3"].open()
        await anyio.sleep(0.02)
        for source in sources.values():
            source.open()
        await anyio.sleep(0.02)
        store.gate.set()
    assert [sorted(each) for each in store.appended] == [["3"], ["0", "1", "2", "4"]]


async def test_one_operation_stores_so_many_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(committing, "_MAX_APPENDS", 2)
    store = GatedStore()
    log = Log(store)

    async def make(id: str) -> None:
        async with log.produce(id, GatedSource(CHAT)) as run:
            assert await run.wait() == "complete"

    async with anyio.create_task_group() as tasks:
        for number in range(5):
            tasks.start_soon(make, str(number))
    assert max(map(len, store.appended)) == 2


@pytest.mark.parametrize("stopped", ["a", "b"])
async def test_stream_that_is_stopped_while_it_is_stored_stops_no_other(stopped: str) -> None:
    """Whether its task stores for both or not."""
    store = GatedStore()
    log = Log(store)
    sources = {id: GatedSource(CHAT[:2], CHAT[2:]) for id in ("a", "b")}
    scopes = {id: anyio.CancelScope() for id in sources}

    async def make(id: str) -> None:
        with scopes[id]:
            async with log.produce(id, sources[id]) as run:
                assert await run.wait() == "complete"

    async with anyio.create_task_group() as tasks:
        for id in sources:
            tasks.start_soon(make, id)
            await wait_for_reads(log, id, 3)
        store.gate = anyio.Event()
        for source in sources.values():
            source.open()
        await anyio.sleep(0.02)
        scopes[stopped].cancel()
        await anyio.sleep(0.02)
        store.gate.set()
    for id in sources:
        written = await follow(Log(store), id, "anthropic")
        # What was read before it was stopped is there, its end included.
        assert (await log.status(id)).state == "complete"
        assert b'"text":"b"' in written
        assert written.count(b"\n\n") == len(ids_in(written))


async def test_stream_that_gives_up_a_late_store_stops_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(producing, "_END_S", 0.05)
    monkeypatch.setattr(committing, "_RETRIES_S", 60.0)  # until when neither gives it up
    store = GatedStore()
    log = Log(store, lease_s=600)
    sources = {id: GatedSource(CHAT[:2], CHAT[2:]) for id in ("a", "b")}
    scope = anyio.CancelScope()
    written: list[bytes] = []

    async def make() -> None:
        with scope:
            async with log.produce("b", sources["b"]) as run:
                await run.wait()

    async def read() -> None:
        written.append(await follow(log, "b", "anthropic"))

    async with anyio.create_task_group() as tasks, log.produce("a", sources["a"]) as run:
        await wait_for_reads(log, "a", 3)
        tasks.start_soon(make)
        await wait_for_reads(log, "b", 3)
        tasks.start_soon(read)
        store.gate = anyio.Event()
        for source in sources.values():
            source.open()
        await anyio.sleep(0.02)
        scope.cancel()
        with anyio.fail_after(30):
            while not written:  # noqa: ASYNC110 - what another task has
                await anyio.sleep(0.005)
        assert b'"text":"b"' in written[0]
        store.gate.set()
        assert await run.wait() == "complete"
    assert (await Log(store).status("a")).state == "complete"


async def test_stream_that_cannot_be_stored_stops_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(committing, "_RETRIES_S", 1.0)
    store = GatedStore()
    store.refused = "b"
    log = Log(store)
    async with log.produce("a", GatedSource(CHAT)) as one, log.produce("b", GatedSource(CHAT)) as b:
        assert await one.wait() == "complete"
        assert await b.wait() == "complete"
    assert (one.tail.is_broken, b.tail.is_broken) == (False, True)
    # It was tried again.
    assert sum("b" in each for each in store.appended) > 1


async def test_live_reader_of_a_store_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    """It waits for the store no longer than for one that fails at once."""
    monkeypatch.setattr(committing, "_RETRIES_S", 0.1)
    store = GatedStore()
    log, source = Log(store), GatedSource(CHAT[:2], CHAT[2:])
    async with log.produce("a", source) as run:
        async with await log.follow("a", to="anthropic") as stream:
            written = await anext(stream)
            store.gate = anyio.Event()
            source.open()
            with anyio.fail_after(5):
                written += b"".join([data async for data in stream])
        assert await run.wait() == "complete"
    assert run.tail.is_broken
    assert b"message_stop" in written


async def test_stream_that_cannot_be_stored_delays_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(committing, "_RETRY_S", 60.0)
    store = GatedStore()
    # A failure is final after a third of the lease.
    log, sources = Log(store, lease_s=1.5), {id: GatedSource(CHAT[:2], CHAT[2:3]) for id in "ab"}
    last = GatedSource(CHAT)
    async with log.produce("a", sources["a"]) as run, log.produce("b", sources["b"]) as refused:
        await wait_for_reads(log, "a", 3)
        await wait_for_reads(log, "b", 3)
        store.refused, store.gate = "b", anyio.Event()
        for source in sources.values():
            source.open()
        await anyio.sleep(0.6)
        store.gate.set()
        with anyio.fail_after(30):
            async with log.produce("c", last) as later:
                assert await later.wait() == "complete"
            await run.wait()
            await refused.wait()
    assert [one.tail.is_broken for one in (run, refused, later)] == [False, True, False]


async def test_usage_that_no_store_has_room_for_stops_no_other() -> None:
    """Anthropic's input is the sum of three counts, which is beyond 64 bits here."""
    log, most = Log(MemoryLogStore(ttl_s=100)), 2**63 - 1
    huge = (
        b'data: {"type":"message_start","message":{"id":"m","type":"message","role":"assistant",'
        b'"model":"m","content":[],"usage":{"input_tokens":%d,"cache_read_input_tokens":%d,'
        b'"cache_creation_input_tokens":%d,"output_tokens":1}}}\n\n' % (most, most, most)
    )
    sources = {id: GatedSource(CHAT[:2], CHAT[2:]) for id in ("a", "b")}
    written: list[bytes] = []

    async def make(id: str) -> None:
        async with log.produce(id, sources[id]) as run:
            assert await run.wait() == "complete"

    async def read() -> None:
        written.append(await follow(log, "huge", "openai_chat"))

    async with anyio.create_task_group() as tasks:
        for id in sources:
            tasks.start_soon(make, id)
            await wait_for_reads(log, id, 3)
        source = GatedSource([huge], [b'data: {"type":"message_stop"}\n\n'])
        async with log.produce("huge", source, dialect="anthropic") as run:
            await wait_for_reads(log, "huge", 2)
            tasks.start_soon(read)
            source.open()
            assert await run.wait() == "complete"
        assert await produce(log, "later", CHAT) == "complete"
        for gated in sources.values():
            gated.open()
    assert b"data: [DONE]" in written[0]
    usage = (await log.status("huge")).usage
    assert usage is not None
    assert (usage.input_tokens, usage.output_tokens) == (most, 1)
    assert usage.cache_read_tokens == most


async def test_fields_that_cannot_be_stored_end_their_stream_alone() -> None:
    log, source = Log(MemoryLogStore(ttl_s=100)), GatedSource(CHAT[:2], CHAT[2:])
    written: list[bytes] = []

    @asynccontextmanager
    async def opened() -> AsyncIterator[OpenedSource]:
        fields = {"user": object()}
        yield OpenedSource(source=source, dialect="openai_chat", last_fields=lambda: fields)

    async def read() -> None:
        written.append(await follow(log, "a", "anthropic"))

    async def make() -> None:
        async with log.produce("a", opened):
            await wait_for_reads(log, "a", 3)
            tasks.start_soon(read)
            source.open()

    async with anyio.create_task_group() as tasks:
        with pytest.raises(ExceptionGroup):
            await make()
    assert (await log.status("a")).state == "truncated"
    assert written[0] == await follow(log, "a", "anthropic")
    assert await produce(log, "b", CHAT) == "complete"


async def test_readers_of_a_store_that_fails_in_a_way_of_its_own() -> None:
    class DamagedStore(GatedStore):
        is_damaged = False

        async def aappend(self, appends: Sequence[Append]) -> list[bool | StoreError]:
            if self.is_damaged:
                raise RuntimeError
            return await super().aappend(appends)

    store = DamagedStore()
    log, source = Log(store), GatedSource(CHAT[:2], CHAT[2:])
    written: list[bytes] = []

    async def read() -> None:
        written.append(await follow(log, "a", "anthropic"))

    async def make() -> None:
        async with log.produce("a", source):
            await wait_for_reads(log, "a", 3)
            tasks.start_soon(read)
            await anyio.sleep(0.02)
            store.is_damaged = True
            source.open()

    async with anyio.create_task_group() as tasks:
        with pytest.raises(ExceptionGroup):
            await make()
    assert b'"text":"b"' in written[0]
    store.is_damaged = False
    assert await produce(log, "b", CHAT) == "complete"


async def test_end_by_another_process_that_is_read_too_late(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A producer that is stopped meanwhile leaves as it was told to, and its readers get an end."""

    class LateStore(MemoryLogStore):
        has_lapsed = False

        async def aappend(self, appends: Sequence[Append]) -> list[bool | StoreError]:
            return [False] if self.has_lapsed else await super().aappend(appends)

        async def aread(
            self, scope: str, id: str, after: int, max_bytes: int, wait_s: float
        ) -> Reading | None:
            if self.has_lapsed:
                await anyio.sleep_forever()
            return await super().aread(scope, id, after, max_bytes, wait_s)

    monkeypatch.setattr(producing, "_END_S", 0.05)
    store = LateStore(ttl_s=100)
    log, source = Log(store), GatedSource(CHAT[:2], CHAT[2:])
    written: list[bytes] = []

    async def read() -> None:
        written.append(await follow(log, "a", "anthropic"))

    async with anyio.create_task_group() as readers:
        with anyio.CancelScope() as scope:
            async with log.produce("a", source):
                await wait_for_reads(log, "a", 3)
                readers.start_soon(read)
                await anyio.sleep(0.02)
                store.has_lapsed = True
                source.open()
                await anyio.sleep(0.05)
                scope.cancel()
        assert scope.cancelled_caught
    assert b"its producer was silent for too long" in written[0]
    assert b"message_stop" not in written[0]


async def test_stream_that_its_store_has_lost_is_broken_and_not_replaced() -> None:
    class LosingStore(MemoryLogStore):
        has_lost = False

        async def aappend(self, appends: Sequence[Append]) -> list[bool | StoreError]:
            return [False] if self.has_lost else await super().aappend(appends)

        async def aread(
            self, scope: str, id: str, after: int, max_bytes: int, wait_s: float
        ) -> Reading | None:
            if self.has_lost:
                return None
            return await super().aread(scope, id, after, max_bytes, wait_s)

    store = LosingStore(ttl_s=100)
    log, source = Log(store), GatedSource(CHAT[:2], CHAT[2:])
    with anyio.fail_after(20):
        async with log.produce("a", source) as run:
            await wait_for_reads(log, "a", 2)
            store.has_lost = True
            source.open()
            await run.wait()
    assert (run.tail.is_broken, run.tail.is_replaced) == (True, False)


async def test_answer_of_the_store_that_comes_again_publishes_nothing_again() -> None:
    log, source = Log(GatedStore()), GatedSource(CHAT[:2], CHAT[2:])
    async with log.produce("a", source) as run:
        await wait_for_reads(log, "a", 2)
        async with await log.follow("a", to="openai_chat") as stream:
            run._appender.handle(True)  # pyright: ignore[reportPrivateUsage]
            source.open()
            written = b"".join([data async for data in stream])
        assert await run.wait() == "complete"
    assert written.count(b"data: {") == sum(read.count(b"data: {") for read in CHAT)
