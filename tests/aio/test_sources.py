"""Every kind of source, and objects that are none."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import aiohttp
import anyio
import httpx
import httpx2
import httpx_sse
import pytest
from support.http.byte_source import AsyncBytes, Bytes
from support.http.loopback import HEAD, Server, chunked
from support.openai_chat.chunks import DONE, content

import streamnorm
from streamnorm import (
    LocalProtocolError,
    NotAStream,
    Stream,
    StreamError,
    TextDelta,
    TruncatedStream,
    UpstreamError,
)
from streamnorm.aio.sources import AsyncReader

pytestmark = pytest.mark.anyio

CHUNKS = [content("a"), content("b", "stop"), DONE]
SSE = {"content-type": "text/event-stream"}


async def texts(stream: Stream[Any]) -> str:
    return "".join([e.text async for e in stream if isinstance(e, TextDelta)])


class Body(httpx.AsyncByteStream, httpx2.AsyncByteStream):
    """A body of either client, which counts how often it is closed."""

    def __init__(self, chunks: list[bytes], error: Exception | None = None) -> None:
        self.closed = 0
        self.reads = 0
        self._chunks = chunks
        self._error = error

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for chunk in self._chunks:
            await anyio.lowlevel.checkpoint()
            self.reads += 1
            yield chunk
        if self._error is not None:
            raise self._error

    async def aclose(self) -> None:
        self.closed += 1


class SyncBody(httpx.SyncByteStream, httpx2.SyncByteStream):
    def __init__(self, chunks: list[bytes]) -> None:
        self.closed = 0
        self._chunks = chunks

    def __iter__(self) -> Iterator[bytes]:
        yield from self._chunks

    def close(self) -> None:
        self.closed += 1


def client(family: Any, status: int, headers: dict[str, str], body: Body) -> Any:
    def answer(_: Any) -> Any:
        return family.Response(status, headers=headers, stream=body)

    return family.AsyncClient(transport=family.MockTransport(answer))


families = pytest.mark.parametrize("family", [httpx, httpx2])


@families
async def test_response_is_read_and_closed(family: Any) -> None:
    body = Body(CHUNKS)
    async with client(family, 200, SSE, body) as http, http.stream("POST", "http://x") as response:
        async with streamnorm.events(response) as stream:
            assert await texts(stream) == "ab"
        assert response.is_closed
    assert body.closed == 1


@families
async def test_stream_closes_a_response_of_send(family: Any) -> None:
    body = Body(CHUNKS)
    async with client(family, 200, SSE, body) as http:
        request = http.build_request("POST", "http://x")
        response = await http.send(request, stream=True)
        async with streamnorm.events(response) as stream:
            await anext(stream)
        assert response.is_closed
        assert body.closed == 1


@families
async def test_abandoned_response_leaves_no_generator_open(family: Any) -> None:
    """httpx nests generators and closes none: trio warns of each that is collected."""
    body = Body(CHUNKS * 100)
    http = client(family, 200, SSE, body)
    async with http, http.stream("POST", "http://x") as response, streamnorm.events(response) as it:
        await anext(it)
    assert body.closed == 1
    assert body.reads == 1


# Of the generators of httpx itself, which a plain break leaves, trio warns one by one.
@pytest.mark.filterwarnings("ignore:Async generator 'httpx:ResourceWarning")
@pytest.mark.filterwarnings("ignore:Async generator 'test_sources.Body:ResourceWarning")
@families
async def test_break_within_the_callers_own_response_leaks_nothing(family: Any) -> None:
    body = Body(CHUNKS)
    async with client(family, 200, SSE, body) as http, http.stream("POST", "http://x") as response:
        async for _ in streamnorm.events(response):
            break
    assert response.is_closed
    assert body.closed == 1


@families
async def test_gate_judges_the_head_of_a_response(family: Any) -> None:
    error = b'{"error":{"message":"busy","type":"overloaded"}}'
    http = client(family, 529, {"content-type": "application/json"}, Body([error]))
    async with http, http.stream("POST", "http://x") as response:
        with pytest.raises(UpstreamError, match="busy") as raised:
            await texts(streamnorm.events(response))
    assert raised.value.status == 529


@families
async def test_gate_parses_the_content_type(family: Any) -> None:
    http = client(family, 200, {"Content-Type": "text/HTML; charset=utf-8"}, Body([b"data<"]))
    async with http, http.stream("POST", "http://x") as response:
        with pytest.raises(NotAStream):
            await texts(streamnorm.events(response))


@families
async def test_transport_error_of_a_client_is_the_cause(family: Any) -> None:
    http = client(family, 200, SSE, Body(CHUNKS[:1], family.ReadError("reset")))
    async with http, http.stream("POST", "http://x") as response:
        with pytest.raises(TruncatedStream) as raised:
            await texts(streamnorm.events(response))
    assert isinstance(raised.value.__cause__, family.ReadError)


async def test_event_source_of_httpx_sse_is_read_and_closed() -> None:
    body = Body(CHUNKS)
    http = client(httpx, 200, SSE, body)
    async with http, httpx_sse.aconnect_sse(http, "GET", "http://x") as source:
        assert await texts(streamnorm.events(source)) == "ab"
        assert source.response.is_closed
    assert body.closed == 1


async def test_event_source_is_judged_by_its_response() -> None:
    http = client(httpx, 503, {}, Body([]))
    async with http, httpx_sse.aconnect_sse(http, "GET", "http://x") as source:
        with pytest.raises(UpstreamError, match="HTTP 503"):
            await texts(streamnorm.events(source))


class AiohttpContent:
    """As `aiohttp.StreamReader`: its iterator cannot be closed."""

    def __init__(self, chunks: list[bytes]) -> None:
        self._chunks = iter(chunks)

    def iter_any(self) -> AiohttpContent:
        return self

    def __aiter__(self) -> AiohttpContent:
        return self

    async def __anext__(self) -> bytes:
        for chunk in self._chunks:
            return chunk
        raise StopAsyncIteration


class AiohttpResponse:
    """As `aiohttp.ClientResponse`: `status`, and a close that is not awaited."""

    def __init__(self, chunks: list[bytes], status: int = 200) -> None:
        self.status = status
        self.headers = {"Content-Type": "text/event-stream"}
        self.content = AiohttpContent(chunks)
        self.closed = 0

    def close(self) -> None:
        self.closed += 1


async def test_response_of_aiohttp_is_read_and_closed() -> None:
    response = AiohttpResponse(CHUNKS)
    assert await texts(streamnorm.events(response)) == "ab"
    assert response.closed == 1


async def test_response_of_aiohttp_is_judged() -> None:
    with pytest.raises(UpstreamError, match="HTTP 429"):
        await texts(streamnorm.events(AiohttpResponse([], 429)))


on_asyncio = pytest.mark.parametrize("anyio_backend", ["asyncio"])  # as aiohttp is


@asynccontextmanager
async def answer_of_aiohttp(
    answer: list[bytes], **options: Any
) -> AsyncIterator[aiohttp.ClientResponse]:
    async with (
        Server(answer).running() as server,
        aiohttp.ClientSession(**options) as session,
        session.post(server.url) as response,
    ):
        yield response


ANSWER = [HEAD, chunked(b"".join(CHUNKS)), b"0\r\n\r\n"]
REFUSAL = b'{"error":{"message":"slow down","type":"rate_limit_error"}}'
REFUSED = b"HTTP/1.1 429 No\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b"


@on_asyncio
@pytest.mark.parametrize("method", ["read", "text"])
async def test_body_that_aiohttp_has_read_before_is_read(method: str) -> None:
    async with answer_of_aiohttp(ANSWER) as response:
        await getattr(response, method)()
        async with streamnorm.events(response) as stream:
            assert await texts(stream) == "ab"
        assert response.closed
    assert await texts(streamnorm.events(response)) == "ab"  # it was released meanwhile


@on_asyncio
async def test_error_that_a_hook_of_aiohttp_has_read_is_judged() -> None:
    async def look(response: aiohttp.ClientResponse) -> None:
        await response.read()

    answer = [REFUSED % (len(REFUSAL), REFUSAL)]
    async with answer_of_aiohttp(answer, raise_for_status=look) as response:
        with pytest.raises(UpstreamError, match="slow down") as raised:
            await texts(streamnorm.events(response))
    assert raised.value.status == 429


@on_asyncio
@pytest.mark.parametrize("reads_the_rest", [False, True])
async def test_body_of_aiohttp_that_was_read_in_part_is_refused(reads_the_rest: bool) -> None:
    async with answer_of_aiohttp(ANSWER) as response:
        assert await response.content.read(7) == CHUNKS[0][:7]
        if reads_the_rest:
            await response.read()
        for read in (
            streamnorm.events,
            lambda source: streamnorm.tap(source, print),
            lambda source: streamnorm.transcode(source, to="anthropic"),
        ):
            with pytest.raises(LocalProtocolError) as raised:
                read(response)
            assert "bytes were consumed before, expected one that was not read" in str(raised.value)


@on_asyncio
async def test_body_of_aiohttp_that_was_read_elsewhere_is_refused() -> None:
    async with answer_of_aiohttp(ANSWER) as response:
        assert await response.content.read() == b"".join(CHUNKS)
        with pytest.raises(LocalProtocolError, match="were consumed before"):
            streamnorm.events(response)


async def test_body_of_aiohttp_is_read() -> None:
    assert await texts(streamnorm.events(AiohttpContent(CHUNKS).iter_any())) == "ab"


async def test_generator_is_read_and_closed() -> None:
    ended = []

    async def generate() -> AsyncIterator[bytes]:
        try:
            for piece in CHUNKS:
                yield piece
        finally:
            await anyio.lowlevel.checkpoint()
            ended.append(True)

    async with streamnorm.events(generate()) as stream:
        await anext(stream)
        assert not ended
    assert ended == [True]
    assert await texts(streamnorm.events(generate())) == "ab"


async def test_iterable_that_is_not_its_own_iterator_is_closed_with_its_iterator() -> None:
    body = Body(CHUNKS)
    async with streamnorm.events(body) as stream:
        await anext(stream)
    assert body.closed == 1


async def test_memory_stream_of_anyio_is_read_and_closed() -> None:
    send, receive = anyio.create_memory_object_stream[bytes](10)
    async with send:
        for piece in CHUNKS:
            await send.send(piece)
        assert await texts(streamnorm.events(receive)) == "ab"
        with pytest.raises(anyio.BrokenResourceError):
            await send.send(b"")


async def test_stream_is_a_source_of_another() -> None:
    source = AsyncBytes(CHUNKS)
    seen: list[Any] = []
    stream = streamnorm.transcode(streamnorm.tap(source, seen.append), to="anthropic")
    written = b"".join([chunk async for chunk in stream])
    assert written.endswith(b'{"type":"message_stop"}\n\n')
    assert isinstance(seen[-1], streamnorm.MessageStop)
    assert source.closed == 1


async def test_owner_is_closed_even_if_closing_its_iterator_fails() -> None:
    class Owner:
        def __init__(self) -> None:
            self.closed = 0
            self.iterator = AsyncBytes([], close_error=ZeroDivisionError())

        def __aiter__(self) -> AsyncBytes:
            return self.iterator

        async def aclose(self) -> None:
            self.closed += 1

    owner = Owner()
    with pytest.raises(ZeroDivisionError):
        await streamnorm.events(owner).aclose()
    assert (owner.closed, owner.iterator.closed) == (1, 1)


async def test_status_without_headers_and_headers_without_status_are_no_response() -> None:
    for name, value in (("status_code", 500), ("headers", {"content-type": "text/html"})):
        source = AsyncBytes(CHUNKS)
        setattr(source, name, value)
        assert await texts(streamnorm.events(source)) == "ab"


async def test_unwinding_of_a_response_that_never_stops_is_bounded() -> None:
    class Endless:
        reads = 0

        def aiter_bytes(self) -> Endless:
            return self

        def __aiter__(self) -> Endless:
            return self

        async def __anext__(self) -> bytes:
            self.reads += 1
            return content("a")

        async def aclose(self) -> None:
            pass

    response = Endless()
    async with streamnorm.events(response) as stream:
        await anext(stream)
    assert response.reads == 1 + 4096


@pytest.mark.parametrize("source", [None, 1, b"data: x\n\n", [b"data: x\n\n"], object()])
async def test_object_that_is_no_source_raises_type_error(source: Any) -> None:
    with pytest.raises(TypeError, match="is no source, expected a response with aiter_bytes"):
        streamnorm.events(source)
    with pytest.raises(TypeError, match=f"^{type(source).__name__} is no source"):
        AsyncReader(source)


# Synchronous sources


def sync_texts(stream: streamnorm.SyncStream[Any]) -> str:
    return "".join([event.text for event in stream if isinstance(event, TextDelta)])


@pytest.mark.parametrize("family", [httpx, httpx2])
def test_synchronous_response_is_read_and_closed(family: Any) -> None:
    body = SyncBody(CHUNKS)
    transport = family.MockTransport(lambda _: family.Response(200, headers=SSE, stream=body))
    with family.Client(transport=transport) as http, http.stream("GET", "http://x") as response:
        with streamnorm.iter_events(response) as stream:
            assert next(stream)
        assert response.is_closed
    assert body.closed == 1


def test_synchronous_response_is_judged() -> None:
    transport = httpx.MockTransport(lambda _: httpx.Response(503, content=b"sorry"))
    with httpx.Client(transport=transport) as http, http.stream("GET", "http://x") as response:
        stream = streamnorm.iter_events(response)
        with pytest.raises(UpstreamError, match="HTTP 503"):
            next(stream)


def test_synchronous_event_source_is_read() -> None:
    body = SyncBody(CHUNKS)
    transport = httpx.MockTransport(lambda _: httpx.Response(200, headers=SSE, stream=body))
    http = httpx.Client(transport=transport)
    with http, httpx_sse.connect_sse(http, "GET", "http://x") as source:
        assert sync_texts(streamnorm.iter_events(source)) == "ab"
    assert body.closed == 1


def test_iterables_of_bytes_are_read() -> None:
    assert sync_texts(streamnorm.iter_events(CHUNKS)) == "ab"
    assert sync_texts(streamnorm.iter_events(iter(CHUNKS))) == "ab"
    assert sync_texts(streamnorm.iter_events(piece for piece in CHUNKS)) == "ab"


def test_file_is_read_and_closed() -> None:
    file = io.BytesIO(b"".join(CHUNKS))
    assert sync_texts(streamnorm.iter_events(file)) == "ab"
    assert file.closed


def test_synchronous_owner_is_closed_even_if_closing_its_iterator_fails() -> None:
    class Owner:
        closed = 0
        iterator = Bytes([], close_error=ZeroDivisionError())

        def __iter__(self) -> Bytes:
            return self.iterator

        def close(self) -> None:
            self.closed += 1

    owner = Owner()
    with pytest.raises(ZeroDivisionError):
        streamnorm.iter_events(owner).close()
    assert (owner.closed, owner.iterator.closed) == (1, 1)


@pytest.mark.parametrize("source", [None, 1, b"data: x\n\n", bytearray(b"x"), "data: x", object()])
def test_object_that_is_no_synchronous_source_raises_type_error(source: Any) -> None:
    with pytest.raises(TypeError, match=f"^{type(source).__name__} is no source, expected a resp"):
        streamnorm.iter_events(source)


def answering(family: Any, asynchronous: bool) -> Any:
    """Return a client whose responses are the chunks of a whole message."""
    body: Any = Body([content("a"), DONE]) if asynchronous else SyncBody([content("a"), DONE])

    def answer(_: Any) -> Any:
        return family.Response(200, headers=SSE, stream=body)

    kind = family.AsyncClient if asynchronous else family.Client
    return kind(transport=family.MockTransport(answer))


@families
async def test_response_of_the_other_kind_of_client_is_named_at_once(family: Any) -> None:
    synchronous = "a response of a synchronous client, expected a response of an asynchronous"
    asynchronous = "a response of an asynchronous client, expected a response of a synchronous"
    with answering(family, False) as sync, sync.stream("GET", "http://x") as response:
        for read in (streamnorm.events, partial(streamnorm.transcode, to="anthropic")):
            with pytest.raises(TypeError, match=synchronous):
                read(response)
        # What was read whole is held, and has no kind.
        response.read()
        assert [event async for event in streamnorm.events(response)]
    async with answering(family, True) as client, client.stream("GET", "http://x") as response:
        for read in (streamnorm.iter_events, partial(streamnorm.iter_transcode, to="anthropic")):
            with pytest.raises(TypeError, match=asynchronous):
                read(response)
        await response.aread()
        assert list(streamnorm.iter_events(response))


@families
async def test_response_that_was_read_in_part_or_closed_is_misuse(family: Any) -> None:
    consumed = "body that was consumed before, expected one that was not read, or read whole"
    closed = "response that was closed before, expected an open one"
    async with answering(family, True) as client:
        async with client.stream("GET", "http://x") as response:
            assert [chunk async for chunk in response.aiter_raw()]  # which holds nothing
            with pytest.raises(LocalProtocolError, match=consumed):
                streamnorm.events(response)
        async with client.stream("GET", "http://x") as response:
            pass
        with pytest.raises(LocalProtocolError, match=closed):
            streamnorm.events(response)
    with answering(family, False) as sync:
        with sync.stream("GET", "http://x") as response:
            next(response.iter_bytes())
            with pytest.raises(LocalProtocolError, match=consumed):
                streamnorm.iter_events(response)
        with sync.stream("GET", "http://x") as response:
            pass
        with pytest.raises(LocalProtocolError, match=closed):
            streamnorm.iter_events(response)


async def test_fault_of_a_generator_is_no_lost_connection() -> None:
    async def broken() -> AsyncIterator[bytes]:
        yield content("a")
        raise KeyError("a")

    with pytest.raises(TruncatedStream, match="the source failed after 1 event, before") as raised:
        [event async for event in streamnorm.events(broken())]
    assert isinstance(raised.value.__cause__, KeyError)
    events = [event async for event in streamnorm.events(broken(), errors="yield")]
    assert isinstance(events[-1], StreamError)
    assert events[-1].retryable is False
