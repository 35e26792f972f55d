"""In-process WebSocket clients of a gateway, without a server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

from support.http.asgi_client import Message

__all__ = ["ENDS", "Socket", "connected", "create"]

ENDS = ("response.completed", "response.incomplete", "response.failed", "error")
_WAIT_S = 10


def create(text: str = "Hi.", **fields: Any) -> dict[str, Any]:
    """Return a create with one message and `store` false."""
    return {"type": "response.create", "model": "m", "input": text, "store": False, **fields}


class Socket:
    """A client that has sent its handshake.

    Attributes:
        closed: Code with which the gateway closed the connection; None while it has not.
        accepted: Message that accepted the handshake; None before, and if it was refused.
        denied: Status and body of the response that refused it; None if none did.
        can_send: Clear it to take nothing, as a server whose client does not read.
        is_held: Whether a message waits for that.
        is_gone: Whether the client has left, which a server finds when it sends.
        fault: Raised by the server at the next message.
    """

    def __init__(self) -> None:
        self.closed: int | None = None
        self.accepted: Message | None = None
        self.denied: tuple[int, dict[str, str], Any] | None = None
        self.can_send = asyncio.Event()
        self.can_send.set()
        self.is_held = False
        self._to_app: asyncio.Queue[Message] = asyncio.Queue()
        self._to_client: asyncio.Queue[Message | None] = asyncio.Queue()
        self._start: Message = {}
        self.is_gone = False
        self.fault: Exception | None = None

    async def receive(self) -> Message:
        """Return the client's next message: the gateway's ASGI `receive`."""
        return await self._to_app.get()

    async def take(self, message: Message) -> None:
        """Store a message of the gateway: its ASGI `send`."""
        self.is_held = not self.can_send.is_set()
        await self.can_send.wait()
        fault, self.fault = self.fault, None
        if fault is not None:
            raise fault
        if self.is_gone:
            raise OSError("the client has left")
        match message["type"]:
            case "websocket.accept":
                self.accepted = message
                await self._to_client.put(None)
            case "websocket.send":
                await self._to_client.put(message)
            case "websocket.close":
                self.closed = message["code"]
                await self._to_client.put(None)
                await self._to_app.put({"type": "websocket.disconnect", "code": self.closed})
            case "websocket.http.response.start":
                self._start = message
            case "websocket.http.response.body":
                headers = {name.decode(): text.decode() for name, text in self._start["headers"]}
                self.denied = (self._start["status"], headers, json.loads(message["body"]))
                await self._to_client.put(None)
            case other:
                raise AssertionError(other)

    async def wait_until_read(self) -> None:
        """Wait until the gateway has received all client messages."""
        while not self._to_app.empty():  # noqa: ASYNC110 - a queue has no event for it
            await asyncio.sleep(0)

    async def say(self, message: dict[str, Any] | str | bytes) -> None:
        """Send one message."""
        if isinstance(message, bytes):
            await self._to_app.put({"type": "websocket.receive", "bytes": message})
            return
        text = message if isinstance(message, str) else json.dumps(message)
        await self._to_app.put({"type": "websocket.receive", "text": text})

    async def next_text(self) -> str | None:
        """Return the gateway's next message; None once the connection is closed."""
        async with asyncio.timeout(_WAIT_S):
            message = await self._to_client.get()
        return None if message is None else message["text"]

    async def next(self) -> dict[str, Any]:
        """Return the gateway's next event."""
        text = await self.next_text()
        assert text is not None, f"closed with {self.closed}"
        event: dict[str, Any] = json.loads(text)
        return event

    async def rest(self) -> list[dict[str, Any]]:
        """Return the events up to the end of a response, or up to an error."""
        events = [await self.next()]
        while events[-1]["type"] not in ENDS:
            events.append(await self.next())
        return events

    async def refusal(self, message: dict[str, Any] | str | bytes) -> dict[str, Any]:
        """Send a message; return the next `error` event, skipping others."""
        await self.say(message)
        while (event := await self.next())["type"] != "error":
            pass
        return event

    async def ask(self, message: dict[str, Any] | str | bytes) -> list[dict[str, Any]]:
        """Send a message; return the events of its answer."""
        await self.say(message)
        return await self.rest()

    async def leave(self, code: int = 1006) -> None:
        """Disconnect, as the server reports it."""
        self.is_gone = True
        await self._to_app.put({"type": "websocket.disconnect", "code": code})


@asynccontextmanager
async def connected(
    app: Any,
    path: str = "/v1/responses",
    *,
    headers: Iterable[tuple[str, str]] = (("host", "here"),),
    subprotocols: Iterable[str] = (),
    extensions: Iterable[str] = ("websocket.http.response",),
    **scope: Any,
) -> AsyncIterator[Socket]:
    """Provide a client after its handshake; it disconnects at the end.

    Args:
        app: The gateway.
        path: Path of the handshake.
        headers: Its headers, besides those of the upgrade.
        subprotocols: Subprotocols that it offers.
        extensions: Extensions of ASGI that the server has.
        scope: More fields of the scope, or others.
    """
    upgrade = [("connection", "Upgrade"), ("upgrade", "websocket"), ("sec-websocket-key", "x")]
    socket = Socket()
    await socket._to_app.put({"type": "websocket.connect"})
    full: dict[str, Any] = {
        "type": "websocket",
        "scheme": "ws",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(name.encode(), text.encode()) for name, text in (*headers, *upgrade)],
        "subprotocols": list(subprotocols),
        "extensions": {name: {} for name in extensions},
        **scope,
    }
    task = asyncio.create_task(app(full, socket.receive, socket.take))
    try:
        await socket.next_text()
        yield socket
    finally:
        socket.can_send.set()
        await socket.leave()
        async with asyncio.timeout(_WAIT_S):
            await task
