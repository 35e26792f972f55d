"""Items of followed streams: reads at hand come as one, and each of their events has its cursor."""

from __future__ import annotations

import re

import anyio
import pytest
from support.gemini import frames as gemini
from support.log.streams import GatedSource, follow, ids_in, produce
from support.openai_chat.chunks import content
from support.streams.short import STREAMS

from streamnorm import LossyEncoding
from streamnorm._registry import FRAMINGS
from streamnorm.log import Log

pytestmark = pytest.mark.anyio

CHAT = STREAMS["openai_chat"]
PIECE = b'data: {"id": "1", "choices": [{"index": 0, "delta": {"content": "%05d"}}]}\n\n'
# Of one read, with its cursor.
MAX_EVENT_BYTES = 200
MAX_ITEM_BYTES = 16 * 1024


@pytest.fixture(params=["memory-asyncio", "memory-trio"])
def kind(request: pytest.FixtureRequest) -> str:
    """Return a kind of store, with the async back end to use it on."""
    return str(request.param)


async def items_of(log: Log, to: str, after: str = "") -> list[bytes]:
    """Return the items of a stream, each of which ends at the cursor that the stream has then."""
    items = list[bytes]()
    async with await log.follow("a", to=to, after=after) as stream:
        async for item in stream:
            items.append(item)
            assert stream.cursor == ids_in(item)[-1]
    return items


@pytest.mark.parametrize("to", ["openai_chat", "anthropic"])
async def test_reads_at_hand_are_one_item(log: Log, to: str) -> None:
    pieces = [PIECE % number for number in range(1000)]
    await produce(log, "a", [*CHAT[:2], *pieces, *CHAT[2:]])
    items = await items_of(log, to)
    written = b"".join(items)
    assert re.findall(rb'"(\d{5})"', written) == [b"%05d" % number for number in range(1000)]
    assert len(written) > 5 * MAX_ITEM_BYTES
    for item in items[:-1]:
        assert MAX_ITEM_BYTES <= len(item) <= MAX_ITEM_BYTES + MAX_EVENT_BYTES
    ids = ids_in(written)
    assert len(set(ids)) == len(ids) == written.count(b"\n\n")
    for id in ids[:: len(ids) // 7]:
        behind = written[written.index(b"id: %b\n\n" % id.encode()) :].partition(b"\n\n")[2]
        assert b"".join(await items_of(log, to, after=id)) == behind


async def test_read_that_comes_alone_is_an_item(log: Log) -> None:
    source = GatedSource(CHAT[1:2], CHAT[2:])
    async with log.produce("a", source), await log.follow("a", to="openai_chat") as stream:
        with anyio.fail_after(10):
            assert (await anext(stream)).startswith(CHAT[1][:-1])
        source.open()
        rest = b"".join([item async for item in stream])
    assert len(ids_in(rest)) == len(CHAT[2:])


async def test_events_before_a_loss_come_first(log: Log) -> None:
    await produce(log, "a", [PIECE % 1, PIECE % 2, content("b", choice=1), *CHAT[3:]])
    async with await log.follow("a", to="anthropic", strict=True) as stream:
        assert b'"00001"' in await anext(stream)
        assert b'"00002"' in await anext(stream)
        with pytest.raises(LossyEncoding):
            await anext(stream)


async def test_messages_of_a_binary_framing_are_items(log: Log) -> None:
    await produce(log, "a", CHAT)
    framing = FRAMINGS["eventstream"]
    async with await log.follow("a", to="bedrock_converse", to_framing=framing) as stream:
        items = [item async for item in stream]
    assert len(items) > 1


async def test_stream_that_fails_has_its_events_and_the_error(log: Log) -> None:
    await produce(log, "a", [PIECE % 1, PIECE % 2, b"data: {}}\n\n"])
    written = await follow(log, "a", "anthropic")
    assert [written.count(b'"%05d"' % number) for number in (1, 2)] == [1, 1]
    assert written.count(b"event: error") == 1


async def test_usage_of_a_cut_stream_is_that_of_its_last_delta(log: Log) -> None:
    """Gemini reports it with each delta, also where that is read without making an event."""
    counts = [{"promptTokenCount": 9, "candidatesTokenCount": number} for number in range(1, 6)]
    text = gemini.candidate({"text": "a"})
    await produce(log, "a", [gemini.chunk(text, usageMetadata=count) for count in counts])
    status = await log.status("a")
    assert status.state == "truncated"
    assert status.usage is not None
    assert (status.usage.input_tokens, status.usage.output_tokens) == (9, 5)
