"""In-process ASGI client, and an upstream for the proxy."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

import httpx

from support.http.asgi_client import Client, Message
from support.http.byte_source import AsyncBytes

__all__ = ["Caller", "Upstream"]


class Caller(Client):
    """A client that sends a request and stays until `gone` is set.

    Args:
        target: Path and query.
        method: HTTP method.
        headers: Those that the client sends.
        body: The pieces in which the server gives the body.
        on_send: Called with each message of the application.
        scope: More fields of the scope, or others.
    """

    def __init__(
        self,
        target: str = "/",
        *,
        method: str = "POST",
        headers: Iterable[tuple[str, str]] = (("host", "here"),),
        body: Sequence[bytes] = (b"",),
        on_send: Callable[[Message], Awaitable[None]] | None = None,
        **scope: Any,
    ) -> None:
        super().__init__(on_send)
        path, _, query = target.partition("?")
        self.scope: dict[str, Any] = {
            "type": "http",
            "method": method,
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "headers": [(name.encode(), value.encode()) for name, value in headers],
            **scope,
        }
        self._pieces = list(body)

    async def receive(self) -> Message:
        if not self._pieces:
            return await super().receive()
        piece = self._pieces.pop(0)
        return {"type": "http.request", "body": piece, "more_body": bool(self._pieces)}

    async def call(self, app: Any) -> None:
        await app(self.scope, self.receive, self.send)

    @property
    def error(self) -> dict[str, str]:
        """The error in the response's body."""
        body = json.loads(b"".join(self.bodies))
        assert list(body) == ["error"]
        error: dict[str, str] = body["error"]
        return error


class Upstream(httpx.AsyncBaseTransport):
    """An upstream of the proxy, as a transport of its client.

    Args:
        source: The body of its answers.
        status: Their status.
        headers: Their headers.
        error: What sending a request raises in place of an answer.

    Attributes:
        requests: What arrived.
        let_go: How many of its answers were closed, and had the time that this takes.
    """

    def __init__(
        self,
        source: AsyncBytes,
        status: int = 200,
        headers: Iterable[tuple[str, str]] = (("content-type", "text/event-stream"),),
        error: Exception | None = None,
    ) -> None:
        self.requests: list[httpx.Request] = []
        self.let_go = 0
        self._source = source
        self._status = status
        self._headers = list(headers)
        self._error = error

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        if self._error is not None:
            raise self._error
        return httpx.Response(self._status, headers=self._headers, stream=_Body(self, self._source))


class _Body(httpx.AsyncByteStream):
    def __init__(self, upstream: Upstream, source: AsyncBytes) -> None:
        self._upstream = upstream
        self._source = source

    def __aiter__(self) -> Any:
        return self._source

    async def aclose(self) -> None:
        await self._source.aclose()
        self._upstream.let_go += 1
