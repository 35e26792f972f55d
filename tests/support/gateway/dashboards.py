"""A gateway with a dashboard, and requests that end in every way."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import httpx

from streamnorm import (
    BlockStart,
    BlockStop,
    MessageStart,
    MessageStop,
    StreamError,
    Text,
    TextDelta,
)
from streamnorm.gateway import Config, DashboardConfig, Gateway, ModelConfig, UpstreamConfig
from streamnorm.testing import FakeProvider, FakeRequest, faults, tool_call
from support.gateway.servers import served

__all__ = ["ADMIN_KEY", "HOSTILE", "SECRET", "WatchedGateway", "log_in", "watched_gateway"]

ADMIN_KEY = "admin-0123456789abcdef"
ENVIRON = {
    "ADMIN_KEYS": f" other-key-0123456789, {ADMIN_KEY}",
    "CLIENT_KEYS": "client-0123456789abcdef",
}
OPTIONS = DashboardConfig(admin_keys="env:ADMIN_KEYS")
NOWHERE = "http://127.0.0.1:9"

HOSTILE = "qwen3-<img src=x onerror=alert(1)>"
"""Name of a model that is markup."""

SECRET = "sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789"  # noqa: S105 - of nobody
"""A key that an upstream quotes."""

_OVERLOADED = StreamError("upstream", "Overloaded.", "overloaded_error", 529)
_SNOW = "It snows in Oslo, as it does on most days of the winter, and the harbour is quiet."


class WatchedGateway(NamedTuple):
    """A served gateway with a dashboard.

    Attributes:
        url: Its URL, without a path.
        app: The gateway.
        client: A client of it.
    """

    url: str
    app: Gateway
    client: httpx.AsyncClient

    async def ask(self, model: str, *, stream: bool = True, text: str = "Weather?") -> int:
        """Send a message request, read the whole answer, return its status."""
        said = [{"role": "user", "content": text}]
        body = {"model": model, "max_tokens": 99, "stream": stream, "messages": said}
        with contextlib.suppress(httpx.RemoteProtocolError):
            answer = await self.client.post("/v1/messages", json=body)
            return answer.status_code
        return 0

    async def ask_for_all_endings(self) -> None:
        """Send requests that end answered, fallen back, failed, cut and refused."""
        for _ in range(3):
            assert await self.ask("qwen3-32b") == 200
        assert await self.ask("claude-sonnet-5") == 200  # its first upstream is not there
        assert await self.ask("claude-sonnet-5", stream=False) == 200
        assert await self.ask("qwen3-32b", text="Fail.") == 529
        assert await self.ask("qwen3-32b", text="Cut.") == 200
        assert await self.ask("unknown") == 404

    @asynccontextmanager
    async def running_request(self) -> AsyncIterator[None]:
        """Hold one request in mid-answer while the context is open."""
        said = [{"role": "user", "content": "Hold."}]
        body = {"model": "qwen3-32b", "max_tokens": 99, "stream": True, "messages": said}
        async with self.client.stream("POST", "/v1/messages", json=body) as answer:
            lines = answer.aiter_lines()  # whose end would close the connection
            while "snows" not in await anext(lines):
                pass
            yield


def _answer(request: FakeRequest) -> Any:
    """Return the answer to a request, by its content."""
    asked = str(request.body)
    if "Fail." in asked:
        return _OVERLOADED
    if "Cut." in asked:
        return [_SNOW, faults.cut(event=4)]
    if "Secret." in asked:
        stop = [BlockStop(0), MessageStop("end_turn", "stop")]
        return [MessageStart("m", "m"), BlockStart(0, Text()), TextDelta(0, SECRET), *stop]
    if "Hold." in asked:
        return [_SNOW, faults.stall(event=9)]
    pause = [faults.stall(event=9, s=0.05)] if request.body.get("stream") else []
    return [_SNOW, tool_call("get_weather", city="Oslo"), *pause]


@asynccontextmanager
async def watched_gateway(**settings: Any) -> AsyncIterator[WatchedGateway]:
    """Serve a gateway with a dashboard, a working and an absent upstream.

    Args:
        settings: Further settings; see `Config`.
    """
    async with served(FakeProvider(_answer).app()) as upstream_url:
        config = Config(
            upstreams={
                "claude": UpstreamConfig(dialect="anthropic", base_url=NOWHERE),
                "local": UpstreamConfig(dialect="openai_chat", base_url=f"{upstream_url}/v1"),
            },
            models=[
                ModelConfig(match="claude-*", to=["claude", "local/qwen3-32b"]),
                ModelConfig(match="qwen3-*", to=["local"]),
            ],
            **{"dashboard": OPTIONS, **settings},
        )
        app = Gateway(config, environ=ENVIRON)
        async with served(app) as url, httpx.AsyncClient(base_url=url, timeout=30) as client:
            yield WatchedGateway(url, app, client)


async def log_in(gateway: WatchedGateway, key: str = ADMIN_KEY) -> httpx.Response:
    """Post a key to log in; return the answer."""
    return await gateway.client.post("/dashboard/login", data={"key": key})
