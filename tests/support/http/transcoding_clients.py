"""A client with a transcoding transport and an in-process provider."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streamnorm import Text, message_events
from streamnorm._core.events import Usage
from streamnorm._core.messages import Message
from streamnorm.codec import encoder
from support.http.byte_source import AsyncBytes
from support.http.families import FamilyUnderTest

__all__ = [
    "ANSWER",
    "BASE_URL",
    "CLIENT_URL",
    "MESSAGES",
    "SSE",
    "STREAMING",
    "Answering",
    "chat_stream",
    "closable_body",
    "fetch",
    "transcoding",
]

BASE_URL = "https://provider.test/v1"
CLIENT_URL = "https://api.anthropic.com/v1/messages"
MESSAGES: dict[str, Any] = {
    "model": "m",
    "max_tokens": 9,
    "messages": [{"role": "user", "content": "Hi."}],
}
STREAMING = {**MESSAGES, "stream": True}
SSE = {"content-type": "text/event-stream"}
ANSWER: dict[str, Any] = {
    "id": "c-1",
    "object": "chat.completion",
    "model": "m",
    "choices": [
        {"index": 0, "message": {"role": "assistant", "content": "Hi."}, "finish_reason": "stop"}
    ],
    "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5},
}


def chat_stream(text: str = "Hi.") -> list[bytes]:
    """Return an answer's events as a Chat Completions stream."""
    writer = encoder("openai_chat")
    message = Message("c-1", "m", (Text(text),), "end_turn", usage=Usage(3, 2))
    written = [writer.encode(event) for event in message_events(message)]
    return [data for data in [*written, writer.close()] if data]


def transcoding(
    family: FamilyUnderTest, inner: Callable[[Any], Any] | object, **options: Any
) -> Any:
    """Return a transport from Anthropic clients to a Chat Completions provider.

    Args:
        family: Package of the client.
        inner: The inner transport, or a function that answers its requests.
        options: Those of the transport.
    """
    options = {"client": "anthropic", "upstream": "openai_chat", "base_url": BASE_URL, **options}
    known = family.inner(inner) if callable(inner) else inner
    return family.transports.TranscodingTransport(known, **options)


async def fetch(
    family: FamilyUnderTest, mode: str, transport: Any, body: Any = MESSAGES, **request: Any
) -> Any:
    """Send a request with either kind of client; return the response, already read."""
    request = {"method": "POST", "url": CLIENT_URL, "json": body, **request}
    if mode == "sync":
        with family.http.Client(transport=transport, follow_redirects=True) as client:
            return client.request(**request)
    async with family.http.AsyncClient(transport=transport, follow_redirects=True) as client:
        return await client.request(**request)


class Answering:
    """Answers each request with the same response, and stores the requests."""

    def __init__(self, family: FamilyUnderTest, status: int = 200, **response: Any) -> None:
        self.requests: list[Any] = []
        self._family = family
        self._response = {"status_code": status, **response}

    def __call__(self, request: Any) -> Any:
        self.requests.append(request)
        return self._family.http.Response(**self._response)


def closable_body(family: FamilyUnderTest, mode: str, chunks: list[bytes], **options: Any) -> Any:
    """Return a body whose generators end when it is closed."""

    class Body(AsyncBytes, family.http.AsyncByteStream):  # type: ignore[misc,name-defined]  # of either package
        async def __anext__(self) -> object:
            if self.closed or self._ended:
                raise StopAsyncIteration
            return await super().__anext__()

    return family.body(chunks, **options) if mode == "sync" else Body(chunks, **options)
