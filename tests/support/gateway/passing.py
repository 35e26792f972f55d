"""A stream of Chat Completions through the gateway's parts, without a network."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import Any

from streamnorm import Outcome
from streamnorm.aio import Stream
from streamnorm.aio.pump import LargeEventPump
from streamnorm.asgi.responses import Exchange, Message, open_exchange
from streamnorm.asgi.writing import WritingSend
from streamnorm.gateway.chunked_body import ChunkedBody
from streamnorm.gateway.config import Timeouts
from streamnorm.gateway.messages import ClientStream
from streamnorm.gateway.receiving import BodyThread, UpstreamResponse
from streamnorm.gateway.scrubbing import UpstreamKey
from support.gateway.upstreams import ANSWER

__all__ = ["PING", "Passing", "Server", "cut", "passing", "receive"]

PING = b": ping\n\n"


def cut(*events: bytes) -> bytes:
    """Return events as chunks of a body."""
    return b"".join(b"%x\r\n%b\r\n" % (len(event), event) for event in events)


class Response:
    """The head of an upstream's response."""

    def __init__(self, coding: str) -> None:
        self.status = 200
        self.headers = {"content-type": "text/event-stream", "content-encoding": coding}

    def release(self) -> None:
        """Keep the connection."""

    close = release


class Server(WritingSend):
    """A server of one client.

    Attributes:
        written: What was sent by `write`.
        sent: What was sent by messages.
        received: Both, as the client receives them.
        is_full: Whether the client reads too slowly for `write`.
        is_blocked: Set once a message waits for `release`, as all do while `is_full`.
    """

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.sent: list[bytes] = []
        self.received = b""
        self.is_full = False
        self.is_blocked = asyncio.Event()
        self.release = asyncio.Event()

    async def _send(self, message: Message) -> None:
        if self.is_full:
            self.is_blocked.set()
            await self.release.wait()
        self.sent.append(message.get("body", b""))
        self.received += self.sent[-1]

    def __call__(self, message: Message) -> Awaitable[None]:
        return self._send(message)

    def write(self, body: bytes) -> bool:
        if not self.is_full:
            self.written.append(body)
            self.received += body
        return not self.is_full


async def receive() -> Message:
    """Wait for a client that stays."""
    await asyncio.Event().wait()
    raise AssertionError


class Passing:
    """A stream of Chat Completions on its way from an upstream to a client."""

    def __init__(
        self,
        exchange: Exchange,
        server: Server,
        *,
        to: str = "openai_chat",
        keepalive_s: float = 60.0,
        idle_s: float = 60.0,
        key: UpstreamKey | None = None,
        coding: str = "identity",
    ) -> None:
        loop = asyncio.get_running_loop()
        self.server = server
        self.body = ChunkedBody(lambda: None, lambda: None)
        response: Any = Response(coding)
        times = Timeouts(60.0, idle_s, 60.0, 60.0)
        self.answer = UpstreamResponse(
            response, loop.create_future(), times, loop.time(), lambda _: None, key, self.body
        )
        self.outcomes: list[Outcome] = []
        self.pump = LargeEventPump(self.answer, "openai_chat", to, on_end=self.outcomes.append)
        self.answer.decode_ahead(self.pump, BodyThread())
        self.stream = Stream(self.pump, self.answer)
        self.client = ClientStream(exchange, lambda: PING, keepalive_s, lambda _: True)

    async def begin(self) -> asyncio.Task[None]:
        """Begin to pass events on; return the task that sends them."""
        self.answer.pass_on(self.pump, self.client.write)
        await self.client.start({})
        sending = asyncio.create_task(self.client.send_all(self.stream))
        self.body.feed(cut(ANSWER[0]))  # not in the callback: no read waits yet
        await asyncio.sleep(0)
        return sending


@asynccontextmanager
async def passing(**options: Any) -> AsyncIterator[Passing]:
    server = Server()
    async with open_exchange(receive, server) as exchange:
        yield Passing(exchange, server, **options)
