"""The server side of an ASGI request, and streams to send to it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import anyio

import streamnorm
from streamnorm import Stream
from streamnorm.asgi import EventStreamResponse, MessageResponse
from support.http.byte_source import AsyncResponse
from support.openai_chat.chunks import DONE, content

__all__ = [
    "CHUNKS",
    "HEADERS",
    "PING",
    "UNANSWERED",
    "Client",
    "Message",
    "refused",
    "transcode",
]

CHUNKS = [content("a"), content("b"), content("c", "stop"), DONE]
PING = b'event: ping\ndata: {"type":"ping"}\n\n'
HEADERS = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-cache, no-transform",
    "x-accel-buffering": "no",
}

Message = dict[str, Any]

# What a middleware gets for a client that has left before its answer.
UNANSWERED: list[Message] = [
    {"type": "http.response.start", "status": 499, "headers": []},
    {"type": "http.response.body", "body": b""},
]


class Client:
    """The server side of one request.

    Attributes:
        messages: What the response sent.
        gone: Set it to hang up.
    """

    def __init__(self, on_send: Callable[[Message], Awaitable[None]] | None = None) -> None:
        self.messages: list[Message] = []
        self.gone = anyio.Event()
        self._on_send = on_send

    async def receive(self) -> Message:
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        self.messages.append(message)
        if self._on_send is not None:
            await self._on_send(message)

    async def request(self, response: EventStreamResponse | MessageResponse) -> None:
        await response({"type": "http"}, self.receive, self.send)

    @property
    def status(self) -> int:
        return int(self.messages[0]["status"])

    @property
    def headers(self) -> dict[str, str]:
        return {name.decode(): value.decode() for name, value in self.messages[0]["headers"]}

    @property
    def bodies(self) -> list[bytes]:
        return [message["body"] for message in self.messages[1:]]

    @property
    def finished(self) -> bool:
        return bool(self.messages) and self.messages[-1].get("more_body") is False


def transcode(source: Any, **options: Any) -> Stream[bytes]:
    return streamnorm.transcode(source, to="anthropic", **options)


def refused(body: bytes, status: int, content_type: str = "application/json") -> AsyncResponse:
    """Return a response that is no stream."""
    return AsyncResponse([body], status, content_type)
