"""Official clients whose every request is answered by a function, and what they asked."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple

import anthropic
import httpx
import httpx2
import openai
from google import genai
from google.genai import types

from streamnorm import Encoded
from streamnorm._core.codec import RequestedOperation
from streamnorm._registry import DIALECTS

__all__ = ["Answered", "Clients"]


class Answered(NamedTuple):
    """One request of a client.

    Attributes:
        asked: What the dialect's routes say that it asks for.
        path: Path of the URL, decoded.
        query: Query of the URL.
        body: The decoded body; {} if there is none.
    """

    asked: RequestedOperation | None
    path: str
    query: dict[str, str]
    body: dict[str, Any]


class Clients:
    """The official clients of one exchange.

    Args:
        answer: Returns the answer to a request.
        dialect: Dialect of the client that is used.
    """

    def __init__(self, answer: Callable[[Answered], Encoded], dialect: str) -> None:
        self._answer = answer
        self._endpoints = DIALECTS[dialect].endpoints
        self.requests: list[Answered] = []

    def anthropic(self) -> anthropic.Anthropic:
        http_client = httpx2.Client(transport=httpx2.MockTransport(self._respond2))
        return anthropic.Anthropic(api_key="-", base_url="http://t", http_client=http_client)

    def openai(self) -> openai.OpenAI:
        http_client = httpx2.Client(transport=httpx2.MockTransport(self._respond2))
        return openai.OpenAI(api_key="-", base_url="http://t/v1", http_client=http_client)

    def genai(self) -> genai.Client:
        options = types.HttpOptions(
            base_url="http://t", client_args={"transport": httpx.MockTransport(self._respond)}
        )
        self._client = genai.Client(api_key="-", http_options=options)  # dropped, it is closed
        return self._client

    def _respond2(self, request: httpx2.Request) -> httpx2.Response:
        answer = self._answered(request.method, request.url, request.content)
        return httpx2.Response(200, json=answer.body, headers=answer.headers)

    def _respond(self, request: httpx.Request) -> httpx.Response:
        answer = self._answered(request.method, request.url, request.content)
        return httpx.Response(200, json=answer.body, headers=answer.headers)

    def _answered(self, method: str, url: httpx.URL | httpx2.URL, content: bytes) -> Encoded:
        body = json.loads(content) if content else {}
        asked = self._endpoints.match(method, url.path, body)
        request = Answered(asked, url.path, dict(url.params), body)
        self.requests.append(request)
        return self._answer(request)
