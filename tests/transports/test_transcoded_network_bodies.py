"""The body of a provider's response is decoded, whichever way it is read, and within bounds."""

from __future__ import annotations

import gzip
import tracemalloc
import zlib
from collections.abc import AsyncIterator, Iterator
from functools import cache
from typing import Any

import pytest
from support.http.families import FamilyUnderTest, each_family
from support.http.transcoding_clients import (
    ANSWER,
    CLIENT_URL,
    MESSAGES,
    SSE,
    STREAMING,
    Answering,
    chat_stream,
    fetch,
    transcoding,
)
from support.streams.mutations import chunked

from streamnorm import Completed, Failed, StreamError, accumulate
from streamnorm.codec import decoder
from streamnorm.transports.transcoded_responses import open_body, read_whole, read_whole_async

pytestmark = pytest.mark.anyio
modes = pytest.mark.parametrize("mode", ["async", "sync"])

ZIPPED = {**SSE, "content-encoding": "gzip"}


def generated(family: FamilyUnderTest, chunks: list[bytes]) -> Any:
    """Return a body whose iterators are generators, as those of network transports are."""

    class Body(family.http.SyncByteStream, family.http.AsyncByteStream):  # type: ignore[misc,name-defined]  # of either package
        closed = 0

        def __iter__(self) -> Iterator[bytes]:
            yield from chunks

        async def __aiter__(self) -> AsyncIterator[bytes]:
            for chunk in chunks:
                yield chunk

        def close(self) -> None:
            self.closed += 1

        async def aclose(self) -> None:
            self.closed += 1

    return Body()


@modes
@each_family
@pytest.mark.parametrize("encoded", [False, True], ids=["plain", "gzip"])
async def test_body_of_the_network_is_decoded_and_closed(
    family: FamilyUnderTest, encoded: bool, mode: str
) -> None:
    data = b"".join(chat_stream())
    chunks = [gzip.compress(data)] if encoded else chat_stream()
    source = generated(family, chunks)
    answering = Answering(family, stream=source, headers=ZIPPED if encoded else SSE)
    transport = transcoding(family, answering)
    response = await fetch(family, mode, transport, STREAMING)
    reader = decoder("anthropic")
    assert accumulate([*reader.feed(response.content), *reader.close()]).text == "Hi."
    assert isinstance(transport.outcome, Completed)
    assert source.closed == 1


@modes
@each_family
async def test_body_that_the_inner_transport_has_read_is_decoded(
    family: FamilyUnderTest, mode: str
) -> None:
    source = generated(family, chat_stream())

    class Reading(family.http.MockTransport):  # type: ignore[misc,name-defined]  # of either package
        def handle_request(self, request: Any) -> Any:
            response = super().handle_request(request)
            response.read()
            return response

        async def handle_async_request(self, request: Any) -> Any:
            response = await super().handle_async_request(request)
            await response.aread()
            return response

    inner = Reading(Answering(family, stream=source, headers=SSE))
    transport = transcoding(family, inner)
    response = await fetch(family, mode, transport, STREAMING)
    reader = decoder("anthropic")
    assert accumulate([*reader.feed(response.content), *reader.close()]).text == "Hi."
    assert isinstance(transport.outcome, Completed)


@each_family
async def test_body_of_the_network_is_read_without_the_generators_of_the_package(
    family: FamilyUnderTest,
) -> None:
    chunks = chat_stream()
    for_async, for_sync = (
        family.http.Response(200, headers=SSE, stream=generated(family, chunks)) for _ in range(2)
    )
    assert [data async for data in open_body(for_async).aiter_bytes()] == chunks
    assert [*open_body(for_sync).iter_bytes()] == chunks
    assert not for_async.is_stream_consumed
    assert not for_sync.is_stream_consumed


# Compressed bodies

MIB = 1024 * 1024
EVENTS = b"".join(chat_stream())
PACKED = {
    "gzip": gzip.compress(EVENTS),
    "X-GZip": gzip.compress(EVENTS),
    "deflate": zlib.compress(EVENTS),
    " deflate ": zlib.compress(EVENTS)[2:-4],  # without its header, as some servers send it
    "none": EVENTS,  # as routes of Next.js and Flask say on purpose
    "UTF-8": EVENTS,
}


@modes
@each_family
@pytest.mark.parametrize("size", [1, 10_000])
@pytest.mark.parametrize(("coding", "packed"), PACKED.items(), ids=PACKED)
async def test_compressed_stream_is_decoded(
    family: FamilyUnderTest, coding: str, packed: bytes, size: int, mode: str
) -> None:
    source = generated(family, chunked(packed, size))
    headers = {**SSE, "content-encoding": coding}
    transport = transcoding(family, Answering(family, stream=source, headers=headers))
    response = await fetch(family, mode, transport, STREAMING)
    reader = decoder("anthropic")
    assert accumulate([*reader.feed(response.content), *reader.close()]).text == "Hi."
    assert isinstance(transport.outcome, Completed)
    assert source.closed == 1


@modes
@each_family
async def test_each_compressed_event_arrives_before_the_next_is_read(
    family: FamilyUnderTest, mode: str
) -> None:
    packer = zlib.compressobj(wbits=16 + zlib.MAX_WBITS)
    chunks = [packer.compress(event) + packer.flush(zlib.Z_SYNC_FLUSH) for event in chat_stream()]
    response = family.http.Response(200, headers=ZIPPED, stream=generated(family, chunks))
    if mode == "sync":
        assert [*open_body(response).iter_bytes()] == chat_stream()
    else:
        assert [data async for data in open_body(response).aiter_bytes()] == chat_stream()


@cache
def bomb(mib: int) -> list[bytes]:
    """Return a comment of so many MiB as gzip, in reads of 64 KiB."""
    packer = zlib.compressobj(9, wbits=16 + zlib.MAX_WBITS)
    zeros = bytes(MIB)
    packed = packer.compress(b":") + b"".join(packer.compress(zeros) for _ in range(mib))
    return chunked(packed + packer.compress(b"\n\n") + packer.flush(), 65_536)


@modes
@each_family
async def test_compressed_bomb_is_inflated_in_bounded_steps(
    family: FamilyUnderTest, mode: str
) -> None:
    source = generated(family, bomb(32))
    transport = transcoding(family, Answering(family, stream=source, headers=ZIPPED))
    tracemalloc.start()
    try:
        response = await fetch(family, mode, transport, STREAMING)
        assert tracemalloc.get_traced_memory()[1] < 8 * MIB
    finally:
        tracemalloc.stop()
    assert response.status_code == 502  # nothing but the comment
    assert source.closed == 1


@modes
@each_family
async def test_compressed_bomb_is_no_whole_answer(family: FamilyUnderTest, mode: str) -> None:
    source = generated(family, bomb(32))
    response = family.http.Response(200, headers=ZIPPED, stream=source)
    tracemalloc.start()
    try:
        if mode == "sync":
            data = read_whole(response, 2 * MIB)
        else:
            data = await read_whole_async(response, 2 * MIB)
        assert tracemalloc.get_traced_memory()[1] < 8 * MIB
    finally:
        tracemalloc.stop()
    assert isinstance(data, bytes)
    assert 2 * MIB < len(data) <= 3 * MIB
    assert source.closed == 1


UNREADABLE = {
    "another coding": ("br", b"abc", "a content-encoding other than gzip and deflate"),
    "two codings": ("gzip, gzip", gzip.compress(PACKED["gzip"]), "a content-encoding other"),
    "no gzip": ("gzip", b"data: {}", "a body that is not of its content-encoding"),
    "no deflate": ("deflate", b"\x07 no such data", "a body that is not of its content-encoding"),
}


@modes
@each_family
@pytest.mark.parametrize("body", [MESSAGES, STREAMING], ids=["whole", "streamed"])
@pytest.mark.parametrize(("coding", "packed", "words"), UNREADABLE.values(), ids=UNREADABLE)
async def test_body_that_cannot_be_decoded_is_an_error_in_the_clients_dialect(
    family: FamilyUnderTest, coding: str, packed: bytes, words: str, body: Any, mode: str
) -> None:
    headers = {**SSE, "content-encoding": coding}
    source = generated(family, [packed])
    transport = transcoding(family, Answering(family, stream=source, headers=headers))
    response = await fetch(family, mode, transport, body)
    assert response.status_code == 502
    assert response.json()["type"] == "error"
    assert words in response.json()["error"]["message"]
    assert isinstance(transport.outcome, Failed)
    assert transport.outcome.error.kind == "malformed"
    assert source.closed == 1


@modes
@each_family
async def test_error_whose_body_cannot_be_decoded_has_its_status(
    family: FamilyUnderTest, mode: str
) -> None:
    for body, url in (
        (MESSAGES, CLIENT_URL),
        (STREAMING, CLIENT_URL),
        ({"model": "m", "messages": MESSAGES["messages"]}, f"{CLIENT_URL}/count_tokens"),
    ):
        source = generated(family, [b"abc"])
        answering = Answering(family, 429, stream=source, headers={"content-encoding": "br"})
        transport = transcoding(family, answering, upstream="gemini")
        response = await fetch(family, mode, transport, body, url=url)
        assert response.status_code == 429
        found = "a content-encoding other than gzip and deflate, expected none"
        assert response.json()["error"]["message"] == f"HTTP 429 with {found}"


@modes
@each_family
async def test_count_that_cannot_be_decoded_is_an_error(family: FamilyUnderTest, mode: str) -> None:
    source = generated(family, [b"abc"])
    answering = Answering(family, stream=source, headers={"content-encoding": "br"})
    transport = transcoding(family, answering, upstream="gemini")
    asked = {"model": "m", "messages": MESSAGES["messages"]}
    response = await fetch(family, mode, transport, asked, url=f"{CLIENT_URL}/count_tokens")
    assert response.status_code == 502
    assert "content-encoding" in response.json()["error"]["message"]
    assert isinstance(transport.outcome, Failed)


@modes
@each_family
async def test_stream_that_is_damaged_later_ends_in_an_error_event(
    family: FamilyUnderTest, mode: str
) -> None:
    packer = zlib.compressobj(wbits=16 + zlib.MAX_WBITS)
    start = packer.compress(b"".join(chat_stream()[:2])) + packer.flush(zlib.Z_SYNC_FLUSH)
    source = generated(family, [start, b"\xff" * 99])
    transport = transcoding(family, Answering(family, stream=source, headers=ZIPPED))
    response = await fetch(family, mode, transport, STREAMING)
    assert response.status_code == 200
    reader = decoder("anthropic")
    last = [*reader.feed(response.content), *reader.close()][-1]
    assert isinstance(last, StreamError)
    assert "not of its content-encoding" in last.message


@modes
@each_family
async def test_whole_answer_that_is_compressed_is_decoded(
    family: FamilyUnderTest, mode: str
) -> None:
    packed = gzip.compress(family.http.Response(200, json=ANSWER).content)
    answering = Answering(family, stream=generated(family, [packed]), headers=ZIPPED)
    response = await fetch(family, mode, transcoding(family, answering), MESSAGES)
    assert response.json()["content"][0]["text"] == "Hi."
