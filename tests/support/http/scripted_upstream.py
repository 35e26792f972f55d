"""Scripted upstream with one answer for each path, as an ASGI application."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from support.http.asgi_client import Message

__all__ = ["Answered", "Received", "ScriptedUpstream"]


class Answered(NamedTuple):
    """A scripted answer.

    Attributes:
        body: Its body: bytes, or a value that is sent as JSON.
        status: HTTP status.
        headers: Its headers beside `content-type`.
    """

    body: object
    status: int = 200
    headers: dict[str, str] = {}  # noqa: RUF012 - never changed


class Received(NamedTuple):
    """A received request.

    Attributes:
        method: HTTP method.
        target: Path and query, as sent.
        headers: Headers by lower-case name.
        body: The body.
    """

    method: str
    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The decoded JSON body."""
        return json.loads(self.body)


class ScriptedUpstream:
    """An ASGI application that gives each path its answer, and 404 to others.

    Args:
        answers: The answers by path, or by path and query.

    Attributes:
        requests: What arrived.
    """

    def __init__(self, answers: Mapping[str, Answered | object]) -> None:
        self.requests: list[Received] = []
        self._answers = answers

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            for name in ("startup", "shutdown"):
                await receive()
                await send({"type": f"lifespan.{name}.complete"})
            return
        body = b""
        while True:
            message: Message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        path, query = scope["raw_path"].decode(), scope["query_string"].decode()
        target = f"{path}?{query}" if query else path
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        self.requests.append(Received(scope["method"], target, headers, body))
        found = self._answers.get(target, self._answers.get(path, Answered({}, 404)))
        answer = found if isinstance(found, Answered) else Answered(found)
        data = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
        named = {"content-type": "application/json", **answer.headers}
        raw = [(name.encode(), value.encode()) for name, value in named.items()]
        await send({"type": "http.response.start", "status": answer.status, "headers": raw})
        await send({"type": "http.response.body", "body": data})
