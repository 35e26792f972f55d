"""Events that are passed on where their bytes arrive, without a turn of the event loop."""

from __future__ import annotations

import asyncio
import gzip
from typing import NoReturn

import httpx
import pytest
from support.gateway.passing import PING, Passing, Server, cut, passing, receive
from support.gateway.servers import SERVERS, ServerName, served_gateway
from support.gateway.upstreams import (
    ABORT,
    ANSWER,
    REQUESTS,
    Head,
    Records,
    Step,
    StepUpstream,
    asked,
    opened,
)
from support.openai_chat.chunks import DONE, chunk, content
from support.unloaded_loop import UnloadedLoop

from streamnorm import Completed, Outcome, Truncated
from streamnorm.asgi.responses import Message, open_exchange
from streamnorm.codec import decoder
from streamnorm.gateway.chunked_body import BrokenFraming, ChunkedBody
from streamnorm.gateway.receiving import LARGE_BYTES
from streamnorm.gateway.scrubbing import UpstreamKey

pytestmark = [pytest.mark.anyio, pytest.mark.on_asyncio]

FIRST, LAST = ANSWER[0], b"".join(ANSWER[1:])


class Reading:
    """A body of which a read waits, and whose bytes are passed on unless `is_full`."""

    def __init__(self) -> None:
        self.body = ChunkedBody(lambda: None, lambda: None)
        self.passed: list[bytes] = []
        self.is_full = False
        self.body.pass_on = self._pass_on

    async def wait(self) -> asyncio.Task[bytes]:
        reading = asyncio.create_task(self.body.readany())
        await asyncio.sleep(0)
        return reading

    def _pass_on(self, data: bytes) -> bool:
        if not self.is_full:
            self.passed.append(data)
        return not self.is_full


async def test_bytes_for_a_read_that_waits_are_passed_on() -> None:
    r = Reading()
    r.body.feed(cut(b"early"))
    assert await r.body.readany() == b"early"
    reading = await r.wait()
    for data in (cut(b"one"), cut(b"two", b"three"), b"4\r\nfo", b"ur\r", b"\n"):
        r.body.feed(data)
    await asyncio.sleep(0)
    assert r.passed == [b"one", b"twothree", b"fo", b"ur"]
    assert not reading.done()
    r.body.feed(b"0\r\n\r\n")
    assert await reading == b""
    assert r.body.at_eof()


async def test_read_returns_what_is_not_passed_on_before_all_that_follows() -> None:
    r = Reading()
    reading = await r.wait()
    r.body.feed(cut(b"one"))
    r.is_full = True
    r.body.feed(cut(b"two"))
    r.is_full = False
    r.body.feed(cut(b"three"))
    r.body.feed(cut(b"four"))
    assert await reading == b"two"
    assert await r.body.readany() == b"threefour"
    assert r.passed == [b"one"]


async def test_exception_follows_the_bytes_that_were_not_passed_on() -> None:
    r = Reading()
    r.is_full = True
    reading = await r.wait()
    r.body.feed(cut(b"one"))
    r.body.set_exception(BrokenFraming())
    assert await reading == b"one"
    with pytest.raises(BrokenFraming):
        await r.body.readany()


async def test_read_returns_many_bytes_and_the_last_ones() -> None:
    """Other connections get their turn before many bytes are worked on."""
    r = Reading()
    reading = await r.wait()
    many = b"x" * 20_000
    r.body.feed(cut(many))
    assert await reading == many
    reading = await r.wait()
    r.body.feed(cut(b"last") + b"0\r\n\r\n")
    assert await reading == b"last"
    assert r.passed == []


async def test_bytes_behind_a_cancelled_read_are_kept() -> None:
    r = Reading()
    reading = await r.wait()
    reading.cancel()
    r.body.feed(cut(b"one"))
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert r.passed == []
    assert await r.body.readany() == b"one"


async def read_again() -> None:
    """Let a task that was woken go on to its next read."""
    for _ in range(3):
        await asyncio.sleep(0)


async def test_read_that_is_cancelled_with_its_bytes_returns_them_to_the_next() -> None:
    r = Reading()
    r.is_full = True
    reading = await r.wait()
    r.body.feed(cut(b"one"))
    reading.cancel()
    r.body.feed(cut(b"two"))
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert await r.body.readany() == b"onetwo"
    reading = await r.wait()
    r.body.set_exception(ConnectionResetError())
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    with pytest.raises(ConnectionResetError):
        await r.body.readany()


async def test_events_are_written_as_they_arrive() -> None:
    async with passing() as p:
        sending = await p.begin()
        for text in "xyz":
            p.body.feed(cut(content(text)))
            assert p.server.written[-1] == content(text)
        half = len(content("!")) // 2
        p.body.feed(cut(content("!")[:half]))  # nothing to write yet
        assert p.server.written[-1] == content("z")
        p.body.feed(cut(content("!")[half:]))
        assert p.server.written[-1] == content("!")
        p.body.feed(cut(LAST) + b"0\r\n\r\n")
        await sending
    assert p.server.sent == [b"", FIRST, LAST, b""]
    assert isinstance(p.outcomes[0], Completed)


async def test_client_that_reads_slowly_gets_all_in_order() -> None:
    async with passing() as p:
        sending = await p.begin()
        p.body.feed(cut(content("1")))
        p.server.is_full = True
        p.body.feed(cut(content("2")))
        p.body.feed(cut(content("3")))
        await p.server.is_blocked.wait()
        p.body.feed(cut(content("4")))
        p.server.is_full = False
        p.body.feed(cut(content("5")))  # not before those that wait
        assert p.server.written == [content("1")]
        p.server.release.set()
        await asyncio.sleep(0.01)
        p.body.feed(cut(content("6")))
        p.body.feed(cut(LAST))
        await sending
    assert p.server.written == [content("1"), content("6")]
    rest = b"".join(map(content, "345"))
    assert p.server.sent == [b"", FIRST, content("2"), rest, LAST, b""]


async def test_event_waits_for_a_ping_that_is_being_sent() -> None:
    async with passing(keepalive_s=0.001) as p:
        sending = await p.begin()
        with p.client.watch(0.001, 60.0):
            p.server.is_full = True
            await p.server.is_blocked.wait()
            p.server.is_full = False
            p.body.feed(cut(content("1")))
            assert p.server.written == []
            p.server.release.set()
            p.body.feed(cut(LAST))
            await sending
    assert p.server.sent[:4] == [b"", FIRST, PING, content("1")]


async def test_end_in_a_read_of_its_own_is_read_by_the_stream() -> None:
    async with passing() as p:
        sending = await p.begin()
        p.body.feed(cut(LAST))
        await asyncio.sleep(0)
        p.body.feed(cut(b": late\n\n"))
        p.body.feed(b"0\r\n\r\n")
        await sending
    assert p.server.written == []
    assert p.server.sent == [b"", FIRST, LAST, b""]
    assert p.body.at_eof()


@pytest.mark.parametrize("pause_s", [0.9, 2.1])
def test_event_that_is_passed_on_is_a_sign_of_life(pause_s: float) -> None:
    """An upstream is late only after a silence, and the client gets pings only in one."""

    async def send_events() -> Passing:
        async with passing(keepalive_s=0.95, idle_s=1.0) as p:
            sending = await p.begin()
            with p.client.watch(0.95, 60.0):
                for _ in range(10):
                    await asyncio.sleep(pause_s)
                    p.body.feed(cut(content("1")))
                p.body.feed(cut(LAST))
                await sending
        return p

    with asyncio.Runner(loop_factory=UnloadedLoop) as runner:
        passed = runner.run(send_events())
    if pause_s < 1:
        assert passed.server.received == FIRST + content("1") * 10 + LAST
    else:
        assert PING in passed.server.received
        assert isinstance(passed.outcomes[0], Truncated)


async def test_lost_connection_is_reported_behind_what_was_written() -> None:
    async with passing() as p:
        sending = await p.begin()
        p.body.feed(cut(content("1")))
        p.answer.fail(ConnectionResetError())
        await sending
    assert p.server.written == [content("1")]
    assert b'"error"' in p.server.sent[2]
    assert isinstance(p.outcomes[0], Truncated)


async def test_fault_of_the_decoding_is_raised_where_the_stream_is_read() -> None:
    def refuse(_data: bytes) -> NoReturn:
        raise ValueError("a fault")

    async with passing() as p:
        sending = await p.begin()
        p.answer.pass_on(p.pump, refuse)
        p.body.feed(cut(content("1")))
        with pytest.raises(ValueError, match="a fault"):
            await sending


async def test_large_event_is_left_to_the_stream() -> None:
    """Which decodes it in the body thread."""
    event = content("x" * LARGE_BYTES)
    async with passing() as p:
        sending = await p.begin()
        for start in range(0, len(event), 8000):
            p.body.feed(cut(event[start : start + 8000]))
            await asyncio.sleep(0)
        p.body.feed(cut(LAST))
        await sending
    assert p.server.written == []
    assert p.server.received == FIRST + event + LAST


async def test_each_event_is_decoded_once_however_much_the_encoder_holds() -> None:
    """The last events of Responses repeat all text, and are large beyond some of it."""
    texts = [str(number) * 8000 for number in range(40, 90)]
    assert len("".join(texts)) > 2 * LARGE_BYTES
    async with passing(to="openai_responses") as p:
        sending = await p.begin()
        for text in texts:
            p.server.is_full = True
            p.body.feed(cut(content(text)))
            p.server.is_full = False
            await read_again()
        p.body.feed(cut(LAST))
        await sending
    text, outcome = _texts(p.server.received, "openai_responses")
    assert text == "a" + "".join(texts) + "b"
    assert isinstance(outcome, Completed)


@pytest.mark.parametrize("is_full", [False, True])
@pytest.mark.parametrize("size", [1, 7, 100])
async def test_key_of_the_upstream_is_masked(size: int, *, is_full: bool) -> None:
    key = "sk-of-the-upstream"
    events = content(key) + content("sk-of-") + content("sk-") + LAST
    async with passing(key=UpstreamKey(key)) as p:
        sending = await p.begin()
        for start in range(0, len(events), size):
            p.server.is_full = is_full
            p.body.feed(cut(events[start : start + size]))
            p.server.is_full = False
            await read_again()
        await sending
    assert bool(p.server.written) is not is_full
    masked = events.replace(key.encode(), b"x" * len(key))
    assert p.server.received == FIRST + masked


async def test_coded_body_is_decoded() -> None:
    coded = gzip.compress(FIRST + content("1") + LAST)
    async with passing(coding="gzip") as p:
        p.answer.pass_on(p.pump, p.client.write)
        await p.client.start({})
        sending = asyncio.create_task(p.client.send_all(p.stream))
        await asyncio.sleep(0)
        p.body.feed(cut(coded))
        await sending
    assert p.server.written == []
    assert p.server.received == FIRST + content("1") + LAST


async def test_event_of_many_lines_is_left_to_the_stream() -> None:
    """Which lets other tasks run between its parts."""
    lines = b": c\n" * 2000 + b"\n"
    async with passing() as p:
        sending = await p.begin()
        p.body.feed(cut(lines))
        p.body.feed(cut(LAST))
        await sending
    assert p.server.written == []
    assert p.server.received == FIRST + lines + LAST


async def test_closed_connection_of_the_client_is_found_by_a_message() -> None:
    class Closed(Server):
        def write(self, body: bytes) -> bool:
            raise OSError

    async with open_exchange(receive, Closed()) as exchange:
        assert not exchange.write(b"data: {}\n\n")


async def test_middleware_sees_each_chunk() -> None:
    server = Server()

    async def send(message: Message) -> None:
        await server(message)

    async with open_exchange(receive, send) as exchange:
        assert not exchange.can_write
        assert not exchange.write(b"data: {}\n\n")
    assert server.written == []


def _texts(data: bytes, client: str) -> tuple[str, Outcome | None]:
    reader = decoder(client)
    events = [*reader.feed(data), *reader.close()]
    return "".join(getattr(event, "text", "") for event in events), reader.outcome


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("client", REQUESTS)
async def test_events_one_by_one_are_the_same_from_each_server(
    client: str, server: ServerName
) -> None:
    texts = [f"{number} " for number in range(200)]
    steps: list[Step] = [Head(), FIRST]
    for text in texts:
        steps += [content(text), 0.0]
    steps += [chunk({}, "stop"), DONE]
    async with served_gateway(StepUpstream(steps), server=server) as gateway:
        response = await asked(gateway.url, client)
    text, outcome = _texts(response.content, client)
    assert text == "a" + "".join(texts)
    assert isinstance(outcome, Completed)


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("ends", [True, False])
async def test_upstream_waits_for_a_client_that_reads_slowly(
    server: ServerName, *, ends: bool
) -> None:
    """All of the stream arrives once the client reads, and nothing but that."""
    text = "x" * 8000
    last = chunk({}, "stop") + DONE
    end = last if ends else ABORT
    upstream, records = StepUpstream([Head(), FIRST, *[content(text)] * 3000, end]), Records()
    async with (
        served_gateway(upstream, server=server, observers=(records,)) as gateway,
        httpx.AsyncClient(timeout=30) as http,
        opened(http, gateway.url, "openai_chat") as response,
    ):
        await upstream.blocked()
        assert upstream.sent < 3000
        data = b"".join([piece async for piece in response.aiter_raw()])
    whole = FIRST + content(text) * 3000
    assert data.startswith(whole)
    assert (data == whole + last) if ends else b'"error"' in data[len(whole) :]
    await records.one.wait()
    assert isinstance(records.ended[0].outcome, Completed if ends else Truncated)
