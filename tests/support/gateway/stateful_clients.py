"""Clients of a gateway with a store, and the history that providers receive."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from streamnorm import decode_request
from streamnorm.gateway import Gateway
from streamnorm.sse import SSEDecoder
from streamnorm.testing import FakeProvider
from support.gateway.calls import JSON, asked, called, opened
from support.gateway.servers import served

__all__ = [
    *("HISTORY", "KEY", "OTHER_KEY", "PREVIOUS", "UPSTREAMS", "WEATHER"),
    *("StateClient", "history_in", "not_found", "provided"),
]

KEY, OTHER_KEY = "key-of-a", "key-of-b"
PREVIOUS = "previous_response_id"
WEATHER = {
    "type": "function",
    "name": "get_weather",
    "description": "Weather of a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    "strict": False,
}
UPSTREAMS = [
    *("openai_chat", "anthropic", "gemini", "openai_responses", "bedrock_converse"),
    "gemini_interactions",
]
"""Dialects of providers that a gateway with a store asks."""

HISTORY = [
    ("user", "Weather?"),
    ("call", '{"city": "Oslo"}'),
    ("result", "snow"),
    ("assistant", "It snows."),
    ("user", "Thanks."),
]
"""What `history_in` returns of the conversation that these tests hold."""

_RESPONSES = "/v1/responses"


def history_in(provider: FakeProvider, dialect: str) -> list[tuple[str, str]]:
    """Return the role and text of the messages in a provider's last request."""
    request = provider.requests[-1]
    said: list[tuple[str, str]] = []
    for message in decode_request(request.body, dialect, path=request.path).messages:
        said += [("call", json.dumps(json.loads(each.arguments))) for each in message.tool_calls]
        said += [("result", str(each.content[0].text)) for each in message.tool_results]  # type: ignore[union-attr]  # all are texts
        said += [(message.role, message.text)] if message.text else []
    return said


class StateClient:
    """A Responses client with its own key.

    Args:
        app: The gateway.
        key: The key.
        headers: The headers that have the key; `authorization` by default.
    """

    def __init__(
        self, app: Gateway, key: str = KEY, headers: tuple[tuple[str, str], ...] = ()
    ) -> None:
        self._app = app
        self._headers = (*JSON, *(headers or (("authorization", f"Bearer {key}"),)))

    async def create(self, input: Any, *, stream: bool = False, **more: Any) -> dict[str, Any]:
        """Send a request; return the response."""
        status, response = await self.attempt(input, stream=stream, **more)
        assert (status, response.get("status")) == (200, "completed"), response
        return response

    async def attempt(
        self, input: Any, *, stream: bool = False, **more: Any
    ) -> tuple[int, dict[str, Any]]:
        """Send a request; return its status and body, or its last event's response."""
        body = {"model": "m", "input": input, "stream": stream, **more}
        if not stream:
            return await asked(self._app, _RESPONSES, body, headers=self._headers)
        status, events = await self.stream(input, **more)
        return status, events[-1].get("response", events[-1])

    async def stream(self, input: Any, **more: Any) -> tuple[int, list[dict[str, Any]]]:
        """Send a request; return its status and events, or an error's body."""
        body = {"model": "m", "input": input, "stream": True, **more}
        caller = await called(self._app, _RESPONSES, body, headers=self._headers)
        data = b"".join(caller.bodies)
        if caller.status != 200:
            return caller.status or 0, [json.loads(data)]
        return 200, [json.loads(frame.data) for frame in SSEDecoder().feed(data)]

    async def ask(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        """Send a request on a stored response; return its status and body."""
        target = f"{_RESPONSES}/{path}"
        return await asked(self._app, target, body, method=method, headers=self._headers)


def not_found(id: str) -> dict[str, Any]:
    """Return the error body for a `previous_response_id` that is not stored."""
    error = {
        "message": f"Previous response with id '{id}' not found. "
        "Send the whole conversation as `input` instead.",
        "type": "invalid_request_error",
        "param": "previous_response_id",
        "code": "previous_response_not_found",
    }
    return {"error": error}


@asynccontextmanager
async def provided(
    provider: FakeProvider,
    dialect: str = "openai_chat",
    *,
    state: str | None = "memory:",
    **more: Any,
) -> AsyncIterator[Gateway]:
    """Provide a gateway with a store and a provider.

    Args:
        provider: The provider.
        dialect: Its dialect.
        state: Where the gateway stores; None for the store among `more`.
        more: More keywords of `opened`.
    """
    async with (
        served(provider.app()) as url,
        opened(url, dialect=dialect, state=state, **more) as app,
    ):
        yield app
