"""Streams that are produced, followed, cancelled and lost, in stores of all kinds."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
import httpx
import pytest
from support.log.streams import (
    GatedSource,
    follow,
    ids_in,
    produce,
    source_of,
    wait_for_reads,
)
from support.state.stores import Clock
from support.streams.short import STREAMS

from streamnorm import (
    Completed,
    Failed,
    StreamError,
    TextDelta,
    Truncated,
    TruncatedStream,
    UpstreamError,
)
from streamnorm.aio.sources import AsyncReader
from streamnorm.aio.stream import Stream
from streamnorm.aio.transcoding import TapPump
from streamnorm.log import Log, LogError, LogStore, OpenedSource, StreamStatus
from streamnorm.log.producing import ObservedSource
from streamnorm.testing import FakeProvider

pytestmark = pytest.mark.anyio

CHAT = STREAMS["openai_chat"]


async def test_stream_is_read_as_often_as_one_likes(log: Log) -> None:
    assert await produce(log, "a", CHAT) == "complete"
    for _ in range(2):
        async with await log.follow("a") as stream:
            texts = [event.text async for event in stream if isinstance(event, TextDelta)]
        assert texts == ["a", "b"]
        assert isinstance(stream.outcome, Completed)
    written = await follow(log, "a", "anthropic")
    assert written.count(b'"type":"text_delta"') == 2
    status = await log.status("a")
    assert (status.state, status.reads) == ("complete", len(CHAT) + 1)
    assert status.size > len(b"".join(CHAT))
    assert status.usage is not None
    assert (status.usage.input_tokens, status.usage.output_tokens) == (9, 4)


async def test_own_dialect_passes_unchanged_but_for_ids(log: Log) -> None:
    await produce(log, "a", CHAT)
    written = await follow(log, "a", "openai_chat")
    ids = ids_in(written)
    assert len(ids) == len(CHAT)
    for id in ids:
        written = written.replace(b"id: %b\n" % id.encode(), b"")
    assert written == b"".join(CHAT)


async def test_live_reader_gets_each_event_as_it_comes(log: Log) -> None:
    source = GatedSource(CHAT[:3], CHAT[3:])
    async with log.produce("a", source) as run:
        async with await log.follow("a", to="anthropic") as stream:
            written = b""
            while b'"text":"a"' not in written:
                written += await anext(stream)
            assert (await log.status("a")).state == "running"
            source.open()
            written += b"".join([data async for data in stream])
        assert await run.wait() == "complete"
    assert written == await follow(log, "a", "anthropic")


async def test_reader_of_another_process_gets_each_event_as_it_comes(store: LogStore) -> None:
    source = GatedSource(CHAT[:3], CHAT[3:])
    async with (
        Log(store).produce("a", source),
        await Log(store).follow("a", to="anthropic") as stream,
    ):
        written = b""
        while b'"text":"a"' not in written:
            written += await anext(stream)
        source.open()
        written += b"".join([data async for data in stream])
    assert written == await follow(Log(store), "a", "anthropic")


async def test_readers_that_leave_end_nothing(log: Log) -> None:
    source = GatedSource(CHAT[:3], CHAT[3:])
    async with log.produce("a", source) as run:
        async with await log.follow("a", to="anthropic") as stream:
            await anext(stream)
        source.open()
        assert await run.wait() == "complete"


async def test_cursor_continues_exactly_there(log: Log) -> None:
    await produce(log, "a", CHAT)
    whole = await follow(log, "a", "anthropic")
    ids = ids_in(whole)
    assert len(ids) == len(set(ids)) > 5
    for id in ids:
        end = whole.index(b"\n\n", whole.index(b"id: %b\n" % id.encode())) + 2
        assert await follow(log, "a", "anthropic", after=id) == whole[end:]


async def test_cursor_of_events(log: Log) -> None:
    await produce(log, "a", [b"".join(CHAT[:2]), b"".join(CHAT[2:])])
    async with await log.follow("a") as stream:
        assert stream.cursor == ""
        events = [(event, stream.cursor) async for event in stream]
    for number, (_, cursor) in enumerate(events):
        async with await log.follow("a", after=cursor) as rest:
            assert [event async for event in rest] == [event for event, _ in events[number + 1 :]]


async def test_cursor_behind_all_bytes_gives_none(log: Log) -> None:
    await produce(log, "a", CHAT)
    *_, last = ids_in(await follow(log, "a", "anthropic"))
    async with await log.follow("a", to="anthropic", after=last) as stream:
        assert [data async for data in stream] == []
    assert isinstance(stream.outcome, Completed)


@pytest.mark.parametrize(
    ("cursor", "code", "status"),
    [
        ("x", "bad_cursor", 400),
        ("{epoch}-{tag}", "bad_cursor", 400),
        ("{epoch}-{tag}.1.2.3", "bad_cursor", 400),
        ("{epoch}-{tag}.-1", "bad_cursor", 400),
        ("{epoch}-{tag}.1 ", "bad_cursor", 400),
        ("{epoch}-{tag}.99", "bad_cursor", 400),
        ("00ff-{tag}.2", "bad_cursor", 400),
        ("{epoch}-00000000.2", "other_bytes", 409),
    ],
)
async def test_wrong_cursor_is_refused(log: Log, cursor: str, code: str, status: int) -> None:
    await produce(log, "a", CHAT)
    epoch, tag = ids_in(await follow(log, "a", "gemini"))[0].partition(".")[0].split("-")
    with pytest.raises(LogError) as caught:
        await log.follow("a", to="gemini", after=cursor.format(epoch=epoch, tag=tag))
    assert (caught.value.code, caught.value.status) == (code, status)


async def test_cursor_of_an_event_that_is_not_there(log: Log) -> None:
    await produce(log, "a", CHAT)
    last = ids_in(await follow(log, "a", "gemini"))[0]
    with pytest.raises(LogError, match="names no place"):
        await follow(log, "a", "gemini", after=f"{last}.7")


@pytest.mark.parametrize(
    "options", [{"to": "gemini"}, {"model": "other"}, {"reasoning": None}, {"verbatim": False}]
)
async def test_cursor_of_other_bytes_is_refused(log: Log, options: dict[str, object]) -> None:
    await produce(log, "a", CHAT)
    last = ids_in(await follow(log, "a", "anthropic"))[-1]
    with pytest.raises(LogError, match="only the whole stream"):
        await follow(log, "a", **{"to": "anthropic", **options}, after=last)  # type: ignore[arg-type]
    # What a reader only watches changes no byte.
    assert await follow(log, "a", "anthropic", after=last, on_loss=print) == b""


async def test_unknown_id(log: Log) -> None:
    with pytest.raises(LogError) as caught:
        await log.follow("a", to="anthropic")
    assert (caught.value.code, caught.value.status) == ("unknown", 404)
    assert await log.status("a") == StreamStatus("unknown")
    assert not await log.cancel("a")


async def test_expired_id(log: Log, clock: Clock) -> None:
    async with log.produce("a", GatedSource(CHAT)) as run:
        assert await run.wait() == "complete"
    clock.now += 101
    assert run.has_ended  # and is still held
    with pytest.raises(LogError) as caught:
        await log.follow("a", to="anthropic")
    assert (caught.value.code, caught.value.status) == ("expired", 410)
    assert await log.status("a") == StreamStatus("expired")


async def test_scopes_share_nothing(log: Log) -> None:
    await produce(log, "a", CHAT, scope="one")
    assert (await log.status("a", scope="two")).state == "unknown"
    with pytest.raises(LogError, match="no stream"):
        await follow(log, "a", "anthropic", scope="two")
    assert not await log.cancel("a", scope="two")
    assert await follow(log, "a", "anthropic", scope="one")


async def test_source_is_read_as_it_came(store: LogStore) -> None:
    source = GatedSource(CHAT[:2], [CHAT[2], b"".join(CHAT[3:])])
    async with Log(store).produce("a", source, dialect="openai_chat") as run:
        readers = [await Log(store).open_reader("a") for _ in range(2)]
        assert readers[0].origin.dialect == "openai_chat"
        reads = [[(await reader.read(), reader.gap_ms) for _ in range(2)] for reader in readers]
        assert readers[0].ending is None
        await anyio.sleep(0.05)
        source.open()
        assert await run.wait() == "complete"
    readers.append(await Log(store).open_reader("a"))
    reads.append([])
    for reader, found in zip(readers, reads, strict=True):
        found += [(await reader.read(), reader.gap_ms) for _ in range(4 - len(found))]
        with pytest.raises(StopAsyncIteration):
            await reader.read()
        assert [data for data, _ in found] == [*CHAT[:3], b"".join(CHAT[3:])]
        gaps_ms = [gap_ms for _, gap_ms in found]
        assert 50 <= gaps_ms[2] <= sum(gaps_ms) < 60_000
        assert reader.ending is not None
        assert reader.ending.state == "complete"
    assert reads[0] == reads[1] == reads[2]


async def test_source_of_a_stream_that_is_not_there(log: Log) -> None:
    with pytest.raises(LogError, match="no stream has this id"):
        await log.open_reader("a")


# One producer an id


async def test_second_request_joins_the_first(log: Log) -> None:
    opened: list[int] = []

    @asynccontextmanager
    async def open_source() -> AsyncGenerator[GatedSource]:
        opened.append(1)
        yield source

    source = GatedSource(CHAT[:3], CHAT[3:])
    async with (
        log.produce("a", open_source, fingerprint=b"x") as one,
        log.produce("a", open_source, fingerprint=b"x") as two,
    ):
        assert (one.is_new, two.is_new) == (True, False)
        source.open()
        assert (await one.wait(), await two.wait()) == ("complete", "complete")
    async with log.produce("a", open_source, fingerprint=b"x") as three:
        assert (three.is_new, await three.wait()) == (False, "complete")
    assert opened == [1]


async def test_another_request_under_the_same_id_is_refused(log: Log) -> None:
    await produce(log, "a", CHAT, fingerprint=b"x")
    source = GatedSource(CHAT)
    with pytest.raises(LogError) as caught:
        async with log.produce("a", source, fingerprint=b"y"):
            raise AssertionError
    assert (caught.value.code, caught.value.status) == ("conflict", 409)
    assert source.is_closed


async def test_source_that_is_not_needed_is_closed(log: Log) -> None:
    await produce(log, "a", CHAT)
    source = GatedSource(CHAT)
    async with log.produce("a", source) as run:
        assert source.is_closed
        assert await run.wait() == "complete"


async def test_refusal_frees_the_id(log: Log) -> None:
    fake = FakeProvider([StreamError("upstream", "slow", status_hint=429), "It snows."])
    url = "https://api.openai.com/v1/chat/completions"
    body = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "stream": True}
    async with httpx.AsyncClient(transport=fake.transport("httpx")) as client:
        with pytest.raises(UpstreamError) as caught:
            async with log.produce("a", lambda: client.stream("POST", url, json=body)):
                pass
        assert caught.value.status == 429
        assert (await log.status("a")).state == "unknown"
        async with log.produce("a", lambda: client.stream("POST", url, json=body)) as run:
            assert await run.wait() == "complete"


async def test_source_that_cannot_be_opened_frees_the_id(log: Log) -> None:
    @asynccontextmanager
    async def open_source() -> AsyncGenerator[GatedSource]:
        raise ConnectionRefusedError
        yield

    async def read_nothing() -> None:
        async with log.produce("a", open_source) as run:
            with pytest.raises(ConnectionRefusedError):
                await run.wait()
            with pytest.raises(TruncatedStream, match="could not be reached"):
                await follow(log, "a", "anthropic")

    with pytest.raises(ConnectionRefusedError):
        await read_nothing()
    assert (await log.status("a")).state == "unknown"


# Ends


async def test_end_is_never_stored_behind_a_complete_stream(
    store: LogStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who dies between the two would leave one that is complete and truncated."""
    monkeypatch.setattr(store, "aend", None)
    assert await produce(Log(store), "a", CHAT) == "complete"
    assert (await Log(store).status("a")).state == "complete"


async def test_broken_source(log: Log) -> None:
    async def broken() -> AsyncGenerator[bytes]:
        yield CHAT[0]
        yield CHAT[2]
        raise TimeoutError

    async with log.produce("a", broken()) as run:
        assert await run.wait() == "truncated"
    async with await log.follow("a", errors="yield") as stream:
        *_, last = [event async for event in stream]
    assert isinstance(last, StreamError)
    assert last.kind == "stalled"
    assert stream.outcome == Truncated(last)


async def test_source_without_an_end(log: Log) -> None:
    assert await produce(log, "a", CHAT[:2]) == "truncated"
    written = await follow(log, "a", "anthropic")
    assert b"event: error" in written.split(b"\n\n")[-2]


async def test_error_in_the_stream(log: Log) -> None:
    error = b'data: {"error": {"message": "overloaded", "code": "overloaded"}}\n\n'
    assert await produce(log, "a", [*CHAT[:3], error]) == "failed"
    async with await log.follow("a", to="anthropic") as stream:
        written = b"".join([data async for data in stream])
    assert isinstance(stream.outcome, Failed)
    assert b"overloaded" in written


async def test_server_that_leaves_the_connection_open(log: Log) -> None:
    source = GatedSource(CHAT)
    async with log.produce("a", source) as run:
        assert await run.wait() == "complete"
    assert source.is_closed


async def test_stream_is_bounded(store: LogStore) -> None:
    log = Log(store, max_bytes=1000)
    assert await produce(log, "a", [CHAT[0], *[CHAT[2]] * 100]) == "truncated"
    async with await log.follow("a", errors="yield") as stream:
        *_, last = [event async for event in stream]
    assert isinstance(last, StreamError)
    assert "the bound of 1000 bytes was reached" in last.message
    assert (await log.status("a")).size < 2000


@pytest.mark.parametrize("is_elsewhere", [False, True])
async def test_cancelled_stream(store: LogStore, is_elsewhere: bool) -> None:
    log = Log(store)
    source = GatedSource(CHAT[:3])
    async with log.produce("a", source) as run:
        async with await log.follow("a") as stream:
            await anext(stream)
        with anyio.fail_after(5):
            assert await (Log(store) if is_elsewhere else log).cancel("a")
            assert await run.wait() == "cancelled"
    assert source.is_closed
    assert (await log.status("a")).state == "cancelled"
    assert not await log.cancel("a")
    with pytest.raises(TruncatedStream, match="the stream was cancelled"):
        async with await log.follow("a") as stream:
            assert [event async for event in stream]


async def test_follower_knows_at_the_end_that_the_stream_was_cancelled(log: Log) -> None:
    async with (
        log.produce("a", GatedSource(CHAT[:3])) as run,
        await log.follow("a", to="anthropic") as stream,
    ):
        await anext(stream)
        assert not stream.is_cancelled
        assert await log.cancel("a")
        assert await run.wait() == "cancelled"
        async for _ in stream:
            pass
        assert stream.is_cancelled


async def test_cancelled_stream_whose_source_does_not_stop(store: LogStore) -> None:
    gate = anyio.Event()

    async def source() -> AsyncGenerator[bytes]:
        for read in CHAT[:3]:
            yield read
        with anyio.CancelScope(shield=True):
            await gate.wait()
        yield CHAT[3]  # too late

    log = Log(store)
    async with log.produce("a", source()) as run:
        for each in (log, Log(store)):
            async with await each.follow("a", errors="yield") as stream:
                await anext(stream)
                if each is log:
                    assert await log.cancel("a")
                with anyio.fail_after(30):
                    *_, last = [event async for event in stream]
            assert isinstance(last, StreamError)
            assert "the stream was cancelled" in last.message
        gate.set()
        assert await run.wait() == "cancelled"
    assert (await log.status("a")).reads == 3 + 1


async def test_cancelled_stream_whose_source_fails_as_it_stops(log: Log) -> None:
    opens = anyio.Event()

    @asynccontextmanager
    async def open_source() -> AsyncGenerator[OpenedSource]:
        opens.set()
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            raise OSError from None
        yield OpenedSource(source=GatedSource([]))

    async def cancel() -> None:
        await opens.wait()
        assert await log.cancel("a")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(cancel)
        async with log.produce("a", open_source) as run:
            assert await run.wait() == "cancelled"


async def test_source_that_is_read_by_another_pump(log: Log) -> None:
    reader = AsyncReader(source_of(CHAT))
    pump = TapPump(reader, "openai_chat", lambda _: None, keep_message=False)
    observed = ObservedSource(Stream(pump, reader), pump, reader)

    @asynccontextmanager
    async def open_source() -> AsyncGenerator[OpenedSource]:
        yield OpenedSource(source=observed, dialect="openai_chat")

    async with log.produce("a", open_source) as run:
        assert await run.wait() == "complete"
    assert await follow(log, "a", "openai_chat")


async def test_cancelled_before_its_first_byte(log: Log) -> None:
    async with log.produce("a", GatedSource([])) as run:
        assert await log.cancel("a")
        assert await run.wait() == "cancelled"
    with pytest.raises(TruncatedStream, match="the stream was cancelled"):
        await follow(log, "a", "anthropic")


async def test_block_that_fails_ends_the_stream(log: Log) -> None:
    source = GatedSource(CHAT[:3])

    async def fail() -> None:
        async with log.produce("a", source), await log.follow("a") as stream:
            await anext(stream)
            raise KeyError

    with pytest.raises(KeyError):
        await fail()
    assert source.is_closed
    with pytest.raises(TruncatedStream, match="its producer was stopped"):
        async with await log.follow("a") as stream:
            assert [event async for event in stream]


async def test_cancelled_task_ends_the_stream(log: Log) -> None:
    with anyio.move_on_after(0.2):
        async with log.produce("a", GatedSource(CHAT[:3])):
            await anyio.sleep_forever()
    assert (await log.status("a")).state == "truncated"


# Producers that die


async def test_dead_producer_is_no_clean_end(store: LogStore, clock: Clock) -> None:
    log, source = Log(store, lease_s=60), GatedSource(CHAT[:3])
    written = b""
    async with anyio.create_task_group() as tasks, log.produce("a", source):
        other = Log(store)
        async with await other.follow("a", to="anthropic") as stream:
            written = await anext(stream)
            clock.now += 61
            written += b"".join([data async for data in stream])
        assert isinstance(stream.outcome, Truncated)
        assert b"its producer died" in written
        assert (await other.status("a")).state == "truncated"
        source.open()
        tasks.cancel_scope.cancel()
    # It was not dead: what it has since read is not the stream's any more.
    assert await follow(log, "a", "anthropic") == written


async def test_status_notices_a_dead_producer(store: LogStore, clock: Clock) -> None:
    async with Log(store, lease_s=60).produce("a", GatedSource(CHAT[:3])) as run:
        await wait_for_reads(Log(store), "a", 4)
        clock.now += 61
        assert (await Log(store).status("a")).state == "truncated"
        run.cancel()
        assert await run.wait() == "truncated"


async def test_silent_source_keeps_its_lease(store: LogStore) -> None:
    source = GatedSource(CHAT[:3], CHAT[3:])
    async with Log(store, lease_s=0.06).produce("a", source) as run:
        record = await store.aread("", "a", 0, 1, 0)
        assert record is not None
        for _ in range(10):
            await anyio.sleep(0.01)
        source.open()
        await run.wait()


async def test_readers_far_behind_read_the_store(log: Log) -> None:
    piece = b'data: {"id": "1", "choices": [{"index": 0, "delta": {"content": "%b"}}]}\n\n'
    reads = [piece % (b"x" * 10_000)] * 300
    source = GatedSource(reads, CHAT[3:])
    async with log.produce("a", source), await log.follow("a", to="openai_chat") as stream:
        first = await anext(stream)
        source.open()
        rest = [data async for data in stream]
    assert (first + b"".join(rest)).count(b"x" * 10_000) == 300
