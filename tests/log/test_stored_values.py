"""What a store holds may be damaged, deleted, too much, or of another release or application."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import ClassVar

import msgspec
import pytest
from msgspec import structs
from support.log.streams import GatedSource, follow, ids_in, produce
from support.streams.short import STREAMS

from streamnorm._registry import FRAMINGS
from streamnorm.log import Log, open_log
from streamnorm.log.memory import MemoryLogStore
from streamnorm.log.records import (
    Chunk,
    Ending,
    Origin,
    pack,
    read_options,
    unpack_chunks,
    unpack_ending,
    unpack_origin,
)
from streamnorm.state import StoreError

pytestmark = pytest.mark.anyio

CHAT = STREAMS["openai_chat"]
PIECE = b'data: {"id": "1", "choices": [{"index": 0, "delta": {"content": "%b"}}]}\n\n'


@pytest.fixture
def anyio_backend() -> str:
    """Run on asyncio alone: no test here depends on it."""
    return "asyncio"


def test_values_come_back_as_they_were_stored() -> None:
    origin = Origin(
        *("gemini", "vertex", "sse", True, "id", b"{}"),
        *(200, "text/event-stream", None, {"x-amzn-requestid": "1"}),
    )
    ending = Ending("failed", "timeout", "why")
    assert unpack_origin(pack(origin)) == origin
    assert unpack_ending(pack(ending)) == ending
    chunks = [Chunk(3, [b"", b"a"], [0, 70_000]), Chunk(5, [], []), Chunk(5, [b"b"], [1])]
    assert unpack_chunks(3, b"".join(map(pack, chunks))) == chunks
    assert unpack_chunks(0, b"") == []


def test_stream_of_an_older_release_has_no_time() -> None:
    origin = Origin("gemini", created=1.5)
    assert unpack_origin(pack(origin)) == origin
    stored = msgspec.msgpack.encode(msgspec.msgpack.decode(pack(origin))[:-1])
    assert unpack_origin(stored) == structs.replace(origin, created=None)


@pytest.mark.parametrize("data", [b"", b"\xc1", b"\x93\x01\x02\x03", "text", None, 1])
def test_damaged_values_are_errors_of_the_store(data: object) -> None:
    for unpack in (unpack_origin, unpack_ending, partial(unpack_chunks, 1)):
        with pytest.raises(StoreError):
            unpack(data)


@pytest.mark.parametrize("count", [0, 1, 3])
def test_chunks_are_as_many_as_the_store_says(count: int) -> None:
    with pytest.raises(StoreError, match="a damaged stream"):
        unpack_chunks(count, 2 * pack(Chunk(1, [b"a"], [0])))


@pytest.mark.parametrize("gaps_ms", [[0], [0, 0, 0], [0, -1]])
def test_each_read_has_the_time_before_it(gaps_ms: list[int]) -> None:
    with pytest.raises(StoreError, match="a damaged stream"):
        unpack_chunks(1, pack(Chunk(1, [b"a", b"b"], gaps_ms)))


def test_streams_of_another_release_are_refused() -> None:
    origin = Origin()
    with pytest.raises(StoreError, match="streams of format 2, expected 1"):
        unpack_origin(pack(structs.replace(origin, format=2)))
    with pytest.raises(StoreError, match="an unknown framing"):
        read_options(structs.replace(origin, framing="new"))


async def test_damaged_rows(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    url = f"sqlite:{path}"
    log = open_log(url, ttl_s=1000, lease_s=5, max_bytes=1000)
    await produce(log, "a", CHAT)
    await log.aclose()
    log = open_log(url)  # the other one may remember what it has stored
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("UPDATE reads SET content = 'text'")
    with pytest.raises(StoreError, match="holds str, expected bytes"):
        await log.follow("a")
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("UPDATE streams SET fingerprint = 'text'")
    with pytest.raises(StoreError, match="a damaged stream"):
        await log.status("a")
    await log.aclose()


async def test_file_of_another_release(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    log = open_log(f"sqlite:{path}")
    await produce(log, "a", CHAT)
    await log.aclose()
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA user_version = 2")
    with pytest.raises(StoreError, match="has schema 2, expected 1"):
        await log.status("a")


async def test_file_of_another_application(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE other (x)")
    with pytest.raises(StoreError, match="of another application"):
        await open_log(f"sqlite:{path}").status("a")


@pytest.mark.parametrize("url", ["", "memory", "sqlite:", "sqlite", "file:x", "redis://a:b"])
def test_url_of_no_log(url: str) -> None:
    with pytest.raises(ValueError, match="no URL of a"):
        open_log(url)


async def test_log_in_memory() -> None:
    log = open_log("memory:")
    assert await produce(log, "a", CHAT) == "complete"
    await log.aclose()


async def test_framing_of_the_source_is_stored() -> None:
    [framing] = [one for one in FRAMINGS.values() if one.name == "sse"]
    log = open_log("memory:")
    async with log.produce("a", GatedSource(CHAT), dialect="openai_chat", framing=framing) as run:
        assert await run.wait() == "complete"
    assert b"message_stop" in await follow(log, "a", "anthropic")


async def test_stream_of_a_framing_is_followed_in_it() -> None:
    log = open_log("memory:")
    await produce(log, "a", CHAT)
    async with await log.follow("a", to="bedrock_converse") as stream:
        items = [(data, stream.cursor) async for data in stream]
    for number, (_, cursor) in enumerate(items):
        async with await log.follow("a", to="bedrock_converse", after=cursor) as rest:
            assert [data async for data in rest] == [data for data, _ in items[number + 1 :]]


async def test_deleted_file_stops_no_reader(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    log, source = open_log(f"sqlite:{path}"), GatedSource(CHAT[:2], CHAT[2:])
    async with log.produce("a", source) as run:
        async with await log.follow("a", to="anthropic") as stream:
            await anext(stream)
            path.unlink()
            source.open()
            rest = b"".join([data async for data in stream])
        assert await run.wait() == "complete"
    assert b"message_stop" in rest
    assert not ids_in(rest)
    assert (await log.status("a")).state == "unknown"
    await log.aclose()


async def test_memory_is_bounded_over_all_streams() -> None:
    store = MemoryLogStore(ttl_s=100, max_bytes=30_000)
    log = Log(store)
    whole = [PIECE % (b"x" * 5000), *CHAT[3:]]
    for id in "abcdefgh":
        assert await produce(log, id, whole) == "complete"
    states = [(await log.status(id)).state for id in "abcdefgh"]
    assert states == ["expired"] * 3 + ["complete"] * 5
    # What runs is not forgotten: its reader gets it all the same, and nobody else.
    source = GatedSource([PIECE % (b"x" * 5000)] * 9, CHAT[3:])
    async with log.produce("i", source) as run:
        async with await log.follow("i", to="openai_chat") as stream:
            source.open()
            written = b"".join([data async for data in stream])
        assert await run.wait() == "complete"
    assert written.count(b"x" * 5000) == 9
    assert (await log.status("i")).size <= 30_000


async def test_header_that_is_no_text_loses_no_answer() -> None:
    class Response(GatedSource):
        """As aiohttp has one whose server sends bytes that are no UTF-8."""

        status = 200
        headers: ClassVar = {"content-type": "text/event-stream; x=\udcff"}

    store = MemoryLogStore(ttl_s=100)
    log = Log(store)
    async with log.produce("a", Response(CHAT[:3], CHAT[3:])) as run:
        written: list[bytes] = []
        async with await log.follow("a", to="anthropic") as stream:
            written.append(await anext(stream))
            run.cancel()
            written += [data async for data in stream]
        assert await run.wait() == "cancelled"
    assert b"".join(written) == await follow(Log(store), "a", "anthropic")
