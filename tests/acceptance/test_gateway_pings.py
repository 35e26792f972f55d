"""Every official SDK reads an answer through the pings of a gateway, before it and within it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from acceptance.gateways import Gateways, gateways
from acceptance.transcoding_clients import SDK, SDKS, Reading
from support.faults.answers import ANSWERS, CITY, TEXT
from support.faults.rows import HEAD, LAST
from support.faults.upstream import FaultyUpstream, Pause, Step
from support.gateway.upstreams import asked
from support.http.loopback import chunked

from streamnorm.validation import validate

pytestmark = [pytest.mark.anyio, pytest.mark.on_asyncio, pytest.mark.slow]

READING = Reading(TEXT, "", (("call_1", "get_weather", {"city": CITY}),))
PAUSE = Pause(0.04)


@pytest.fixture(scope="module")
async def upstream() -> AsyncIterator[FaultyUpstream]:
    async with FaultyUpstream().running() as known:
        yield known


@pytest.fixture(scope="module")
async def pinging(upstream: FaultyUpstream) -> AsyncIterator[Gateways]:
    async with gateways(upstream.url, keepalive_s=0.01, commit_after_s=0.01) as known:
        yield known


@pytest.fixture(scope="module")
async def silent(upstream: FaultyUpstream) -> AsyncIterator[Gateways]:
    async with gateways(upstream.url) as known:
        yield known


def slow_answer(dialect: str) -> list[Step]:
    """Return an answer with pauses before its head, its first event, a word and its end."""
    events = ANSWERS[dialect].events
    word, call = ANSWERS[dialect].index_of(b"schneit"), ANSWERS[dialect].index_of(b"get_weather")
    parts = (events[:1], events[1 : word + 1], events[word + 1 : call + 1], events[call + 1 :])
    steps: list[Step] = [PAUSE, HEAD]
    for part in parts:
        steps += [PAUSE, chunked(b"".join(part))]
    return [*steps, PAUSE, LAST]


@pytest.mark.parametrize("target", SDKS)
@pytest.mark.parametrize("sdk", SDKS.values(), ids=SDKS)
async def test_client_reads_the_same_through_pings(
    sdk: SDK, target: str, upstream: FaultyUpstream, pinging: Gateways, silent: Gateways
) -> None:
    upstream.script = slow_answer(target)
    async with sdk.http.AsyncClient() as http:
        url = pinging.urls[target]
        assert await sdk.converse_async(http, base_url=url) == [READING]
    with_pings = (await asked(url, sdk.dialect)).content
    assert validate(with_pings, sdk.dialect) == []
    upstream.script = [HEAD, chunked(ANSWERS[target].body), LAST]
    without = (await asked(silent.urls[target], sdk.dialect)).content
    assert count_of_blank_lines(with_pings) >= count_of_blank_lines(without) + 4


def count_of_blank_lines(body: bytes) -> int:
    """Return how many lines of a body are blank: one behind each event and ping."""
    return body.replace(b"\r\n", b"\n").split(b"\n").count(b"")
