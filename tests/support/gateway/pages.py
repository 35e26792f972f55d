"""Requests of pages at a gateway, and their answers."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from streamnorm.gateway import Gateway, PageConfig, UpstreamConfig
from streamnorm.testing import FakeProvider
from support.gateway.calls import called, opened
from support.gateway.servers import served
from support.http.asgi_caller import Caller
from support.http.strict_upstreams import COMPATIBLE, strict_provider

__all__ = [
    "AG",
    "AG_BODY",
    "BODIES",
    "HELLO",
    "OPTIONS",
    "PATHS",
    "UI",
    "UI_BODY",
    "ask",
    "between",
    "chunks_of",
    "every_page",
    "every_route",
    "text_of",
]

UI, AG = "ui_message_stream", "ag_ui"
PATHS = {UI: "/ui/chat", AG: "/ag-ui/run"}
every_page = pytest.mark.parametrize("page", PATHS)
OPTIONS = PageConfig(model="m-1", system="Be brief.", max_tokens=99)

HELLO = {"id": "1", "role": "user", "parts": [{"type": "text", "text": "Hello"}]}
UI_BODY: dict[str, Any] = {"id": "chat", "trigger": "submit-message", "messages": [HELLO]}
AG_BODY: dict[str, Any] = {
    "threadId": "t-1",
    "runId": "r-1",
    "messages": [{"id": "1", "role": "user", "content": "Hello"}],
    "tools": [],
    "context": [],
}
BODIES = {UI: UI_BODY, AG: AG_BODY}


def every_route(options: PageConfig = OPTIONS) -> dict[str, PageConfig]:
    return dict.fromkeys(PATHS, options)


@asynccontextmanager
async def between(
    script: Any = "Hi there.",
    dialect: str = "anthropic",
    options: PageConfig = OPTIONS,
    **settings: Any,
) -> AsyncIterator[tuple[Gateway, FakeProvider]]:
    """Provide a gateway with both page routes and a provider."""
    provider = strict_provider(script, server=COMPATIBLE)
    async with served(provider.app()) as url:
        upstreams = {"local": UpstreamConfig(dialect=dialect, base_url=url)}
        async with opened(upstreams, **{"pages": every_route(options), **settings}) as app:
            yield app, provider


async def ask(app: Gateway, page: str, body: object = None, **options: Any) -> Caller:
    return await called(app, PATHS[page], BODIES[page] if body is None else body, **options)


def text_of(caller: Caller) -> str:
    return b"".join(caller.bodies).decode()


def chunks_of(caller: Caller) -> list[dict[str, Any]]:
    frames = [frame.removeprefix("data: ") for frame in text_of(caller).split("\n\n") if frame]
    return [json.loads(frame) for frame in frames if frame.startswith("{")]
