"""Strict upstreams, which refuse the requests that the real provider would refuse.

The upstreams of the tests answer whatever they are sent.  In front of one, `StrictApp` answers a
request that `validate_request` refuses with the provider's error, so that the test fails as a
client of the provider would.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar
from urllib.parse import unquote

from streamnorm.http.urls import detect_url
from streamnorm.recording.format import Playback
from streamnorm.testing import FakeProvider
from streamnorm.testing.script import Script
from streamnorm.testing.writing import refusal_of
from streamnorm.validation import RequestViolation

__all__ = ["COMPATIBLE", "StrictApp", "refused", "strict_handler", "strict_provider"]

ResponseT = TypeVar("ResponseT")

# OpenAI alone refuses efforts beside tools, and reasoning of the assistant.
_EFFORT_RULE = "openai_chat.functions_need_no_effort"
_REASONING = (".reasoning", ".reasoning_content", ".reasoning_details")

COMPATIBLE = "compatible"
"""The server that the gateway takes an upstream on this machine for, if it is not named."""

_LOG = logging.getLogger("strict_upstreams")


def refused(
    method: str, path: str, headers: dict[str, str], content: bytes, server: str | None
) -> Playback | None:
    """Return the provider's response to an invalid request; None if the request is valid.

    What is wrong is logged, for the report of a test that fails.  Of a server that is not named,
    next to nothing is known: it refuses what the vendor refuses, too.

    Args:
        method: HTTP method.
        path: Path of the URL, which tells the dialect.
        headers: Headers by lower-case name.
        content: The body.
        server: Name of the server; None is the vendor.
    """
    dialect = detect_url(path)
    if dialect is None:
        return None
    find = partial(refusal_of, content, dialect, method=method, path=path, headers=headers)
    found = find(server=server)
    if found is None and server == COMPATIBLE:
        found = find(server=None)
        if found is not None and all(map(_is_of_openai_alone, found.violations)):
            return None
    if found is None:
        return None
    _LOG.error("%s %s refused: %s", method, path, found.violations)
    return found.answer


def _is_of_openai_alone(violation: RequestViolation) -> bool:
    return violation.rule == _EFFORT_RULE or violation.path.endswith(_REASONING)


class StrictApp:
    """ASGI application that refuses invalid requests, and passes others to an upstream.

    Args:
        app: The upstream.
        server: Name of the server that it stands for; None is the vendor.
    """

    def __init__(self, app: Any, server: str | None = COMPATIBLE) -> None:
        self._app = app
        self._server = server

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        received: list[Any] = []
        while not received or received[-1].get("more_body"):
            received.append(await receive())
        content = b"".join(message.get("body", b"") for message in received)
        headers = {name.decode(): value.decode("latin-1") for name, value in scope["headers"]}
        path = unquote(scope["path"])
        answer = refused(scope["method"], path, headers, content, self._server)
        if answer is not None:
            raw = [(name.encode(), value.encode()) for name, value in answer.headers.items()]
            await send({"type": "http.response.start", "status": answer.status, "headers": raw})
            await send({"type": "http.response.body", "body": answer.body})
            return

        async def receive_again() -> Any:
            return received.pop(0) if received else await receive()

        await self._app(scope, receive_again, send)


def strict_provider(script: Script, *, strict: bool = True, **options: Any) -> FakeProvider:
    """Return a fake provider that refuses invalid requests.

    Args:
        script: The turns.
        strict: False where a request has what the rules do not know yet.
        options: Further options of `FakeProvider`.
    """
    return FakeProvider(script, strict=strict, **options)


def strict_handler(
    response: Callable[..., ResponseT],
    answer: Callable[[Any], ResponseT],
    server: str | None = None,
) -> Callable[[Any], ResponseT]:
    """Return a mock transport's handler that refuses invalid requests.

    Args:
        response: The class of responses of httpx or httpx2.
        answer: Answers the requests that are accepted.
        server: Name of the server that it stands for; None is the vendor.
    """

    def handle(request: Any) -> ResponseT:
        found = refused(
            request.method, request.url.path, dict(request.headers), request.content, server
        )
        if found is None:
            return answer(request)
        return response(found.status, headers=dict(found.headers), content=found.body)

    return handle
