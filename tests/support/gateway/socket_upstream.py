"""An upstream of the Responses API over WebSockets, on a loopback port."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from streamnorm.gateway import Gateway, UpstreamConfig
from support.gateway.calls import called, opened

__all__ = [
    "ANTHROPIC",
    "MESSAGES",
    "SocketUpstream",
    "ask",
    "asked_over_websocket",
    "call_item",
    "echo",
    "event",
    "response_events",
    "said",
    "text_item",
    "text_of",
]

MESSAGES: dict[str, Any] = {"model": "m", "max_tokens": 9, "stream": True}
ANTHROPIC = "/v1/messages"

Answer = Callable[["SocketUpstream", ServerConnection, dict[str, Any]], Awaitable[None]]


def text_item(text: str, id: str = "msg_1") -> dict[str, Any]:
    """Return a message item in the vendor's form."""
    part = {"type": "output_text", "annotations": [], "logprobs": [], "text": text}
    fields = {"id": id, "type": "message", "status": "completed", "content": [part]}
    return {**fields, "role": "assistant"}


def call_item(call_id: str, arguments: str, name: str = "get_weather") -> dict[str, Any]:
    """Return a function call item in the vendor's form."""
    fields = {"id": f"fc_{call_id}", "type": "function_call", "status": "completed"}
    return {**fields, "arguments": arguments, "call_id": call_id, "name": name}


def response_events(
    id: str, items: list[dict[str, Any]], end: str = "completed", **fields: Any
) -> list[dict[str, Any]]:
    """Return the events of a response with text and call items."""
    response = {"id": id, "object": "response", "created_at": 1, "model": "m", **fields}
    begun = {**response, "status": "in_progress", "output": []}
    events: list[dict[str, Any]] = [{"type": "response.created", "response": begun}]
    for at, item in enumerate(items):
        at_item = {"output_index": at, "item_id": item["id"]}
        at_part = {**at_item, "content_index": 0}
        if item["type"] == "reasoning":
            started = {**item, "status": "in_progress", "summary": []}
            events.append(event("response.output_item.added", output_index=at, item=started))
        elif item["type"] == "function_call":
            started = {**item, "status": "in_progress", "arguments": ""}
            delta = {"type": "response.function_call_arguments.delta", "delta": item["arguments"]}
            events += [
                {"type": "response.output_item.added", "output_index": at, "item": started},
                {**delta, **at_item},
            ]
        else:
            started = {**item, "status": "in_progress", "content": []}
            (part,) = item["content"]
            events += [
                {"type": "response.output_item.added", "output_index": at, "item": started},
                event("response.content_part.added", **at_part, part={**part, "text": ""}),
                event("response.output_text.delta", **at_part, delta=part["text"]),
            ]
        events.append({"type": "response.output_item.done", "output_index": at, "item": item})
    usage = {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}
    ended = {**response, "status": end, "output": items, "usage": usage}
    events.append({"type": f"response.{end}", "response": ended})
    return [{**each, "sequence_number": at} for at, each in enumerate(events)]


def event(type: str, **fields: Any) -> dict[str, Any]:
    """Return one event as JSON text."""
    return {"type": type, **fields}


class SocketUpstream:
    """A WebSocket server that stores the received creates.

    Args:
        answer: Answers a create; called with this server, the connection and the create.
        refuse: Returns the response to a handshake, or a request over HTTP; None opens a WebSocket.
        options: Further options of `websockets.serve`.

    Attributes:
        url: Its URL, without a path.
        creates: The creates received.
        sizes: Bytes of each.
        handshakes: Headers of each handshake, or request over HTTP, by lower-case name.
        sockets: The connections that were opened.
        closed: Codes of the connections that the gateway has closed.
    """

    def __init__(
        self,
        answer: Answer,
        refuse: Callable[[ServerConnection, Request], Response | None] | None = None,
        **options: Any,
    ) -> None:
        self.url = ""
        self.creates: list[dict[str, Any]] = []
        self.sizes: list[int] = []
        self.handshakes: list[dict[str, str]] = []
        self.sockets: list[ServerConnection] = []
        self.closed: list[int | None] = []
        self.has_closed = asyncio.Event()
        self._answer = answer
        self._refuse = refuse
        self._options = options

    async def send(self, socket: ServerConnection, *events: dict[str, Any]) -> None:
        """Send events, each as one message."""
        for each in events:
            await socket.send(json.dumps(each, separators=(",", ":")))

    def _handshake(self, connection: ServerConnection, request: Request) -> Response | None:
        self.handshakes.append({name.lower(): text for name, text in request.headers.raw_items()})
        return None if self._refuse is None else self._refuse(connection, request)

    async def _serve(self, socket: ServerConnection) -> None:
        self.sockets.append(socket)
        try:
            async for message in socket:
                self.creates.append(json.loads(message))
                self.sizes.append(len(message))
                await self._answer(self, socket, self.creates[-1])
        except ConnectionClosed:
            pass
        await socket.wait_closed()
        self.closed.append(socket.close_code)
        self.has_closed.set()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[SocketUpstream]:
        """Serve within the block."""
        options = {"max_size": None, "ping_interval": None, "compression": None, **self._options}
        async with serve(
            self._serve, "127.0.0.1", 0, process_request=self._handshake, **options
        ) as server:
            self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            yield self


@asynccontextmanager
async def asked_over_websocket(
    upstream: SocketUpstream, *, options: dict[str, Any] | None = None, **settings: Any
) -> AsyncIterator[Gateway]:
    """Serve an upstream, and provide a gateway that uses it over WebSockets."""
    async with upstream.running():
        config = UpstreamConfig(
            dialect="openai_responses",
            base_url=upstream.url,
            transport="websocket",
            **(options or {}),
        )
        async with opened({"local": config}, **settings) as app:
            yield app


def said(*turns: str) -> list[dict[str, Any]]:
    """Return Anthropic messages alternating between user and assistant."""
    roles = ("user", "assistant")
    return [{"role": roles[at % 2], "content": text} for at, text in enumerate(turns)]


def text_of(body: bytes) -> str:
    """Return the text of an Anthropic stream."""
    found = [json.loads(line[6:]) for line in body.splitlines() if line.startswith(b"data: ")]
    deltas = [each["delta"] for each in found if each["type"] == "content_block_delta"]
    return "".join(delta.get("text", "") for delta in deltas)


async def ask(app: Gateway, *turns: str, **fields: Any) -> tuple[int, bytes]:
    """Send an Anthropic request; return the status and the body."""
    request = {**MESSAGES, "messages": said(*turns), **fields}
    caller = await called(app, ANTHROPIC, request)
    return caller.status, b"".join(caller.bodies)


async def echo(upstream: SocketUpstream, socket: ServerConnection, sent: dict[str, Any]) -> None:
    """Answer with the number of the create."""
    number = len(upstream.creates)
    await upstream.send(socket, *response_events(f"resp_{number}", [text_item(f"It is {number}.")]))
