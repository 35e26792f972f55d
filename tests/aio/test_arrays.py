"""Responses whose body is a JSON array of chunks, read as a stream."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest
from support.gemini.arrays import CHUNKS, TOLD, array, events_of
from support.http.byte_source import AsyncResponse
from support.streams.content import decode, transcode
from support.streams.mutations import chunked

import streamnorm
from streamnorm import NotAStream, StreamError, Truncated, UpstreamError, iter_events

pytestmark = pytest.mark.anyio

JSON = {"content-type": "application/json; charset=UTF-8"}
WHOLE = array(*CHUNKS)
EVENTS = decode([events_of(*CHUNKS)], "gemini").events
each_name = pytest.mark.parametrize("dialect", ["gemini", None])


def client(body: bytes, status: int = 200) -> httpx.AsyncClient:
    async def pieces() -> AsyncIterator[bytes]:
        for piece in chunked(body, 5):
            yield piece

    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(status, headers=JSON, content=pieces())

    return httpx.AsyncClient(transport=httpx.MockTransport(answer))


@each_name
async def test_connect_reads_an_array(dialect: str | None) -> None:
    async with (
        client(WHOLE) as http,
        streamnorm.connect(http, "POST", "http://a/", dialect=dialect) as stream,
    ):
        assert [event async for event in stream] == EVENTS


@each_name
async def test_events_of_an_element_do_not_wait_for_the_next(dialect: str | None) -> None:
    first = array(*CHUNKS[:2], end="")
    response: Any = AsyncResponse([first], content_type=JSON["content-type"], stays_open=True)
    async with streamnorm.events(response, dialect=dialect) as stream:
        seen = [await anext(stream) for _ in range(4)]
    assert seen == EVENTS[:4]


@each_name
@pytest.mark.parametrize("status", [200, 503])
async def test_error_in_an_array_raises_upstream_error(dialect: str | None, status: int) -> None:
    async with (
        client(array(TOLD), status) as http,
        streamnorm.connect(http, "POST", "http://a/", dialect=dialect) as stream,
    ):
        with pytest.raises(UpstreamError, match="Overloaded") as caught:
            await anext(stream)
    assert (caught.value.status, caught.value.code) == (503, "UNAVAILABLE")


@each_name
async def test_json_that_is_no_array_of_chunks_is_no_stream(dialect: str | None) -> None:
    async with (
        client(b'[{"a": 1}]') as http,
        streamnorm.connect(http, "POST", "http://a/", dialect=dialect) as stream,
    ):
        with pytest.raises(NotAStream):
            await anext(stream)


@each_name
@pytest.mark.parametrize("end", [1, 30, 400])
async def test_cut_array_is_truncated(dialect: str | None, end: int) -> None:
    async with (
        client(WHOLE[:end]) as http,
        streamnorm.connect(http, "POST", "http://a/", dialect=dialect, errors="yield") as stream,
    ):
        events = [event async for event in stream]
    assert isinstance(events[-1], StreamError)
    assert isinstance(stream.outcome, Truncated)


@each_name
@pytest.mark.parametrize("to", ["anthropic", "gemini", "gemini_interactions"])
async def test_array_is_transcoded_to_an_event_stream(dialect: str | None, to: str) -> None:
    async with client(WHOLE) as http, http.stream("POST", "http://a/") as response:
        stream = streamnorm.transcode(response, to=to, dialect=dialect)
        out = b"".join([data async for data in stream])
    assert out == transcode([WHOLE], dialect, to, verbatim=True)[0]


@each_name
async def test_tap_passes_an_array_unchanged(dialect: str | None) -> None:
    seen: list[streamnorm.Event] = []
    async with client(WHOLE) as http, http.stream("POST", "http://a/") as response:
        stream = streamnorm.tap(response, seen.append, dialect=dialect)
        assert b"".join([data async for data in stream]) == WHOLE
    assert seen == EVENTS


@each_name
def test_iter_events_reads_an_array(dialect: str | None) -> None:
    def pieces() -> Iterator[bytes]:
        yield from chunked(WHOLE, 5)

    response = httpx.Response(200, headers=JSON, content=pieces())
    assert list(iter_events(response, dialect=dialect)) == EVENTS
