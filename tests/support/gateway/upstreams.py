"""A scripted upstream and client requests, for gateway tests."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, NamedTuple, TypeAlias

import httpx

from streamnorm._upstream.requests import Upstream
from streamnorm.gateway.observing import CallRecord
from streamnorm.gateway.routing import Target
from support.openai_chat.chunks import DONE, chunk

__all__ = [
    "ABORT",
    "ANSWER",
    "PAGE_REQUESTS",
    "REQUESTS",
    "TARGET",
    "ClientRequest",
    "Head",
    "Records",
    "Step",
    "StepUpstream",
    "asked",
    "opened",
]

ABORT = object()
"""The step that breaks the connection."""

TARGET = Target(
    name="local",
    upstream=Upstream(dialect="openai_chat", base_url="http://h"),
    normalize=False,
    reuse=True,
    key=None,
)
"""An upstream without a key."""

_FIELDS = {"object": "chat.completion.chunk", "created": 1}
ANSWER = [
    chunk({"role": "assistant", "content": "a"}, **_FIELDS),
    chunk({"content": "b"}, "stop", **_FIELDS),
    DONE,
]
"""The events of an answer, in Chat Completions."""


class Head(NamedTuple):
    """Status and headers of a scripted answer."""

    status: int = 200
    headers: Mapping[str, str] = {"content-type": "text/event-stream"}


Step: TypeAlias = Head | bytes | float | asyncio.Event | object


class ClientRequest(NamedTuple):
    """A client's request for a stream.

    Attributes:
        path: Path and query.
        body: The JSON body.
    """

    path: str
    body: dict[str, Any]


_MESSAGES = [{"role": "user", "content": "Hello"}]
REQUESTS = {
    "anthropic": ClientRequest(
        "/v1/messages", {"model": "m", "max_tokens": 9, "stream": True, "messages": _MESSAGES}
    ),
    "openai_chat": ClientRequest(
        "/v1/chat/completions", {"model": "m", "stream": True, "messages": _MESSAGES}
    ),
    "openai_responses": ClientRequest(
        "/v1/responses", {"model": "m", "stream": True, "input": "Hello"}
    ),
    "gemini": ClientRequest(
        "/v1beta/models/m:streamGenerateContent?alt=sse",
        {"contents": [{"role": "user", "parts": [{"text": "Hello"}]}]},
    ),
}

_EVERY_REQUEST = {
    **REQUESTS,
    "gemini_interactions": ClientRequest(
        "/v1beta/interactions", {"model": "m", "stream": True, "input": "Hello"}
    ),
}

PAGE_REQUESTS = {
    "ui_message_stream": ClientRequest(
        "/ui/chat",
        {
            "id": "chat",
            "trigger": "submit-message",
            "messages": [{"id": "1", "role": "user", "parts": [{"type": "text", "text": "Hello"}]}],
        },
    ),
    "ag_ui": ClientRequest(
        "/ag-ui/run",
        {
            "threadId": "t",
            "runId": "r",
            "messages": [{"id": "1", "role": "user", "content": "Hello"}],
            "tools": [],
            "context": [],
        },
    ),
}
"""Requests of pages, whose routes a gateway has if its configuration says so."""


def opened(
    http: httpx.AsyncClient, url: str, client: str
) -> AbstractAsyncContextManager[httpx.Response]:
    """Open a stream at a gateway, as a client of a dialect."""
    path, body = _EVERY_REQUEST[client]
    return http.stream("POST", url + path, json=body)


async def asked(url: str, client: str, *, stream: bool = True) -> httpx.Response:
    """Send a client's request to a gateway; return the whole answer."""
    path, body = _EVERY_REQUEST[client]
    async with httpx.AsyncClient() as http:
        form = {} if client == "gemini" else {"stream": stream}  # Gemini's path says it
        return await http.post(url + path, json={**body, **form})


class StepUpstream:
    """An ASGI application that answers by steps, and notices disconnects.

    A step is a head, bytes of the body, an event or seconds to wait for, or `ABORT`.  Without a
    head, the first bytes are sent behind a default one.

    Args:
        answers: The steps of each answer; the last answers all further requests, too.

    Attributes:
        requests: The bodies of the requests.
        headers: Their headers.
        asked: Set when a request has arrived.
        open: Number of answers that have not ended.
        left: Number of clients that left before the end of the answer.
        closed: Set when no answer is open.
        sent: Number of pieces of bodies that were sent.
    """

    def __init__(self, *answers: Sequence[Step]) -> None:
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.asked = asyncio.Event()
        self.open = self.left = self.sent = 0
        self.closed = asyncio.Event()
        self._answers: tuple[Sequence[Step], ...] = answers or ([*ANSWER],)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            while (await receive())["type"] != "lifespan.shutdown":
                await send({"type": "lifespan.startup.complete"})
            await send({"type": "lifespan.shutdown.complete"})
            return
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message["body"], message["more_body"]
        self.requests.append(json.loads(body))
        self.headers.append({name.decode(): value.decode() for name, value in scope["headers"]})
        steps = self._answers[min(len(self.requests), len(self._answers)) - 1]
        self.asked.set()
        self.open += 1
        self.closed.clear()
        tasks = {
            answer := asyncio.create_task(self._answer(steps, send)),
            asyncio.create_task(_disconnect(receive)),
        }
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            self.left += not answer.done()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self.open -= 1
            if not self.open:
                self.closed.set()

    def answer_all(self, steps: Sequence[Step]) -> None:
        """Set the steps of all further answers."""
        self._answers = (steps,)

    async def wait_for(self, count: int) -> None:
        """Wait until a number of requests have arrived."""
        while len(self.requests) < count:  # noqa: ASYNC110 - of several tasks
            await asyncio.sleep(0.01)

    async def blocked(self) -> None:
        """Wait until an answer is blocked by a client that does not read."""
        await self.asked.wait()
        sent = -1
        while self.sent != sent:
            sent = self.sent
            await asyncio.sleep(0.03)

    async def _answer(self, steps: Sequence[Step], send: Any) -> None:
        is_started = False
        for step in steps:
            if isinstance(step, asyncio.Event):
                await step.wait()
                continue
            if isinstance(step, float):
                await asyncio.sleep(step)
                continue
            if step is ABORT:
                return
            if not is_started:
                head = step if isinstance(step, Head) else Head()
                raw = [(name.encode(), value.encode()) for name, value in head.headers.items()]
                start = {"type": "http.response.start", "status": head.status, "headers": raw}
                await send(start)
                is_started = True
            if isinstance(step, bytes):
                await send({"type": "http.response.body", "body": step, "more_body": True})
                self.sent += 1
                await asyncio.sleep(0)  # or uvicorn would not learn of a disconnect
        await send({"type": "http.response.body", "body": b"", "more_body": False})


class Records:
    """An observer that stores records.

    Attributes:
        ended: The requests that have ended.
        one: Set when one has.
    """

    def __init__(self) -> None:
        self.ended: list[CallRecord] = []
        self.one = asyncio.Event()

    def begin(self, call: CallRecord) -> None:
        """Do nothing: a record is complete only at its end."""

    def end(self, call: CallRecord) -> None:
        self.ended.append(call)
        self.one.set()

    async def wait_for(self, count: int) -> None:
        """Wait until a number of requests have ended."""
        async with asyncio.timeout(30):
            while len(self.ended) < count:  # noqa: ASYNC110 - told by another request
                await asyncio.sleep(0.005)


async def _disconnect(receive: Any) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
