"""WebSockets that a gateway refuses at once, so that clients go on over HTTP."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.gateway.calls import POSTS, assert_refused, called, opened, shape_of
from support.http.asgi_caller import Caller
from support.http.asgi_client import Message

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("extensions", "expected"),
    [
        ({"websocket.http.response": {}}, [("start", 426), ("body", None)]),
        ({}, [("close", None)]),
        (None, [("close", None)]),
    ],
)
async def test_websocket_is_refused_at_once(
    extensions: dict[str, Any] | None, expected: list[tuple[str, int | None]]
) -> None:
    async def receive() -> Message:
        return {"type": "websocket.connect"}

    async with opened(websockets=False) as app:
        caller = Caller("/v1/responses", type="websocket", extensions=extensions)
        del caller.scope["method"]
        await app(caller.scope, receive, caller.send)
    messages = caller.messages
    assert [
        (message["type"].rpartition(".")[2], message.get("status")) for message in messages
    ] == expected
    if extensions:
        assert shape_of(json.loads(messages[1]["body"])) == "openai"


# What Codex 0.169 sends with its built-in provider, before it goes on over HTTP.
CODEX_UPGRADE = [
    ("host", "here"),
    ("connection", "Upgrade"),
    ("upgrade", "websocket"),
    ("sec-websocket-version", "13"),
    ("sec-websocket-key", "xbn5Vcr16nqXzzjgbQhx/Q=="),
    ("authorization", "Bearer sk-dummy"),
    ("openai-beta", "responses_websockets=2026-02-06"),
    ("sec-websocket-extensions", "permessage-deflate; client_max_window_bits"),
]


@pytest.mark.parametrize("settings", [{}, {"client_keys": "env:KEYS"}, {"max_streams": 1}])
@pytest.mark.parametrize("dialect", POSTS)
async def test_upgrade_that_a_server_does_not_know_is_refused_too(
    dialect: str, settings: dict[str, Any]
) -> None:
    """For every upstream, also of the same dialect, which has WebSockets."""
    async with opened(dialect=dialect, environ={"KEYS": "k"}, **settings) as app:
        for headers in (CODEX_UPGRADE, [("upgrade", "h2c, WebSocket")]):
            caller = await called(app, "/v1/responses", method="GET", headers=headers)
            assert assert_refused(caller, 426) == "a WebSocket, expected a request over HTTP"
            assert caller.headers["upgrade"] == "HTTP/1.1"
