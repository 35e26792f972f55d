"""What all stores of streams do alike."""

from __future__ import annotations

import anyio
import pytest
from msgspec import structs
from support.log.streams import append
from support.state.stores import Clock

from streamnorm.log import LogStore
from streamnorm.log.records import NO_READS, Chunk, Record
from streamnorm.state import StoreError

pytestmark = pytest.mark.anyio

KEY = "scope", "id"
LEASE_S = 5.0
CLAIM = Record("e1", b"print", 0, 0, False, None, LEASE_S)
ODD = ["", "\0", "a\0", "\ud800", "é", "a" * 10_000, "'; --", "%", "1"]


def fresh(record: Record) -> Record:
    """Return a record as it was claimed, since time passes by the clock of a server."""
    return structs.replace(record, lease_s=LEASE_S)


async def count_of(store: LogStore, scope: str, id: str) -> int | None:
    """Return how many reads are stored of an id; None if it is unknown."""
    reading = await store.aread(scope, id, NO_READS, 1, 0)
    return None if reading is None else reading.record.count


async def reads_behind(store: LogStore, after: int, max_bytes: int = 1000) -> list[Chunk]:
    """Return what is stored behind a position of `KEY`."""
    reading = await store.aread(*KEY, after, max_bytes, 0)
    assert reading is not None
    return reading.chunks


async def test_epoch_is_found_as_it_was_claimed(store: LogStore) -> None:
    record, is_new = await store.aclaim(*KEY, CLAIM)
    assert (record, is_new) == (CLAIM, True)
    reading = await store.aread(*KEY, 0, 1000, 0)
    assert reading is not None
    assert LEASE_S / 2 < reading.record.lease_s <= LEASE_S
    assert (fresh(reading.record), reading.chunks) == (CLAIM, [])


async def test_second_claim_gets_the_first_epoch(store: LogStore) -> None:
    await store.aclaim(*KEY, CLAIM)
    other = Record("e2", b"other", 0, 0, False, None, 9.0)
    record, is_new = await store.aclaim(*KEY, other)
    assert (fresh(record), is_new) == (CLAIM, False)


async def test_odd_names_are_streams_of_their_own(store: LogStore) -> None:
    for scope in ODD:
        for id in ODD:
            assert await count_of(store, scope, id) is None
            assert (await store.aclaim(scope, id, CLAIM))[1]


async def test_reads_are_found_in_order_behind_any_position(store: LogStore) -> None:
    await store.aclaim(*KEY, CLAIM)
    chunks = [
        Chunk(1, [b"a", b"b"], [0, 0]),
        Chunk(3, [b""], [0]),
        Chunk(4, [b"c", b"d", b"e"], [0, 0, 0]),
    ]
    for chunk in chunks:
        assert await append(store, *KEY, "e1", chunk, LEASE_S)
    # A chunk is found whole, also one whose first reads are known.
    assert await reads_behind(store, 0) == chunks
    assert await reads_behind(store, 1) == chunks
    assert await reads_behind(store, 2) == chunks[1:]
    assert await reads_behind(store, 3) == chunks[2:]
    assert await reads_behind(store, 5) == chunks[2:]
    assert await reads_behind(store, 6) == []
    reading = await store.aread(*KEY, 6, 1, 0)
    assert reading is not None
    assert (reading.record.count, reading.record.size) == (6, 5)


async def test_as_many_bytes_are_returned_as_were_asked_for(store: LogStore) -> None:
    await store.aclaim(*KEY, CLAIM)
    for number in range(1, 9):
        await append(store, *KEY, "e1", Chunk(number, [b"x" * 100], [0]), LEASE_S)
    assert [chunk.first for chunk in await reads_behind(store, 0, max_bytes=350)] == [1, 2, 3]
    assert [chunk.first for chunk in await reads_behind(store, 3, max_bytes=1)] == [4]


async def test_another_epoch_stores_nothing(store: LogStore) -> None:
    await store.aclaim(*KEY, CLAIM)
    assert not await append(store, *KEY, "e2", Chunk(1, [b"a"], [0]), LEASE_S)
    assert not await store.aend(*KEY, "e2", b"end")
    await store.afree(*KEY, "e2")
    assert await count_of(store, *KEY) == 0


async def test_first_end_is_the_only_one(store: LogStore) -> None:
    await store.aclaim(*KEY, CLAIM)
    assert await append(store, *KEY, "e1", Chunk(1, [], []), LEASE_S, b"end")
    assert not await append(store, *KEY, "e1", Chunk(1, [], []), LEASE_S, b"another")
    assert not await store.aend(*KEY, "e1", b"another")
    assert not await append(store, *KEY, "e1", Chunk(1, [b"a"], [0]), LEASE_S)
    assert not await store.acancel(*KEY)
    record, is_new = await store.aclaim(*KEY, structs.replace(CLAIM, epoch="e2"))
    assert (record.ending, record.count, is_new) == (b"end", 0, False)


async def test_end_is_stored_with_the_last_reads(store: LogStore) -> None:
    await store.aclaim(*KEY, CLAIM)
    await store.acancel(*KEY)
    assert await append(store, *KEY, "e1", Chunk(1, [b"a"], [0]), LEASE_S, b"end")
    assert not await append(store, *KEY, "e1", Chunk(2, [b"b"], [0]), LEASE_S, b"another")
    reading = await store.aread(*KEY, 0, 1000, 60.0)
    assert reading is not None
    assert (reading.record.ending, reading.chunks) == (b"end", [Chunk(1, [b"a"], [0])])
    assert await store.acancelled() == set()


async def test_call_that_comes_again_changes_nothing(store: LogStore) -> None:
    """The answer to the first may have been lost with its connection."""
    assert (await store.aclaim(*KEY, CLAIM))[1]
    assert (await store.aclaim(*KEY, CLAIM))[1]
    for _ in range(2):
        assert await append(store, *KEY, "e1", Chunk(1, [b"a", b"b"], [0, 0]), LEASE_S)
    for _ in range(2):
        assert await append(store, *KEY, "e1", Chunk(3, [b"c"], [0]), LEASE_S, b"end")
    reading = await store.aread(*KEY, 0, 1000, 0)
    assert reading is not None
    assert [chunk.reads for chunk in reading.chunks] == [[b"a", b"b"], [b"c"]]
    assert (reading.record.count, reading.record.size) == (3, 3)
    assert not await append(store, *KEY, "e1", Chunk(4, [b"d"], [0]), LEASE_S, b"end")


async def test_reads_behind_lost_ones_are_refused(store: LogStore) -> None:
    """A server without persistence, or with the last second of writes lost, was restarted."""
    with pytest.raises(StoreError, match="has lost what was stored"):
        await append(store, *KEY, "e1", Chunk(1, [b"a"], [0]), LEASE_S)
    await store.aclaim(*KEY, CLAIM)
    await append(store, *KEY, "e1", Chunk(1, [b"a"], [0]), LEASE_S)
    for chunk in (Chunk(3, [b"c"], [0]), Chunk(3, [], [])):
        with pytest.raises(StoreError, match="has lost what was stored"):
            await append(store, *KEY, "e1", chunk, LEASE_S, b"end")
    reading = await store.aread(*KEY, 0, 1000, 0)
    assert reading is not None
    assert (reading.record.ending, len(reading.chunks)) == (None, 1)


async def test_claim_that_replaces(store: LogStore, clock: Clock) -> None:
    await store.aclaim(*KEY, CLAIM)
    await append(store, *KEY, "e1", Chunk(1, [b"a"], [0]), LEASE_S)
    await store.acancel(*KEY)
    same, other = (
        structs.replace(CLAIM, epoch="e2"),
        Record("e3", b"another", 0, 0, False, None, LEASE_S),
    )
    # The same request joins the one that runs, and another takes its place.
    record, is_new = await store.aclaim(*KEY, same, replaces=True)
    assert (record.epoch, is_new) == ("e1", False)
    record, is_new = await store.aclaim(*KEY, other, replaces=True)
    assert (record.epoch, record.count, is_new) == ("e3", 0, True)
    assert (await store.aclaim(*KEY, other, replaces=True))[1]  # that comes again
    assert await store.acancelled() == set()
    assert not await append(store, *KEY, "e1", Chunk(2, [b"b"], [0]), LEASE_S)
    assert await append(store, *KEY, "e3", Chunk(1, [b"c"], [0]), LEASE_S, b"end")
    reading = await store.aread(*KEY, 0, 1000, 0)
    assert reading is not None
    assert [chunk.reads for chunk in reading.chunks] == [[b"c"]]
    # One that has ended gives way to the same request, too, but to none that does not say so.
    again = structs.replace(other, epoch="e4")
    assert not (await store.aclaim(*KEY, again))[1]
    assert (await store.aclaim(*KEY, again, replaces=True))[1]


async def test_claim_that_replaces_one_epoch(store: LogStore, clock: Clock) -> None:
    await store.aclaim(*KEY, CLAIM)
    second, third = (structs.replace(CLAIM, epoch=epoch) for epoch in ("e2", "e3"))
    # It runs.
    record, is_new = await store.aclaim(*KEY, second, replaces="e1")
    assert (record.epoch, is_new) == ("e1", False)
    assert await append(store, *KEY, "e1", Chunk(1, [b"a"], [0]), LEASE_S, b"end")
    assert (await store.aclaim(*KEY, second, replaces="e1"))[1]
    assert (await store.aclaim(*KEY, second, replaces="e1"))[1]  # that comes again
    assert await append(store, *KEY, "e2", Chunk(1, [b"b"], [0]), LEASE_S, b"end")
    # The next one has ended, too, and so has one of another request.
    for other in (third, structs.replace(third, fingerprint=b"another")):
        record, is_new = await store.aclaim(*KEY, other, replaces="e1")
        assert (record.epoch, is_new) == ("e2", False)
    reading = await store.aread(*KEY, 0, 1000, 0)
    assert reading is not None
    assert [chunk.reads for chunk in reading.chunks] == [[b"b"]]


async def test_dead_is_who_was_silent_for_the_lease(store: LogStore, clock: Clock) -> None:
    await store.aclaim(*KEY, CLAIM)
    clock.now += LEASE_S * 0.6
    assert not await store.aend(*KEY, "e1", b"dead")
    assert await append(store, *KEY, "e1", Chunk(1, [], []), LEASE_S)
    clock.now += LEASE_S * 0.6
    assert not await store.aend(*KEY, "e1", b"dead")
    clock.now += LEASE_S * 0.5
    reading = await store.aread(*KEY, 0, 1, 0)
    assert reading is not None
    assert reading.record.lease_s < 0
    assert await store.aend(*KEY, "e1", b"dead")


async def test_stream_that_never_began_frees_its_id(store: LogStore) -> None:
    await store.aclaim(*KEY, CLAIM)
    await store.afree(*KEY, "e1")
    assert await count_of(store, *KEY) is None
    await store.aclaim(*KEY, CLAIM)
    await append(store, *KEY, "e1", Chunk(1, [b"a"], [0]), LEASE_S)
    await store.afree(*KEY, "e1")
    assert await count_of(store, *KEY) == 1


async def test_cancelled_are_those_that_run(store: LogStore) -> None:
    for id in ("a", "b", "c"):
        await store.aclaim("", id, Record(id, b"", 0, 0, False, None, LEASE_S))
    await append(store, "", "c", "c", Chunk(1, [], []), LEASE_S, b"end")
    assert await store.acancelled() == set()
    assert await store.acancel("", "a")
    assert await store.acancel("", "b")
    assert not await store.acancel("", "unknown")
    assert await store.acancelled() == {"a", "b"}
    await append(store, "", "a", "a", Chunk(1, [], []), LEASE_S, b"end")
    assert await store.acancelled() == {"b"}


async def test_stream_is_forgotten_and_later_its_id(store: LogStore, clock: Clock) -> None:
    await store.aclaim(*KEY, CLAIM)
    await append(store, *KEY, "e1", Chunk(1, [b"a"], [0]), LEASE_S)
    clock.now += 99
    await append(store, *KEY, "e1", Chunk(2, [b"b"], [0]), LEASE_S)  # a change
    clock.now += 99
    assert len(await reads_behind(store, 0)) == 2
    clock.now += 2
    await store.aclaim("", "other", CLAIM)
    reading = await store.aread(*KEY, 0, 1000, 0)
    assert reading is not None
    assert (reading.record.is_expired, reading.chunks) == (True, [])
    assert not await append(store, *KEY, "e1", Chunk(3, [b"c"], [0]), LEASE_S)
    assert not await store.acancel(*KEY)
    clock.now += 101
    await store.aclaim("", "another", CLAIM)
    assert await count_of(store, *KEY) is None


async def test_expired_id_can_be_claimed_anew(store: LogStore, clock: Clock) -> None:
    await store.aclaim(*KEY, CLAIM)
    clock.now += 101
    record, is_new = await store.aclaim(*KEY, Record("e2", b"", 0, 0, False, None, 1.0))
    assert (record.epoch, is_new) == ("e2", True)


async def test_many_streams_expire_at_once(store: LogStore, clock: Clock) -> None:
    for number in range(9):
        await store.aclaim("", str(number), CLAIM)
        await append(store, "", str(number), "e1", Chunk(1, [b"a"], [0]), LEASE_S)
    clock.now += 101
    await store.aclaim(*KEY, CLAIM)
    for number in range(9):
        reading = await store.aread("", str(number), 0, 1000, 0)
        assert reading is None or (reading.record.is_expired and not reading.chunks)
        assert not await append(store, "", str(number), "e1", Chunk(2, [b"b"], [0]), LEASE_S)


async def test_reader_waits_for_news(store: LogStore) -> None:
    await store.aclaim(*KEY, CLAIM)
    found: list[list[Chunk]] = []

    async def read() -> None:
        reading = await store.aread(*KEY, 0, 1000, 60.0)
        assert reading is not None
        found.append(reading.chunks)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(read)
        await anyio.sleep(0.05)
        assert not found
        await append(store, *KEY, "e1", Chunk(1, [b"a"], [0]), LEASE_S)
    assert found == [[Chunk(1, [b"a"], [0])]]


async def test_reader_waits_for_a_stream_that_never_begins(store: LogStore) -> None:
    await store.aclaim(*KEY, CLAIM)
    found: list[object] = []

    async def read() -> None:
        found.append(await store.aread(*KEY, 0, 1000, 60.0))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(read)
        await anyio.sleep(0.05)
        await store.afree(*KEY, "e1")
    assert found == [None]


@pytest.mark.parametrize("ends", [True, False])
async def test_reader_waits_no_longer_than_asked(store: LogStore, ends: bool) -> None:
    await store.aclaim(*KEY, CLAIM)
    if ends:
        await append(store, *KEY, "e1", Chunk(1, [], []), LEASE_S, b"end")
    reading = await store.aread(*KEY, 0, 1000, 60.0 if ends else 0.05)
    assert reading is not None
    assert reading.chunks == []


LINGERING = structs.replace(CLAIM, linger_s=30.0)


async def unfollowed(store: LogStore) -> set[str]:
    """Return the running epochs of `KEY` that nobody follows."""
    return await store.afollow({}, {"e1": KEY, "e2": KEY})


async def test_nobody_follows_a_stream_that_was_not_noted_for_its_linger(
    store: LogStore, clock: Clock
) -> None:
    await store.aclaim(*KEY, LINGERING)
    clock.now += 29
    assert await unfollowed(store) == set()
    assert await store.afollow({"e1": KEY}, {}) == set()
    clock.now += 29
    assert await unfollowed(store) == set()
    clock.now += 2
    assert await unfollowed(store) == {"e1"}
    # Who follows it now is noted first.
    assert await store.afollow({"e1": KEY}, {"e1": KEY}) == set()
    reading = await store.aread(*KEY, 0, 1, 0)
    assert reading is not None
    assert reading.record.linger_s == 30


async def test_another_epoch_is_not_followed(store: LogStore, clock: Clock) -> None:
    await store.aclaim(*KEY, LINGERING)
    clock.now += 31
    assert await store.afollow({"e2": KEY, "e1": ("", "other")}, {"e3": KEY}) == set()
    assert await unfollowed(store) == {"e1"}


async def test_stream_that_needs_no_readers_is_never_unfollowed(
    store: LogStore, clock: Clock
) -> None:
    await store.aclaim(*KEY, CLAIM)
    clock.now += 99
    assert await store.afollow({"e1": KEY}, {"e1": KEY}) == set()
    assert await unfollowed(store) == set()


async def test_stream_that_has_ended_is_never_unfollowed(store: LogStore, clock: Clock) -> None:
    await store.aclaim(*KEY, LINGERING)
    await append(store, *KEY, "e1", Chunk(1, [b"a"], [0]), LEASE_S, b"end")
    clock.now += 31
    assert await unfollowed(store) == set()
    assert await store.afollow({"e1": KEY}, {}) == set()
