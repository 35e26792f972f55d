"""Streams that are read as they were asked for: in a dialect, with its options and last event."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from support.log.streams import GatedSource, follow, ids_in, produce, source_of
from support.streams.short import STREAMS

from streamnorm import UnknownDialect
from streamnorm._core.bodies.request import Reply
from streamnorm._registry import FRAMINGS
from streamnorm.log import Log, LogError, OpenedSource, committing
from streamnorm.log.memory import MemoryLogStore
from streamnorm.log.records import Append, Origin, Record, writer_options
from streamnorm.sse import SSEDecoder
from streamnorm.state import StoreError

pytestmark = pytest.mark.anyio

CHAT = STREAMS["openai_chat"]


async def produce_opened(log: Log, id: str = "a", **more: Any) -> None:
    """Produce a stream that its source describes."""

    @asynccontextmanager
    async def opened() -> AsyncIterator[OpenedSource]:
        yield OpenedSource(source=source_of(CHAT), dialect="openai_chat", **more)

    async with log.produce(id, opened) as run:
        await run.wait()


async def answer(log: Log, after: str = "", **more: Any) -> bytes:
    async with await log.follow_answer("a", after=after, **more) as stream:
        return b"".join([data async for data in stream])


async def test_answer_is_in_the_dialect_that_was_asked_for(log: Log) -> None:
    await produce_opened(log, to="responses", options={"include_usage": False})
    written = await answer(log)
    assert b"response.completed" in written
    assert written == await follow(log, "a", "openai_responses", include_usage=False)
    async with await log.follow_answer("a") as stream:
        assert stream.to == "openai_responses"


async def test_answer_is_written_with_the_options_of_then(log: Log) -> None:
    options = {"include_usage": False, "verbatim": False, "reasoning": None}
    await produce_opened(log, to="openai_chat", options=options)
    written = await answer(log)
    assert b"usage" not in written
    for cursor in ids_in(written):
        rest = written[written.index(cursor.encode()) + len(cursor) + 2 :]
        assert await answer(log, after=cursor) == rest


async def test_framing_of_an_answer(log: Log) -> None:
    await produce_opened(
        log, to="bedrock_converse", options={"to_framing": FRAMINGS["eventstream"]}
    )
    written = await answer(log)
    assert written == await follow(log, "a", "bedrock_converse")
    assert b"messageStop" in written


async def test_cursor_of_an_answer_is_one_of_the_same_options(log: Log) -> None:
    await produce_opened(log, to="openai_chat", options={"include_usage": False})
    [cursor, *_] = ids_in(await follow(log, "a", "openai_chat"))
    with pytest.raises(LogError) as caught:
        await answer(log, after=cursor)
    assert caught.value.code == "other_bytes"


async def test_stream_that_was_asked_for_in_no_dialect(log: Log) -> None:
    await produce(log, "a", CHAT)
    with pytest.raises(LogError, match="name one") as caught:
        await log.follow_answer("a")
    assert (caught.value.code, caught.value.status) == ("no_dialect", 400)


async def test_unknown_dialect_of_an_answer_is_no_stream(log: Log) -> None:
    with pytest.raises(UnknownDialect):
        await produce_opened(log, to="klingon")
    assert (await log.status("a")).state == "unknown"


async def test_last_event_has_the_fields_of_the_end(log: Log) -> None:
    reply = Reply(response={"id": "resp_1", "store": True})
    await produce_opened(
        log, to="openai_responses", reply=reply, last_fields=lambda: {"store": False}
    )
    written = await answer(log)
    responses = [json.loads(frame.data).get("response") for frame in SSEDecoder().feed(written)]
    stores = [response["store"] for response in responses if response is not None]
    assert stores == [True, True, False]
    assert await answer(log) == written
    cursors = ids_in(written)
    rest = written[written.index(cursors[-2].encode()) + len(cursors[-2]) + 2 :]
    assert await answer(log, after=cursors[-2]) == rest
    async with await log.follow("a") as stream:
        assert stream.reply.response == {"id": "resp_1", "store": True}
        async for _ in stream:
            pass
        assert stream.reply.response == {"id": "resp_1", "store": False}


async def test_live_reader_gets_the_fields_of_the_end(log: Log) -> None:
    # Of a stream without a terminal, which its end alone completes.
    source = GatedSource(CHAT[:3], CHAT[3:-1])
    reply = Reply(response={"store": True})

    @asynccontextmanager
    async def opened() -> AsyncIterator[OpenedSource]:
        yield OpenedSource(
            source=source,
            dialect="openai_chat",
            reply=reply,
            to="openai_responses",
            last_fields=lambda: {"store": False},
        )

    async with log.produce("a", opened) as run:
        async with await log.follow_answer("a") as stream:
            pieces = [await anext(stream)]
            source.open()
            pieces += [data async for data in stream]
        assert await run.wait() == "complete"
    written = b"".join(pieces)
    assert b'"store":false' in written.rpartition(b"event: response.completed")[2]
    assert await answer(log) == written


class LingeringSource(GatedSource):
    """A source that takes its time to close."""

    async def aclose(self) -> None:
        await anyio.sleep(0.05)


async def live_answer(log: Log, **options: Any) -> bytes:
    """Return what a live reader gets of an answer that says at its end that it was not stored."""
    source = LingeringSource(CHAT[:3], CHAT[3:])

    @asynccontextmanager
    async def opened() -> AsyncIterator[OpenedSource]:
        yield OpenedSource(
            source=source,
            dialect="openai_chat",
            reply=Reply(response={"store": True}),
            to="openai_responses",
            last_fields=lambda: {"store": False},
        )

    async with log.produce("a", opened, **options) as run:
        async with await log.follow_answer("a") as stream:
            pieces = [await anext(stream)]
            source.open()
            pieces += [data async for data in stream]
        assert await run.wait() == "complete"
    written = b"".join(pieces)
    assert b'"store":false' in written.rpartition(b"event: response.completed")[2]
    return written


async def test_source_that_closes_slowly_delays_no_end(log: Log) -> None:
    assert await live_answer(log) == await answer(log)


@pytest.mark.parametrize("kind", ["memory-asyncio"])
@pytest.mark.parametrize("is_claimed", [False, True])
async def test_live_reader_gets_the_fields_of_the_end_without_a_store(
    monkeypatch: pytest.MonkeyPatch, is_claimed: bool
) -> None:
    class LostStore(MemoryLogStore):
        async def aclaim(self, *args: Any, **options: Any) -> tuple[Record, bool]:
            if not is_claimed:
                raise StoreError("the store is down")
            return await super().aclaim(*args, **options)

        async def aappend(self, appends: Sequence[Append]) -> list[bool | StoreError]:
            if any(append.ending for append in appends):
                raise StoreError("the store is down")
            return await super().aappend(appends)

    monkeypatch.setattr(committing, "_RETRIES_S", 0.0)
    await live_answer(Log(LostStore(ttl_s=100)), mode="best_effort")


async def test_fields_of_the_end_without_a_reply(log: Log) -> None:
    await produce_opened(log, to="openai_responses", last_fields=lambda: {"user": "u-1"})
    before, _, last = (await answer(log)).rpartition(b"event: ")
    assert b'"user":"u-1"' in last
    assert b'"user":"u-1"' not in before


def test_framing_of_another_release() -> None:
    origin = Origin(to="openai_chat", options=b'{"to_framing":"smoke"}')
    with pytest.raises(StoreError, match="unknown framing"):
        writer_options(origin)
