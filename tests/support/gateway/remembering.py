"""The WebSockets of a fake provider, with the memory that OpenAI has."""

from __future__ import annotations

import json
from typing import Any

from support.gateway.socket_tap import SentCreate

__all__ = ["Remembering"]

_NOT_FOUND = {
    "type": "error",
    "status": 400,
    "error": {
        "type": "invalid_request_error",
        "code": "previous_response_not_found",
        "message": "Previous response not found.",
        "param": "previous_response_id",
    },
}
_REPEATED = ("previous_response_id", "reasoning")


class Remembering:
    """An ASGI application that is asked for whole conversations over WebSockets.

    A connection remembers its latest response until one fails; any other is not found. A
    response repeats fields of its request.

    Args:
        app: The application that answers; it knows no responses.

    Attributes:
        creates: The creates received, in order.
    """

    def __init__(self, app: Any) -> None:
        self.creates: list[SentCreate] = []
        self._app = app
        self._connections = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "websocket":
            await self._app(scope, receive, send)
            return
        self._connections += 1
        connection = _Connection(self._connections, self.creates, receive, send)
        await self._app(scope, connection.receive, connection.send)


class _Connection:
    def __init__(self, number: int, creates: list[SentCreate], receive: Any, send: Any) -> None:
        self._number = number
        self._creates = creates
        self._receive = receive
        self._send = send
        self._latest: dict[str, list[Any]] = {}  # by its id: its input and output
        self._create: dict[str, Any] = {}  # of the response that is under way
        self._input: list[Any] = []  # of the whole conversation

    async def receive(self) -> Any:
        while True:
            message = await self._receive()
            if message["type"] != "websocket.receive":
                return message
            create = self._create = json.loads(message["text"])
            self._creates.append(SentCreate(self._number, create))
            previous = create.get("previous_response_id")
            if previous is not None and previous not in self._latest:
                await self._send({"type": "websocket.send", "text": json.dumps(_NOT_FOUND)})
                continue
            new = create["input"]
            items = [{"role": "user", "content": new}] if isinstance(new, str) else new
            self._input = [*self._latest.get(previous, ()), *items]
            asked = {**create, "input": self._input}
            asked.pop("previous_response_id", None)
            return {**message, "text": json.dumps(asked)}

    async def send(self, message: Any) -> None:
        if message["type"] == "websocket.send":
            event = json.loads(message["text"])
            response = event.get("response", {})
            response |= {name: self._create[name] for name in _REPEATED if name in self._create}
            message = {**message, "text": json.dumps(event)}
            if event["type"] == "response.completed":
                self._latest = {response["id"]: [*self._input, *response["output"]]}
            elif event["type"] in ("response.failed", "error"):
                self._latest = {}
        await self._send(message)
