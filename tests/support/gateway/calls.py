"""In-process requests to a gateway, without a server."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from streamnorm.gateway import Config, Gateway, UpstreamConfig
from streamnorm.gateway.observing import Observer
from streamnorm.state import ResponseStore
from support.gateway.servers import served
from support.http.asgi_caller import Caller
from support.http.asgi_client import Message
from support.http.scripted_upstream import ScriptedUpstream

__all__ = [
    "CANARY",
    "CHAT",
    "CONTENTS",
    "GENERATE",
    "JSON",
    "MESSAGES",
    "NOWHERE",
    "POSTS",
    "asked",
    "assert_refused",
    "body_of",
    "called",
    "every_dialect",
    "opened",
    "scripted",
    "shape_for",
    "shape_of",
]

# Nobody listens there: a request that is let in is answered with 502.
NOWHERE = "http://127.0.0.1:9"

JSON = (("host", "here"), ("content-type", "application/json"))


CANARY = "canary-7f3a"
SAID = [{"role": "user", "content": "Hi."}]
CHAT: dict[str, Any] = {"model": "m", "messages": SAID}
MESSAGES: dict[str, Any] = {**CHAT, "max_tokens": 9}
RESPONSE: dict[str, Any] = {"model": "m", "input": "Hi."}
CONTENTS: dict[str, Any] = {"contents": [{"role": "user", "parts": [{"text": "Hi."}]}]}
CONVERSE: dict[str, Any] = {"messages": [{"role": "user", "content": [{"text": "Hi."}]}]}

GENERATE = "/v1beta/models/m:generateContent"
# Of each dialect, a path and the body of a request for a message.
POSTS: dict[str, tuple[str, dict[str, Any]]] = {
    "anthropic": ("/v1/messages", MESSAGES),
    "openai_chat": ("/v1/chat/completions", CHAT),
    "openai_responses": ("/v1/responses", RESPONSE),
    "gemini": (GENERATE, CONTENTS),
    "bedrock_converse": ("/model/m/converse", CONVERSE),
    "gemini_interactions": ("/v1beta/interactions", RESPONSE),
}
every_dialect = pytest.mark.parametrize("client", POSTS)


def shape_of(body: Any) -> str:
    """Return the vendor whose error format a body has."""
    match body:
        case {"type": "error", "error": {"type": str(), "message": str()}}:
            return "anthropic"
        case {"error": {"code": int(), "status": str(), "message": str()}}:
            return "gemini"
        case {"error": {"message": str(), "type": str(), "param": _, "code": _}}:
            return "openai"
        case {"message": str(), **rest} if not rest:
            return "bedrock_converse"
    raise AssertionError(body)


def shape_for(client: str) -> str:
    """Return the vendor whose error format a client expects."""
    return next((vendor for vendor in ("openai", "gemini") if client.startswith(vendor)), client)


def assert_refused(caller: Caller, status: int, client: str = "openai") -> str:
    """Assert a refusal's status and format; return its message."""
    body = body_of(caller)
    assert (caller.status, shape_of(body)) == (status, shape_for(client))
    assert caller.headers["content-type"] == "application/json"
    assert CANARY not in json.dumps(body)
    message: str = body.get("error", body)["message"]
    return message


@asynccontextmanager
async def opened(
    upstreams: Mapping[str, UpstreamConfig] | str = NOWHERE,
    *,
    dialect: str = "openai_chat",
    environ: Mapping[str, str] | None = None,
    observers: tuple[Observer, ...] = (),
    store: ResponseStore | None = None,
    **settings: Any,
) -> AsyncIterator[Gateway]:
    """Provide a gateway; close it as a server does.

    Args:
        upstreams: Its upstreams, or the URL of the only one.
        dialect: Dialect of the only one.
        environ: The environment of the gateway.
        observers: Observers of the gateway.
        store: A store of the program.
        settings: Settings; see `Config`.
    """
    if isinstance(upstreams, str):
        upstreams = {"local": UpstreamConfig(dialect=dialect, base_url=upstreams)}
    config = Config(upstreams=dict(upstreams), **settings)
    app = Gateway(config, environ=environ or {}, observers=observers, store=store)
    try:
        yield app
    finally:
        messages = iter(["lifespan.startup", "lifespan.shutdown"])

        async def receive() -> Message:
            return {"type": next(messages)}

        async def send(message: Message) -> None:
            assert message["type"].endswith(".complete")

        await app({"type": "lifespan"}, receive, send)


@asynccontextmanager
async def scripted(
    answers: Mapping[str, object], dialect: str = "gemini", **settings: Any
) -> AsyncIterator[tuple[Gateway, ScriptedUpstream]]:
    """Provide a gateway with a scripted upstream named `local`."""
    upstream = ScriptedUpstream(answers)
    async with (
        served(upstream) as url,
        opened({"local": UpstreamConfig(dialect=dialect, base_url=url)}, **settings) as app,
    ):
        yield app, upstream


async def called(
    app: Any,
    target: str,
    body: object = None,
    *,
    method: str = "POST",
    headers: Iterable[tuple[str, str]] = JSON,
    pieces: Sequence[bytes] | None = None,
    **scope: Any,
) -> Caller:
    """Send a request to an application; return the caller with the answer.

    Args:
        app: The gateway.
        target: Path and query.
        body: The body: bytes, or a value that is sent as JSON; None for an empty one.
        method: HTTP method.
        headers: Those that the client sends.
        pieces: The body as the server gives it, in place of `body`.
        scope: More fields of the scope, or others.
    """
    data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
    caller = Caller(target, method=method, headers=headers, body=pieces or (data,), **scope)
    await caller.call(app)
    return caller


def body_of(caller: Caller) -> Any:
    """Return the answer's JSON body."""
    return json.loads(b"".join(caller.bodies))


async def asked(app: Any, target: str, body: object = None, **options: Any) -> tuple[int, Any]:
    """Send a request; return the status and JSON body of the answer."""
    caller = await called(app, target, body, **options)
    return caller.status, body_of(caller)
