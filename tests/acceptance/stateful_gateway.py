"""A gateway for Responses clients, before a provider that stores nothing."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import httpx2
import openai
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

import streamnorm
from streamnorm import Message, Reply
from streamnorm.state import MemoryStore, StateError, Turn, error_body, read_operation, scope_of
from streamnorm.testing import FakeProvider

__all__ = ["StatefulGateway"]

UPSTREAM = "https://provider.example"


class StatefulGateway:
    """An ASGI application that asks a provider of another dialect.

    Args:
        provider: The provider.
        target: Its dialect.

    Attributes:
        store: What is stored.
        asked: The bodies of the clients' requests.
    """

    def __init__(self, provider: FakeProvider, target: str) -> None:
        self.store = MemoryStore()
        self.asked: list[Any] = []
        self._upstream = provider.client(httpx.AsyncClient)
        self._target = target

    def client(self, api_key: str = "-") -> openai.AsyncOpenAI:
        """Return a client that does not repeat what failed."""
        http_client = httpx2.AsyncClient(transport=httpx2.ASGITransport(self))
        return openai.AsyncOpenAI(
            api_key=api_key, base_url="http://gateway/v1", http_client=http_client, max_retries=0
        )

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        request = Request(scope, receive)
        try:
            response = await self._answer(request)
        except StateError as exc:
            response = Response(error_body(exc), exc.status, media_type="application/json")
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        caller = scope_of(request.headers["authorization"])
        path, query = request.url.path, request.query_params
        operation = read_operation(request.method, path, query)
        if operation is not None:
            found = await self.store.afind(caller, operation.lookup)
            answer = operation.answer(found)
            if operation.deletes:
                await self.store.adelete(caller, operation.id)
            return _json(answer)
        body = await request.body()
        self.asked.append(json.loads(body))
        turn = Turn(body)
        expanded = turn.expand(await self.store.afind(caller, turn.lookup))
        asked = streamnorm.decode_request(expanded, "openai_responses")
        encoded = streamnorm.encode_request(asked, self._target)
        reply = turn.reply(encoded.reply)
        url = UPSTREAM + encoded.path
        if asked.stream:
            stream = streamnorm.connect(
                self._upstream, "POST", url, json=encoded.body, to="openai_responses", reply=reply
            )
            chunks = self._stored_before_the_end(stream, turn, caller, reply)
            return StreamingResponse(chunks, media_type="text/event-stream")
        whole = await self._upstream.post(url, json=encoded.body)
        message = streamnorm.decode_message(whole.content, self._target)
        return _json(await self._store(message, turn, caller, reply))

    async def _stored_before_the_end(
        self, stream: streamnorm.Stream[bytes], turn: Turn, caller: str, reply: Reply
    ) -> AsyncIterator[bytes]:
        async with stream:
            async for chunk in stream:
                if isinstance(stream.outcome, streamnorm.Completed):
                    await self._store(stream.message, turn, caller, reply)
                elif b"event: response.completed" in chunk:
                    raise AssertionError("the client gets the end before the answer is stored")
                yield chunk

    async def _store(
        self, message: Message, turn: Turn, caller: str, reply: Reply
    ) -> dict[str, Any]:
        answer = streamnorm.encode_message(message, "openai_responses", reply=reply).body
        stored = turn.stored(answer)
        if stored is not None:
            await self.store.aput(caller, stored)
        return answer


def _json(value: dict[str, Any]) -> Response:
    return Response(json.dumps(value), media_type="application/json")
