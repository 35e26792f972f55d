"""The body of a provider's response is decoded, whichever way it is read."""

from __future__ import annotations

import gzip
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from support.http_families import FamilyUnderTest, each_family
from support.transcoding import SSE, STREAMING, Answering, chat_stream, fetch, transcoding

from streamnorm import Completed, accumulate, decoder
from streamnorm.transports.transcoded_body import readable

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
    assert [data async for data in readable(for_async).aiter_bytes()] == chunks
    assert [*readable(for_sync).iter_bytes()] == chunks
    assert not for_async.is_stream_consumed
    assert not for_sync.is_stream_consumed
