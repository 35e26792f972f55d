"""Bodies in chunks: read as RFC 9112 says, no further than they go, and as aiohttp reads them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from typing import Self

import pytest
from aiohttp import ClientPayloadError, ClientSession
from aiohttp.base_protocol import BaseProtocol
from aiohttp.http import HttpResponseParser
from aiohttp.http_exceptions import HttpProcessingError
from hypothesis import given
from support.draws import Draws, draws
from support.streams.mutations import chunked as cut

from streamnorm.gateway.chunked_body import BrokenFraming, ChunkedBody
from streamnorm.gateway.network import Connector, Request, Response, open_session

pytestmark = [pytest.mark.anyio, pytest.mark.on_asyncio]

HEAD = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
HELLO = b"5\r\nhello\r\n"
WORLD = b"6;name=value\r\n world\r\n"
END = b"0\r\n\r\n"


class Connection:
    """Counts how often the reading of a connection is stopped and started again."""

    def __init__(self) -> None:
        self.pauses = self.resumes = 0

    def body(self) -> ChunkedBody:
        return ChunkedBody(self.pause, self.resume)

    def pause(self) -> None:
        self.pauses += 1

    def resume(self) -> None:
        self.resumes += 1


def feed(body: ChunkedBody, pieces: list[bytes]) -> bytes | None:
    """Feed the pieces up to the body's end; return what is behind it, or None before it."""
    for number, piece in enumerate(pieces):
        rest = body.feed(piece)
        if rest is not None:
            return rest + b"".join(pieces[number + 1 :])
    return None


async def read(body: ChunkedBody) -> bytes:
    parts: list[bytes] = []
    while part := await body.readany():
        parts.append(part)
    return b"".join(parts)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize(
    ("data", "rest"),
    [
        (HELLO + WORLD + END, b""),
        (HELLO + WORLD + END + b"HTTP/1.1 200", b"HTTP/1.1 200"),
        (HELLO + WORLD + b"0\r\nx-checksum: 1\r\nx: 5\r\n\r\n", b""),
        (b"5\r\nhello\r\n00006\r\n world\r\n000\r\n\r\n\r\n", b"\r\n"),
        (b'b;a=b;c="d;\\"e"\r\nhello world\r\n0;last\r\n\r\n', b""),
        (b"B\r\nhello world\r\n0\r\n\r\n", b""),
    ],
)
async def test_body_is_read_to_its_end(data: bytes, rest: bytes, size: int) -> None:
    body = Connection().body()
    assert feed(body, cut(data, size)) == rest
    assert body.is_eof()
    assert not body.at_eof()
    assert await read(body) == b"hello world"
    assert body.at_eof()


async def test_each_part_of_a_chunk_is_returned_as_it_arrives() -> None:
    body = Connection().body()
    body.feed(b"b\r\nhel")
    assert await body.readany() == b"hel"
    body.feed(b"lo ")
    body.feed(b"wor")
    assert await body.readany() == b"lo wor"
    assert not body.is_eof()


async def test_reader_waits_for_the_next_chunk() -> None:
    body = Connection().body()
    reading = asyncio.create_task(body.readany())
    await asyncio.sleep(0)
    body.feed(b"")
    await asyncio.sleep(0)
    assert not reading.done()
    body.feed(HELLO)
    assert await reading == b"hello"


@pytest.mark.parametrize("size", [1, 3, 1000])
@pytest.mark.parametrize(
    "data",
    [
        b"g\r\n",
        b"\r\nhello\r\n",
        b" 5\r\nhello\r\n",
        b"+5\r\nhello\r\n",
        b"0x5\r\nhello\r\n",
        b"1_0\r\nhello\r\n",
        b"-1\r\nhello\r\n",
        b"5\nhello\r\n" + END,
        b"5;a\nb\r\nhello\r\n" + END,
        b"5\r\nhellohello\r\n",
        b"5\r\nhello\n" + END,
        b"5\r\nhello\rx",
        HELLO + b"\r\n" + HELLO,
        b"0\n\n\n",
        b"5 ;a\r\nhello\r\n",
        b"5;\r\nhello\r\n",
        b"5;a=\r\nhello\r\n",
        b"1" * 16 + b"\r\n",
        b"5;" + b"x" * 2000,
        b"0\r\n" + b"x: y\r\n" * 2000,
        b"0\r\n" + b"x" * 9000,
        b"0\r\nno field\r\n\r\n",
        b"0\r\nx: y\n\r\n",
        b"0\r\nx: y\n\n",
    ],
)
async def test_other_framing_is_refused(data: bytes, size: int) -> None:
    body = Connection().body()
    with pytest.raises(BrokenFraming):
        feed(body, cut(data, size))
    assert not body.is_eof()


async def test_exception_ends_the_body() -> None:
    body = Connection().body()
    reading = asyncio.create_task(body.readany())
    await asyncio.sleep(0)
    error = BrokenFraming("a line that is none")
    body.set_exception(error)
    with pytest.raises(BrokenFraming):
        await reading
    assert body.exception() is error
    assert not body.at_eof()


@pytest.mark.parametrize("chunk", [b"x" * 10_000, b"x"])
async def test_connection_waits_for_a_slow_reader(chunk: bytes) -> None:
    connection = Connection()
    body = connection.body()
    sent = 0
    while not connection.pauses:
        body.feed(b"%x\r\n%b\r\n" % (len(chunk), chunk))
        sent += 1
        assert sent * (len(chunk) + 64) < 200_000
    body.feed(HELLO)
    assert (connection.pauses, connection.resumes) == (1, 0)
    assert len(await body.readany()) == sent * len(chunk) + 5
    assert (connection.pauses, connection.resumes) == (1, 1)


class _Protocol(BaseProtocol):
    def pause_reading(self) -> None:
        pass


def _read_by_aiohttp(data: bytes, loop: asyncio.AbstractEventLoop) -> tuple[bytes, bytes] | None:
    """Return the body as aiohttp reads it, and what it leaves; None if it refuses the data."""
    parser = HttpResponseParser(_Protocol(loop), loop, 2**16, auto_decompress=False)
    ((_, body),), _, _ = parser.feed_data(HEAD)
    try:
        # Byte by byte: what is behind the body would be the next response.
        for number in range(len(data)):
            parser.feed_data(data[number : number + 1])
            if body.is_eof():
                return body.read_nowait(), data[number + 1 :]
    except HttpProcessingError:
        pass
    return None


def _chunks(d: Draws) -> bytes:
    """Return a body in chunks, of which some bytes may be changed."""
    data = bytearray()
    for _ in range(d.below(4)):
        text = d.text(1, 20, "a0;\r\n").encode()
        data += b"%b%x%b\r\n" % (b"0" * d.below(2), len(text), d.pick([b"", b";a=b"]))
        data += text + b"\r\n"
    data += d.pick([END, b"0\r\na: b\r\n\r\n"]) + d.pick([b"", b"HTTP"])
    for _ in range(d.pick([0, 0, 1, 2])):
        place = d.below(len(data))
        data[place : place + d.below(2)] = d.pick([b"", b"\r", b"\n", b"5", b";", b" "])
    return bytes(data)


@given(d=draws(100))
async def test_what_is_accepted_is_read_by_aiohttp_alike(d: Draws) -> None:
    data = _chunks(d)
    body = Connection().body()
    try:
        rest = feed(body, cut(data, 1 + d.below(9)))
    except BrokenFraming:
        return
    read_alike = _read_by_aiohttp(data, asyncio.get_running_loop())
    if rest is None:
        assert read_alike is None
    else:
        assert read_alike == (await read(body), rest)


# At a connection


class Upstream:
    """A server that answers each request with the next of its responses, in the given pieces.

    Attributes:
        url: Its URL.
        connections: Number of connections that were opened.
    """

    def __init__(self, responses: list[list[bytes]]) -> None:
        self.url = ""
        self.connections = 0
        self._responses = iter(responses)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Self]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        async with server:
            self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
            yield self

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        with closing(writer):
            while not reader.at_eof():
                try:
                    await reader.readuntil(b"\r\n\r\n")
                except asyncio.IncompleteReadError:
                    return
                for piece in next(self._responses):
                    if not piece:
                        return
                    writer.write(piece)
                    await asyncio.sleep(0.01)  # a segment for each


@asynccontextmanager
async def answers(*responses: list[bytes]) -> AsyncIterator[tuple[Upstream, ClientSession]]:
    async with (
        Upstream(list(responses)).running() as upstream,
        open_session(Connector(), request_class=Request, response_class=Response) as session,
    ):
        yield upstream, session


async def asked(session: ClientSession, upstream: Upstream) -> Response:
    response = await session.get(upstream.url)
    assert isinstance(response, Response)
    return response


async def assert_reads_hello(session: ClientSession, upstream: Upstream) -> None:
    response = await asked(session, upstream)
    assert response.body is not None
    assert await read(response.body) == b"hello world"
    response.release()


WHOLE = [HEAD, HELLO, WORLD, END]


@pytest.mark.parametrize(
    "pieces",
    [
        WHOLE,
        [HEAD + HELLO[:4], HELLO[4:] + WORLD + END],
        [HEAD[:-2], HEAD[-2:] + HELLO, WORLD + END[:3], END[3:]],
        [HEAD[:-1], HEAD[-1:], b"5\r", b"\nhello\r\n" + WORLD, b"0\r\na: b\r\n", b"\r\n"],
    ],
)
async def test_connection_serves_one_body_after_the_other(pieces: list[bytes]) -> None:
    async with answers(pieces, WHOLE) as (upstream, session):
        for _ in range(2):
            await assert_reads_hello(session, upstream)
        assert upstream.connections == 1


async def test_bytes_behind_a_body_drop_its_connection() -> None:
    late = b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nlate"
    async with answers([*WHOLE[:-1], END + late], WHOLE) as (upstream, session):
        for _ in range(2):
            await assert_reads_hello(session, upstream)
        assert upstream.connections == 2


async def test_broken_chunk_ends_body_and_connection() -> None:
    async with answers([HEAD, HELLO, b"5\r\nhello, 5\r\n"], WHOLE) as (upstream, session):
        response = await asked(session, upstream)
        assert response.body is not None
        assert await response.body.readany() == b"hello"
        with pytest.raises(BrokenFraming):
            await read(response.body)
        response.close()
        await assert_reads_hello(session, upstream)
        assert upstream.connections == 2


async def test_connection_that_is_lost_within_a_body() -> None:
    async with answers([HEAD, HELLO, b""]) as (upstream, session):
        response = await asked(session, upstream)
        assert response.body is not None
        with pytest.raises(ClientPayloadError, match="within a chunked body"):
            await read(response.body)
        response.close()


@pytest.mark.parametrize(
    "pieces",
    [
        # The whole body, or another framing; a head whose end only a lenient reader finds.
        [HEAD + HELLO + WORLD + END],
        [b"HTTP/1.1 200 OK\r\ncontent-length: 11\r\n\r\n", b"hello world"],
        [HEAD.replace(b"\r\n", b"\n"), HELLO, WORLD, END],
        [b"HTTP/1.1 103 Early Hints\r\n\r\n" + HEAD, HELLO, WORLD, END],
    ],
)
async def test_other_bodies_are_read_by_aiohttp(pieces: list[bytes]) -> None:
    async with answers(pieces) as (upstream, session):
        response = await asked(session, upstream)
        assert response.body is None
        assert await response.read() == b"hello world"


async def test_response_of_another_class_is_read_by_aiohttp() -> None:
    async with (
        answers(WHOLE) as (upstream, _),
        open_session(Connector(), request_class=Request) as session,
    ):
        response = await session.get(upstream.url)
        assert await response.read() == b"hello world"
