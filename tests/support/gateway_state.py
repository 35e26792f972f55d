"""Clients of Responses at a gateway with a store."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from streamnorm.gateway import Gateway, UpstreamConfig
from streamnorm.sse import SSEDecoder
from streamnorm.testing import FakeProvider
from support.gateway_calls import JSON, asked, called, opened
from support.gateway_servers import served

__all__ = ["KEY", "OTHER_KEY", "Client", "provided"]

KEY, OTHER_KEY = "key-of-a", "key-of-b"
RESPONSES = "/v1/responses"


class Client:
    """A client of Responses with a key of its own.

    Args:
        app: The gateway.
        key: The key.
    """

    def __init__(self, app: Gateway, key: str = KEY) -> None:
        self.app = app
        self._headers = (*JSON, ("authorization", f"Bearer {key}"))

    async def create(self, input: Any, *, stream: bool = False, **more: Any) -> Any:
        """Return the answer: the response, or the body of an error."""
        status, body = await self.created(input, stream=stream, **more)
        assert status == 200, body
        return body

    async def created(self, input: Any, *, stream: bool = False, **more: Any) -> tuple[int, Any]:
        """Return status and answer; of a stream, the response of its last event."""
        body = {"model": "m", "input": input, "stream": stream, **more}
        if not stream:
            return await asked(self.app, RESPONSES, body, headers=self._headers)
        caller = await called(self.app, RESPONSES, body, headers=self._headers)
        data = b"".join(caller.bodies)
        if caller.status != 200:
            return caller.status or 0, json.loads(data)
        frames = SSEDecoder().feed(data)
        last = json.loads(frames[-1].data)
        return 200, last["response"]

    async def ask(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        """Return status and body of the answer about a response."""
        return await asked(
            self.app, f"{RESPONSES}/{path}", body, method=method, headers=self._headers
        )


@asynccontextmanager
async def provided(
    provider: FakeProvider, dialect: str = "openai_chat", state: str = "memory:", **settings: Any
) -> AsyncIterator[Gateway]:
    """Provide a gateway with a store, in front of a provider."""
    async with served(provider.app()) as url:
        upstream = UpstreamConfig(dialect=dialect, base_url=url)
        async with opened({"local": upstream}, state=state, **settings) as app:
            yield app
