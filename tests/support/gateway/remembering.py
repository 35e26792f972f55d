"""The WebSockets of a scripted upstream, with the memory that the vendor has."""

from __future__ import annotations

import json
from typing import Any

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
    """

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "websocket":
            await self._app(scope, receive, send)
            return
        connection = _Connection(receive, send)
        await self._app(scope, connection.receive, connection.send)


class _Connection:
    def __init__(self, receive: Any, send: Any) -> None:
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
