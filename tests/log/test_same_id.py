"""Several streams of one id: a request that comes again, and one that replaces another."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from support.log.streams import GatedSource, follow, ids_in, produce, source_of, wait_for_reads
from support.streams.short import STREAMS

from streamnorm.log import Log
from streamnorm.log.memory import MemoryLogStore
from streamnorm.log.records import Reading, Record
from streamnorm.state import StoreError

pytestmark = pytest.mark.anyio

CHAT = STREAMS["openai_chat"]


async def test_stream_that_replaces_another_ends_it(log: Log) -> None:
    source = GatedSource(CHAT[:3])
    async with anyio.create_task_group() as tasks:

        async def produce_first() -> None:
            async with log.produce("a", source, fingerprint=b"1") as run:
                states.append(await run.wait())

        states: list[str] = []
        tasks.start_soon(produce_first)
        await wait_for_reads(log, "a", 4)
        async with log.produce("a", source_of(CHAT), fingerprint=b"2", replaces=True) as run:
            assert run.is_new
            assert await run.wait() == "complete"
    assert states[0] in ("cancelled", "truncated")
    assert source.is_closed
    assert (await log.status("a")).state == "complete"
    assert len(ids_in(await follow(log, "a", "openai_chat"))) == len(CHAT)


@pytest.mark.parametrize("kind", ["memory-asyncio", "memory-trio"])
async def test_stream_that_begins_while_its_id_is_looked_up_is_followed() -> None:
    class DistantStore(MemoryLogStore):
        async def aread(self, *args: Any) -> Reading | None:
            reading = await super().aread(*args)
            await may_answer.wait()
            return reading

    may_answer = anyio.Event()
    log = Log(DistantStore(ttl_s=100))
    await produce(log, "a", CHAT[:2])
    source = GatedSource(CHAT[:3], CHAT[3:])
    async with anyio.create_task_group() as tasks:

        async def read() -> None:
            assert b"message_stop" in await follow(log, "a", "anthropic")

        tasks.start_soon(read)
        await anyio.wait_all_tasks_blocked()
        async with log.produce("a", source, fingerprint=b"2", replaces=True) as run:
            assert run.is_new
            may_answer.set()
            source.open()
            assert await run.wait() == "complete"


@pytest.mark.parametrize("kind", ["memory-asyncio", "memory-trio"])
@pytest.mark.parametrize("replaces", [False, True])
async def test_same_request_is_answered_once_while_the_store_is_away(replaces: bool) -> None:
    """Also where a second one comes while the store is asked for the first."""

    class DistantStore(MemoryLogStore):
        async def aclaim(self, *args: Any, **options: Any) -> tuple[Record, bool]:
            await anyio.sleep(0.02)
            raise StoreError("the store is away")

    log = Log(DistantStore(ttl_s=100))
    states: list[tuple[bool, str]] = []
    sources = [GatedSource(CHAT[:2], CHAT[2:]) for _ in range(3)]

    async def make(source: GatedSource, fingerprint: bytes) -> None:
        async with log.produce(
            "a", source, fingerprint=fingerprint, mode="best_effort", replaces=replaces
        ) as run:
            states.append((run.is_new, await run.wait()))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(make, sources[0], b"1")
        tasks.start_soon(make, sources[1], b"1")
        with anyio.fail_after(10):
            while not any(source.is_closed for source in sources):  # noqa: ASYNC110 - of the log
                await anyio.sleep(0.01)
            await anyio.sleep(0.05)  # in which the other one would be closed, too
            assert [source.is_closed for source in sources].count(True) == 1
            if replaces:
                tasks.start_soon(make, sources[2], b"2")
                while len(states) < 2:  # noqa: ASYNC110 - of the log
                    await anyio.sleep(0.01)
        for source in sources:
            source.open()
    if replaces:
        assert sorted(states) == [(False, "cancelled"), (True, "cancelled"), (True, "complete")]
    else:
        assert sorted(states) == [(False, "complete"), (True, "complete")]
