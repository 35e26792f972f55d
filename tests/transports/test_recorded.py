"""Bodies are recorded as they are read, without an effect on client or server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from msgspec import UNSET
from support.http.byte_source import Cut
from support.http.families import READS, URL, FamilyUnderTest, each_family, recorded_in


def failures_of(family: FamilyUnderTest) -> list[tuple[Exception, str]]:
    """Return exceptions of a read, each with the `end` that is recorded for it."""
    http = family.http
    return [
        (http.ReadError("-"), "reset"),
        (http.RemoteProtocolError("-"), "reset"),
        (Cut("-"), "reset"),
        (http.ReadTimeout("-"), "timeout"),
        (TimeoutError("-"), "timeout"),
    ]


# Reads


@each_family
def test_reads_are_recorded_unchanged(family: FamilyUnderTest, tmp_path: Path) -> None:
    source = family.body([*READS[:2], b"", *READS[2:]])
    transport = family.transports.RecordingTransport(family.answering(source), tmp_path)

    assert family.fetch(transport) == READS

    (recording,) = recorded_in(tmp_path)
    assert recording.chunks() == READS
    assert recording.response.status == 200
    assert recording.response.end == "eof"
    assert source.closed == 1
    assert transport.failures == ()


@pytest.mark.anyio
@each_family
async def test_asynchronous_reads_are_recorded_unchanged(
    family: FamilyUnderTest, tmp_path: Path
) -> None:
    source = family.async_body([*READS[:2], b"", *READS[2:]])
    transport = family.transports.RecordingTransport(family.answering(source), tmp_path)

    assert await family.async_fetch(transport) == READS

    (recording,) = recorded_in(tmp_path)
    assert recording.chunks() == READS
    assert recording.response.status == 200
    assert recording.response.end == "eof"
    assert source.closed == 1
    assert transport.failures == ()


@each_family
def test_each_read_is_handed_on_before_the_next(family: FamilyUnderTest, tmp_path: Path) -> None:
    source = family.body(READS)
    transport = family.transports.RecordingTransport(family.answering(source), tmp_path)
    with family.http.Client(transport=transport) as client, client.stream("POST", URL) as response:
        for count, data in enumerate(response.iter_bytes(), 1):
            assert (data, source.reads) == (READS[count - 1], count)


@pytest.mark.anyio
@each_family
async def test_each_asynchronous_read_is_handed_on_before_the_next(
    family: FamilyUnderTest, tmp_path: Path
) -> None:
    source = family.async_body(READS)
    transport = family.transports.RecordingTransport(family.answering(source), tmp_path)
    async with (
        family.http.AsyncClient(transport=transport) as client,
        client.stream("POST", URL) as response,
    ):
        count = 0
        async for data in response.aiter_bytes():
            count += 1
            assert (data, source.reads) == (READS[count - 1], count)
    assert count == len(READS)


# Ends


@each_family
@pytest.mark.parametrize("number", range(5))
def test_broken_read_is_reported_and_raised(
    family: FamilyUnderTest, number: int, tmp_path: Path
) -> None:
    error, end = failures_of(family)[number]
    source = family.body(READS[:2], error=error)
    transport = family.transports.RecordingTransport(family.answering(source), tmp_path)

    with pytest.raises(type(error)) as raised:
        family.fetch(transport)

    assert raised.value is error
    (recording,) = recorded_in(tmp_path)
    assert recording.chunks() == READS[:2]
    assert recording.response.end == end
    assert source.closed == 1


@pytest.mark.anyio
@each_family
@pytest.mark.parametrize("number", range(5))
async def test_broken_asynchronous_read_is_reported_and_raised(
    family: FamilyUnderTest, number: int, tmp_path: Path
) -> None:
    error, end = failures_of(family)[number]
    source = family.async_body(READS[:2], error=error, close_error=Cut("while closing"))
    transport = family.transports.RecordingTransport(family.answering(source), tmp_path)

    with pytest.raises(type(error)) as raised:
        await family.async_fetch(transport)

    assert raised.value is error
    (recording,) = recorded_in(tmp_path)
    assert recording.chunks() == READS[:2]
    assert recording.response.end == end
    assert source.closed == 1


@each_family
@pytest.mark.parametrize("reads", [1, len(READS)])
def test_abandoned_read_is_recorded_as_aborted_and_reads_no_more(
    family: FamilyUnderTest, reads: int, tmp_path: Path
) -> None:
    source = family.body(READS)
    transport = family.transports.RecordingTransport(family.answering(source), tmp_path)
    with family.http.Client(transport=transport) as client, client.stream("POST", URL) as response:
        raw = response.iter_raw()
        got = [next(raw) for _ in range(reads)]

    (recording,) = recorded_in(tmp_path)
    assert recording.chunks() == got == READS[:reads]
    assert recording.response.end == "aborted"
    assert (source.reads, source.closed) == (reads, 1)


@pytest.mark.anyio
@each_family
@pytest.mark.parametrize("reads", [1, len(READS)])
async def test_asynchronous_abandoned_read_is_recorded_as_aborted_and_reads_no_more(
    family: FamilyUnderTest, reads: int, tmp_path: Path
) -> None:
    source = family.async_body(READS)
    transport = family.transports.RecordingTransport(family.answering(source), tmp_path)
    response = await transport.handle_async_request(family.http.Request("POST", URL))
    raw = aiter(response.stream)
    got = [await anext(raw) for _ in range(reads)]
    for _ in range(2):
        await response.stream.aclose()

    (recording,) = recorded_in(tmp_path)
    assert recording.chunks() == got == READS[:reads]
    assert recording.response.end == "aborted"
    assert (source.reads, source.closed) == (reads, 1)


@pytest.mark.anyio
@each_family
async def test_cancelled_read_is_recorded_as_aborted(
    family: FamilyUnderTest, tmp_path: Path
) -> None:
    source = family.async_body(READS[:1], stays_open=True)
    transport = family.transports.RecordingTransport(family.answering(source), tmp_path)
    response = await transport.handle_async_request(family.http.Request("POST", URL))

    async def read() -> None:
        async for _ in response.stream:
            pass

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(read)
        await source.silent.wait()
        tasks.cancel_scope.cancel()

    (recording,) = recorded_in(tmp_path)
    assert recording.chunks() == READS[:1]
    assert recording.response.end == "aborted"
    assert source.closed == 1
    with pytest.raises(family.http.ReadError, match="closed"):
        await anext(response.stream)


@pytest.mark.anyio
@each_family
async def test_close_completes_within_a_cancelled_scope(
    family: FamilyUnderTest, tmp_path: Path
) -> None:
    released = anyio.Event()

    class Slow(family.http.AsyncByteStream):
        async def aclose(self) -> None:
            await anyio.lowlevel.checkpoint()
            released.set()

    transport = family.transports.RecordingTransport(family.answering(Slow()), tmp_path)
    response = await transport.handle_async_request(family.http.Request("POST", URL))
    with anyio.CancelScope() as scope:
        scope.cancel()
        await response.stream.aclose()
    assert released.is_set()


@pytest.mark.anyio
@each_family
async def test_close_that_never_returns_is_abandoned(
    family: FamilyUnderTest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streamnorm.transports.recorded._CLOSE_S", 0.01)

    class Stuck(family.http.AsyncByteStream):
        async def aclose(self) -> None:
            await anyio.sleep_forever()

    transport = family.transports.RecordingTransport(family.answering(Stuck()), tmp_path)
    response = await transport.handle_async_request(family.http.Request("POST", URL))
    await response.stream.aclose()
    (recording,) = recorded_in(tmp_path)
    assert recording.response.end == "aborted"


@each_family
def test_broken_read_closes_the_connection_itself(family: FamilyUnderTest, tmp_path: Path) -> None:
    source = family.body([], error=Cut("-"), close_error=Cut("while closing"))
    transport = family.transports.RecordingTransport(family.answering(source), tmp_path)
    body = transport.handle_request(family.http.Request("POST", URL)).stream
    with pytest.raises(Cut, match=r"^-$"):
        next(body)
    assert source.closed == 1


@pytest.mark.anyio
@each_family
async def test_discarded_read_is_recorded_as_aborted(
    family: FamilyUnderTest, tmp_path: Path
) -> None:
    """Nothing may be awaited there, so the connection is closed when its owner closes it."""

    class Forever:
        def __await__(self) -> Iterator[None]:
            yield None

    async def silence(_: object) -> None:
        await Forever()

    source = family.async_body([])
    type(source).__anext__ = silence
    transport = family.transports.RecordingTransport(family.answering(source), tmp_path)
    body = (await transport.handle_async_request(family.http.Request("POST", URL))).stream
    reading = anext(body)
    reading.send(None)
    reading.close()
    (recording,) = recorded_in(tmp_path)
    assert recording.response.end == "aborted"
    assert source.closed == 0
    await body.aclose()
    assert source.closed == 1


@pytest.mark.anyio
@each_family
async def test_inner_generators_are_closed_with_the_body(
    family: FamilyUnderTest, tmp_path: Path
) -> None:
    """httpx leaves its own to the garbage collector, which trio warns of."""
    ended: list[str] = []

    class Generators(family.http.SyncByteStream, family.http.AsyncByteStream):
        def __iter__(self) -> Iterator[bytes]:
            try:
                yield from READS
            finally:
                ended.append("sync")

        async def __aiter__(self) -> AsyncIterator[bytes]:
            try:
                for data in READS:
                    yield data
            finally:
                ended.append("async")

    transport = family.transports.RecordingTransport(family.answering(Generators()), tmp_path)
    request = family.http.Request("POST", URL)
    response = transport.handle_request(request)
    next(response.stream)
    response.stream.close()
    assert ended == ["sync"]
    response = await transport.handle_async_request(request)
    await anext(response.stream)
    await response.stream.aclose()
    assert ended == ["sync", "async"]


@pytest.mark.anyio
@each_family
async def test_closed_body_is_recorded_incomplete(family: FamilyUnderTest, tmp_path: Path) -> None:
    transport = family.transports.RecordingTransport(
        family.answering(family.http.ByteStream(READS[0])), tmp_path
    )
    request = family.http.Request("POST", URL)
    body = transport.handle_request(request).stream
    body.close()
    with pytest.raises(family.http.ReadError, match="closed"):
        next(body)
    body = (await transport.handle_async_request(request)).stream
    await body.aclose()
    with pytest.raises(family.http.ReadError, match="closed"):
        await anext(body)


@each_family
def test_request_without_a_response_is_not_recorded(
    family: FamilyUnderTest, tmp_path: Path
) -> None:
    error = family.http.ConnectError("-")

    def refuse(_: Any) -> None:
        raise error

    transport = family.transports.RecordingTransport(family.inner(refuse), tmp_path)
    with pytest.raises(family.http.ConnectError) as raised:
        family.fetch(transport)
    assert raised.value is error
    assert recorded_in(tmp_path) == []
    assert transport.failures == ()


@each_family
def test_request_bodies_are_written_unless_switched_off(
    family: FamilyUnderTest, tmp_path: Path
) -> None:
    for folder, request_bodies in (("with", True), ("without", False)):
        transport = family.transports.RecordingTransport(
            family.answering(family.http.ByteStream(READS[0])),
            tmp_path / folder,
            request_bodies=request_bodies,
        )
        request = family.http.Request("POST", URL, json={"prompt": "private"})
        body = transport.handle_request(request).stream
        assert b"".join(body) == READS[0]
        (recording,) = recorded_in(tmp_path / folder)
        assert recording.request is not None
        assert recording.request.body == ({"prompt": "private"} if request_bodies else UNSET)
