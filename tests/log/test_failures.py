"""A log whose store fails, loses or damages what it has."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import anyio
import pytest
from msgspec import structs
from support.log.streams import GatedSource, follow, ids_in, source_of, wait_for_reads
from support.state.stores import Clock
from support.streams.short import STREAMS

from streamnorm import RemoteProtocolError, StreamError, Truncated
from streamnorm._core.source_failures import SourceStopped
from streamnorm.log import Log, LogError, committing
from streamnorm.log.memory import MemoryLogStore
from streamnorm.log.records import (
    Append,
    Ending,
    Reading,
    Record,
    pack,
)
from streamnorm.state import StoreError

pytestmark = pytest.mark.anyio

CHAT = STREAMS["openai_chat"]
PIECE = b'data: {"id": "1", "choices": [{"index": 0, "delta": {"content": "%b"}}]}\n\n'


@pytest.fixture
def anyio_backend() -> str:
    """Run on asyncio alone: no test here depends on it."""
    return "asyncio"


class FailingStore(MemoryLogStore):
    """A store that a test switches off.

    Attributes:
        is_down: Whether each method fails.
        is_away: Whether reads fail.
        failed_reads: How many did for that.
    """

    def __init__(self) -> None:
        super().__init__(ttl_s=100)
        self.is_down = False
        self.is_away = False
        self.failed_reads = 0

    def forget_reads(self, id: str) -> None:
        """Lose all reads of a stream but the last that were stored."""
        del self._streams["", id].chunks[:-1]

    def lose_last_reads(self, id: str) -> None:
        """Lose what was stored last, as a server that is restarted may."""
        stream = self._streams["", id]
        *stream.chunks, last = stream.chunks
        stream.record = structs.replace(stream.record, count=last.first - 1)

    async def return_after(self, reads: int) -> None:
        """Be there again once so many reads have failed."""
        with anyio.fail_after(10):
            while self.failed_reads < reads:  # noqa: ASYNC110 - of other tasks
                await anyio.sleep(0.01)
        self.is_away = False

    def _fail(self) -> None:
        if self.is_down:
            raise StoreError("the store is down")

    async def aclaim(
        self, scope: str, id: str, record: Record, *, replaces: bool = False
    ) -> tuple[Record, bool]:
        self._fail()
        return await super().aclaim(scope, id, record, replaces=replaces)

    async def aappend(self, appends: Sequence[Append]) -> list[bool | StoreError]:
        self._fail()
        return await super().aappend(appends)

    async def acancelled(self) -> set[str]:
        self._fail()
        return await super().acancelled()

    async def aread(
        self, scope: str, id: str, after: int, max_bytes: int, wait_s: float
    ) -> Reading | None:
        self._fail()
        if self.is_away:
            self.failed_reads += 1
            raise StoreError("the store is away")
        return await super().aread(scope, id, after, max_bytes, wait_s)


class EndlessSource(GatedSource):
    """A source that sends no more once it has sent all."""

    async def _iterate(self) -> AsyncIterator[bytes]:
        async for read in super()._iterate():
            yield read
        await anyio.sleep_forever()


@pytest.fixture(autouse=True)
def impatience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let producers give up a store that fails at once, unless a test says otherwise."""
    monkeypatch.setattr(committing, "_RETRIES_S", 0.0)


@pytest.fixture
def store() -> FailingStore:
    """Provide a store that works until a test switches it off."""
    return FailingStore()


async def test_required_store_fails_before_the_provider_is_asked(store: FailingStore) -> None:
    store.is_down = True

    def open_source() -> GatedSource:
        raise AssertionError

    with pytest.raises(StoreError, match="is down"):
        async with Log(store).produce("a", open_source):  # type: ignore[arg-type]
            raise AssertionError


async def test_best_effort_goes_on_for_readers_of_this_process(store: FailingStore) -> None:
    store.is_down = True
    log, source = Log(store), GatedSource(CHAT[:3], CHAT[3:])
    async with log.produce("a", source, mode="best_effort") as run:
        async with await log.follow("a", to="anthropic") as stream:
            source.open()
            written = b"".join([data async for data in stream])
        assert "not_stored" in [note.kind for note in stream.notes]
        assert await run.wait() == "complete"
    assert written.count(b'"type":"text_delta"') == 2
    assert ids_in(written) == []
    with pytest.raises(StoreError, match="is down"):
        await log.status("a")


async def test_store_that_is_away_for_a_moment_loses_nothing(
    store: FailingStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(committing, "_RETRIES_S", 10.0)
    log, source = Log(store), GatedSource(CHAT[:3], CHAT[3:])
    async with log.produce("a", source) as run:
        async with await log.follow("a", to="anthropic") as stream:
            written = await anext(stream)
            store.is_down = True
            source.open()
            await anyio.sleep(0.25)
            store.is_down = False
            written += b"".join([data async for data in stream])
        assert await run.wait() == "complete"
    assert written.count(b"\n\n") == len(ids_in(written))
    assert written == await follow(Log(store), "a", "anthropic")
    assert (await log.status("a")).state == "complete"


@pytest.mark.parametrize("is_lost", [False, True])
async def test_same_request_joins_a_stream_that_the_store_does_not_have(
    store: FailingStore, is_lost: bool
) -> None:
    log, source = Log(store), GatedSource(CHAT[:3], CHAT[3:])

    def never() -> GatedSource:
        raise AssertionError

    async with log.produce("a", source, fingerprint=b"1", mode="best_effort") as run:
        await wait_for_reads(log, "a", 2)
        store.is_down = not is_lost
        store._streams.clear()
        with pytest.raises(LogError, match="another request"):
            async with log.produce("a", never, fingerprint=b"2", mode="best_effort"):  # type: ignore[arg-type]
                raise AssertionError
        async with log.produce("a", never, fingerprint=b"1", mode="best_effort") as joined:  # type: ignore[arg-type]
            assert not joined.is_new
            source.open()
            assert await joined.wait() == "complete"
        assert await run.wait() == "complete"


async def test_source_that_cannot_be_opened_without_a_store(store: FailingStore) -> None:
    @asynccontextmanager
    async def opened() -> AsyncIterator[GatedSource]:
        raise ConnectionError("nobody is there")
        yield GatedSource([])

    store.is_down = True
    with pytest.raises(ConnectionError, match="nobody is there"):
        async with Log(store).produce("a", opened, mode="best_effort"):
            pass


@pytest.mark.parametrize("source", [CHAT[:3], CHAT])
async def test_store_that_fails_later_stops_no_reader(
    store: FailingStore, source: list[bytes]
) -> None:
    log, gated = Log(store), GatedSource(source[:3], CHAT[3:])
    async with log.produce("a", gated) as run:
        async with await log.follow("a", to="anthropic") as stream:
            written = await anext(stream)
            assert ids_in(written)
            store.is_down = True
            await anyio.sleep(0.15)  # cancelled streams were asked for meanwhile
            gated.open()
            rest = b"".join([data async for data in stream])
        assert await run.wait() == "complete"
    assert b"message_stop" in rest
    store.is_down = False
    # For others the producer has died; that is found when its lease has lapsed.
    assert (await log.status("a")).state == "running"


async def test_who_joins_a_broken_stream_mends_nothing(store: FailingStore) -> None:
    log, source = Log(store), GatedSource(CHAT[:2], CHAT[2:])
    async with log.produce("a", source) as run:
        await wait_for_reads(log, "a", 3)
        run.tail.is_broken = True
        async with log.produce("a", GatedSource([])) as joined:
            assert joined.tail.is_broken
            source.open()


async def test_store_that_fails_at_the_end_stops_no_reader(store: FailingStore) -> None:
    async def source() -> AsyncIterator[bytes]:
        yield CHAT[1]
        await wait_for_reads(Log(store), "a", 2)
        store.is_down = True

    log = Log(store)
    async with log.produce("a", source()) as run:
        async with await log.follow("a", to="anthropic") as stream:
            written = b"".join([data async for data in stream])
        assert await run.wait() == "truncated"
    assert b"event: error" in written


class TakenStore(FailingStore):
    """A store in which others end or replace each stream before its producer does.

    Args:
        epoch: Epoch of the stream that they leave.
        ending: Its end.
    """

    def __init__(self, epoch: str | None, ending: bytes | None) -> None:
        super().__init__()
        self._left = epoch, ending

    async def aappend(self, appends: Sequence[Append]) -> list[bool | StoreError]:
        [append] = appends
        if append.ending is None:
            return await super().aappend(appends)
        self._streams[append.scope, append.id].record = Record(
            self._left[0] or append.epoch,
            b"",
            append.chunk.first - 1,
            0,
            False,
            self._left[1],
            append.lease_s,
        )
        self.is_down = self._left[1] is None
        return [False]


@pytest.mark.parametrize(
    ("epoch", "ending", "reason"),
    [
        (None, pack(Ending("truncated", "lost", "its producer died")), b"its producer died"),
        (None, None, b"its producer was silent for too long"),
        ("other", pack(Ending("complete", "eof")), b"its producer was silent for too long"),
    ],
)
async def test_producer_that_others_took_for_dead(
    epoch: str | None, ending: bytes | None, reason: bytes
) -> None:
    """What it read since is given to nobody, and its stream is not complete."""
    log, source = Log(TakenStore(epoch, ending)), GatedSource(CHAT[:2], CHAT[2:])
    async with log.produce("a", source) as run:
        async with await log.follow("a", to="anthropic") as stream:
            await anext(stream)
            source.open()
            written = b"".join([data async for data in stream])
        assert await run.wait() == "truncated"
    assert reason in written
    assert b"message_stop" not in written
    # Where the end is not the one that is stored, nobody could continue behind it.
    assert bool(ids_in(written)) == (ending is not None and epoch is None)


async def test_store_that_loses_the_stream_stops_no_reader(store: FailingStore) -> None:
    log, source = Log(store), GatedSource(CHAT[:2], CHAT[2:])
    async with log.produce("a", source) as run:
        async with await log.follow("a", to="anthropic") as stream:
            written = await anext(stream)
            store._streams.clear()
            source.open()
            rest = b"".join([data async for data in stream])
        assert await run.wait() == "complete"
    assert b"message_stop" in rest
    assert ids_in(written)
    assert not ids_in(rest)


async def test_store_that_loses_the_last_reads(store: FailingStore) -> None:
    """For readers elsewhere the stream ends as truncated, and has no cursor there."""
    log, source = Log(store, lease_s=2), GatedSource(CHAT[:3], CHAT[3:])
    async with log.produce("a", source) as run:
        async with await Log(store).follow("a", to="anthropic") as stream:
            written = b""
            while b'"text":"b"' not in written:
                written += await anext(stream)
            store.lose_last_reads("a")
            source.open()
            rest = b"".join([data async for data in stream])
        assert await run.wait() == "complete"
    assert b"its producer died" in rest
    assert not ids_in(rest)


async def test_store_that_is_late_when_the_producer_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its readers get the end all the same."""
    monkeypatch.setattr(committing, "_RETRIES_S", 10.0)

    class LateStore(FailingStore):
        async def aappend(self, appends: Sequence[Append]) -> list[bool | StoreError]:
            if self.is_down:
                await anyio.sleep_forever()
            return await super().aappend(appends)

    store = LateStore()
    log, source = Log(store), EndlessSource(CHAT[:2], CHAT[2:3])
    written: list[bytes] = []

    async def read() -> None:
        async with await log.follow("a", to="anthropic") as stream:
            written.extend([data async for data in stream])

    async with anyio.create_task_group() as readers:
        with anyio.CancelScope() as scope:
            async with log.produce("a", source):
                readers.start_soon(read)
                await wait_for_reads(log, "a", 2)
                store.is_down = True
                source.open()
                await anyio.sleep(0.05)
                scope.cancel()
    body = b"".join(written)
    # What was read meanwhile comes, too, without a cursor.
    assert b'"text":"b"' in body
    assert b"its producer was stopped" in body


async def test_append_that_is_cancelled_on_its_way_is_stored_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(committing, "_RETRIES_S", 10.0)

    class DistantStore(FailingStore):
        """A store whose answer comes too late for a producer that is stopped."""

        async def aappend(self, appends: Sequence[Append]) -> list[bool | StoreError]:
            stored = await super().aappend(appends)
            if self.is_distant:
                self.is_distant = False
                await anyio.sleep_forever()
            return stored

        is_distant = False

    store = DistantStore()
    log, source = Log(store), EndlessSource(CHAT[:2], CHAT[2:3])
    written: list[bytes] = []

    async def read() -> None:
        async with await log.follow("a", to="anthropic") as stream:
            written.extend([data async for data in stream])

    async with anyio.create_task_group() as readers:
        with anyio.CancelScope() as scope:
            async with log.produce("a", source):
                readers.start_soon(read)
                await wait_for_reads(log, "a", 2)
                store.is_distant = True
                source.open()
                await wait_for_reads(log, "a", 4)
                scope.cancel()
    assert b'"text":"b"' in b"".join(written)
    assert b"".join(written) == await follow(Log(store), "a", "anthropic")


async def test_readers_elsewhere_read_the_store_once(store: FailingStore) -> None:
    log, other = Log(store), Log(store)
    source = GatedSource([*CHAT[:1], PIECE % (b"x" * 700_000), CHAT[1]], CHAT[2:])
    texts: list[bytes] = []

    async def read() -> None:
        texts.append(await follow(other, "a", "anthropic"))

    async with log.produce("a", source), anyio.create_task_group() as tasks:
        for _ in range(4):
            tasks.start_soon(read)
        await anyio.sleep(0.05)
        source.open()
    assert len(texts) == 4
    assert len(set(texts)) == 1


async def test_reader_elsewhere_of_a_store_that_is_away_for_some_time(
    store: FailingStore,
) -> None:
    """Readers get their events a little later, as long as the producer's lease may hold."""
    source = GatedSource(CHAT[:2], CHAT[2:])
    async with (
        Log(store).produce("a", source),
        await Log(store).follow("a", to="anthropic") as stream,
    ):
        written = await anext(stream)
        store.is_away = True
        source.open()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(store.return_after, 3)
            written += b"".join([data async for data in stream])
    assert b"message_stop" in written
    assert written == await follow(Log(store), "a", "anthropic")


async def test_readers_of_a_store_that_is_late_fail_at_once() -> None:
    """Not one after the other, each when the store was late again."""

    class LateStore(FailingStore):
        asked = 0

        async def aread(
            self, scope: str, id: str, after: int, max_bytes: int, wait_s: float
        ) -> Reading | None:
            if self.is_down:
                self.asked += 1
                await anyio.sleep(0.05)
            return await super().aread(scope, id, after, max_bytes, wait_s)

    store = LateStore()
    other = Log(store)
    outcomes: list[object] = []

    async def read() -> None:
        async with await other.follow("a", errors="yield") as stream:
            async for _ in stream:
                pass
        outcomes.append(stream.outcome)

    async with Log(store, lease_s=0.3).produce("a", GatedSource(CHAT[:2])) as run:
        async with anyio.create_task_group() as readers:
            for _ in range(50):
                readers.start_soon(read)
            await anyio.sleep(0.1)
            store.is_down = True
        assert store.asked < 30
        run.cancel()
    assert len(outcomes) == 50
    assert all(isinstance(outcome, Truncated) for outcome in outcomes)


async def test_reader_elsewhere_of_a_store_that_fails(store: FailingStore) -> None:
    async with Log(store, lease_s=2).produce("a", GatedSource(CHAT[:2])) as run:
        async with await Log(store).follow("a", errors="yield") as stream:
            await anext(stream)
            await anext(stream)
            store.is_down = True
            *_, last = [event async for event in stream]
        assert isinstance(last, StreamError)
        assert stream.outcome == Truncated(last)
        run.cancel()


@pytest.mark.parametrize("error", [ConnectionResetError(), RemoteProtocolError("bad gzip"), None])
async def test_later_readers_are_told_what_the_source_raised(
    store: FailingStore, error: Exception | None
) -> None:
    class Stopped(SourceStopped):
        reason = "the server stops"

    async def broken() -> AsyncIterator[bytes]:
        yield CHAT[1]
        raise error or Stopped

    log = Log(store)
    async with log.produce("a", broken()) as run:
        async with await log.follow("a", to="anthropic") as stream:
            live = b"".join([data async for data in stream])
        is_damaged = isinstance(error, RemoteProtocolError)
        assert await run.wait() == ("failed" if is_damaged else "truncated")
    assert await follow(log, "a", "anthropic") == live
    said = b"connection lost after 1 event" if isinstance(error, OSError) else b"bad gzip"
    assert (said if error else b"the server stops") in live


@pytest.mark.parametrize("is_elsewhere", [False, True])
async def test_reader_behind_the_tail_reads_the_store(
    store: FailingStore, is_elsewhere: bool
) -> None:
    log = Log(store)
    source = source_of([PIECE % (b"x" * 10_000)] * 300 + CHAT[3:])
    async with log.produce("a", source) as run:
        await run.wait()
        written = await follow(Log(store) if is_elsewhere else log, "a", "openai_chat")
        assert written.count(b"x" * 10_000) == 300


@pytest.mark.parametrize("is_elsewhere", [False, True])
async def test_reads_that_a_store_has_lost(store: FailingStore, is_elsewhere: bool) -> None:
    log = Log(store)
    source = GatedSource([PIECE % (b"x" * 10_000)] * 300, CHAT[3:])
    async with log.produce("a", source) as run:
        await wait_for_reads(log, "a", 301)  # those behind them are stored by themselves
        source.open()
        await run.wait()
        store.forget_reads("a")
        reader = Log(store) if is_elsewhere else log
        with pytest.raises(LogError, match="no longer has the stream"):
            await reader.follow("a")


async def test_all_reads_are_lost_but_not_their_number(store: FailingStore) -> None:
    """As in a server that evicts keys when its memory is full."""
    log = Log(store)
    async with log.produce("a", GatedSource(CHAT)) as run:
        await run.wait()
        store._streams["", "a"].chunks.clear()
        with anyio.fail_after(5), pytest.raises(LogError, match="no longer has the stream"):
            await Log(store).follow("a")


async def test_stream_that_expires_while_it_is_read() -> None:
    clock = Clock()
    store = MemoryLogStore(ttl_s=100, clock=clock)
    async with Log(store).produce("a", GatedSource(CHAT[:2])) as run:
        async with await Log(store).follow("a", errors="yield") as stream:
            await anext(stream)
            await anext(stream)
            clock.now += 101
            *_, last = [event async for event in stream]
        assert isinstance(last, StreamError)
        run.cancel()
        assert await run.wait() == "cancelled"


class LapsedStore(FailingStore):
    """A store in which another process has ended the stream, and that then fails."""

    async def aappend(self, appends: Sequence[Append]) -> list[bool | StoreError]:
        self.is_down = True
        return [False]


async def test_end_by_another_process_that_cannot_be_read() -> None:
    log = Log(LapsedStore())
    async with log.produce("a", source_of(CHAT)) as run:
        with anyio.fail_after(30):
            assert await run.wait() == "truncated"
    assert run.tail.is_broken
