"""Timelines of streams in the log, which the dashboard links to."""

from __future__ import annotations

import asyncio
import json
import re
import zlib
from base64 import b64decode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from support.gateway.calls import opened
from support.gateway.dashboards import ENVIRON, SECRET, WatchedGateway, log_in, watched_gateway

from streamnorm.gateway import ConfigError, DashboardConfig, LogConfig, dashboard_timelines
from streamnorm.gateway.dashboard_timelines import Timelines
from streamnorm.log import Log, MemoryLogStore, tails
from streamnorm.log.records import Reading
from streamnorm.state import StoreError

pytestmark = pytest.mark.anyio

OPTIONS = DashboardConfig(admin_keys="env:ADMIN_KEYS", timelines=True)
LOGGED: dict[str, Any] = {"log": LogConfig(url="memory:"), "dashboard": OPTIONS}
STREAM = {"x-streamnorm-stream": "chat-0123456789abcdef"}


async def first_state(gateway: WatchedGateway) -> dict[str, Any]:
    """Return what a page is sent first."""
    await log_in(gateway)
    async with gateway.client.stream("GET", "/dashboard/events") as events:
        async for line in events.aiter_lines():
            if line.startswith("data: "):
                state: dict[str, Any] = json.loads(line.removeprefix("data: "))
                return state
    raise AssertionError("no state")


async def timeline_of(gateway: WatchedGateway, name: str) -> httpx.Response:
    return await gateway.client.get("/dashboard/timeline", params={"of": name})


def frames_of(page: str) -> str:
    """Return the frames that a page holds, as JSON."""
    chunks = re.findall(r'class="chunk">([^<]*)<', page)
    assert chunks
    return "".join(zlib.decompress(b64decode(chunk)).decode() for chunk in chunks)


async def test_request_of_the_log_has_a_timeline() -> None:
    async with watched_gateway(**LOGGED) as gateway:
        gateway.client.headers.update(STREAM)
        assert await gateway.ask("qwen3-32b") == 200
        del gateway.client.headers["x-streamnorm-stream"]
        assert await gateway.ask("qwen3-32b") == 200
        state = await first_state(gateway)
        logged, other = state["ended"]
        assert "timeline" not in other
        answer = await timeline_of(gateway, logged["timeline"])
        assert answer.status_code == 200
        assert "snows" in frames_of(answer.text)
        assert answer.headers["content-security-policy"].endswith("sandbox allow-scripts")
        assert answer.headers["cache-control"] == "no-store"


async def test_page_learns_no_scope_of_a_stream() -> None:
    """It is the digest of a client's key."""
    settings = {**LOGGED, "client_keys": "env:CLIENT_KEYS"}
    async with watched_gateway(**settings) as gateway:
        gateway.client.headers.update({**STREAM, "x-api-key": "client-0123456789abcdef"})
        assert await gateway.ask("qwen3-32b") == 200
        (row,) = (await first_state(gateway))["ended"]
        assert "stream" not in row
        assert STREAM["x-streamnorm-stream"] not in json.dumps(row)
        assert (await timeline_of(gateway, row["timeline"])).status_code == 200


async def test_running_stream_is_shown_as_far_as_it_has_come() -> None:
    async with watched_gateway(**LOGGED) as gateway:
        gateway.client.headers.update(STREAM)
        async with gateway.running_request():
            (row,) = (await first_state(gateway))["running"]
            answer = await timeline_of(gateway, row["timeline"])
            assert answer.status_code == 200
            assert "snows" in frames_of(answer.text)
            assert "running" in answer.text


class SlowStore(MemoryLogStore):
    """A store that answers after a hundredth of a second, or not at all if it is away."""

    is_away = False

    async def aread(
        self, scope: str, id: str, after: int, max_bytes: int, wait_s: float
    ) -> Reading | None:
        await asyncio.sleep(0.01)
        if self.is_away:
            raise StoreError("away")
        return await super().aread(scope, id, after, max_bytes, wait_s)


def chunk_of(text: str) -> bytes:
    """Return a chunk of a chat answer with text."""
    choice = {"index": 0, "delta": {"role": "assistant", "content": text}, "finish_reason": None}
    chunk = {"id": "c", "object": "chat.completion.chunk", "model": "m", "choices": [choice]}
    return f"data: {json.dumps(chunk)}\n\n".encode()


@asynccontextmanager
async def running_stream(store: MemoryLogStore) -> AsyncIterator[Log]:
    """Provide the log of a stream that sends a word every hundredth of a second, without end."""

    async def send() -> AsyncIterator[bytes]:
        while True:
            yield chunk_of("snow ")
            await asyncio.sleep(0.01)

    log = Log(store)
    async with log.produce("a", send(), dialect="openai_chat") as run:
        async with await log.follow("a") as events:
            await anext(events)
        yield log
        assert not run.has_ended
        await log.cancel("a")


@pytest.mark.parametrize("is_away", [False, True])
async def test_stream_that_never_pauses_is_shown_before_its_end(
    monkeypatch: pytest.MonkeyPatch, *, is_away: bool
) -> None:
    monkeypatch.setattr(dashboard_timelines, "_WAIT_S", 0.05)
    store = SlowStore(ttl_s=60)
    async with running_stream(store) as log:
        store.is_away = is_away
        async with asyncio.timeout(10):
            page = (await Timelines(log).page_of(("", "a"))).decode()
        store.is_away = False
        assert "snow" in frames_of(page)
        assert "running" in page


async def test_stored_stream_is_shown_to_its_end_however_long_that_takes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dashboard_timelines, "_WAIT_S", 0.1)
    monkeypatch.setattr(tails, "READ_BYTES", 1000)  # a few reads, of thirty steps
    store = SlowStore(ttl_s=60)

    async def send() -> AsyncIterator[bytes]:
        for number in range(150):
            yield chunk_of(f"w{number} ")
            await asyncio.sleep(0)
        yield b"data: [DONE]\n\n"

    async with Log(store).produce("a", send(), dialect="openai_chat") as run:
        await run.wait()
    page = (await Timelines(Log(store)).page_of(("", "a"))).decode()
    assert "w149 " in frames_of(page)
    assert "[DONE]" in frames_of(page)


async def test_secrets_in_an_answer_are_not_shown() -> None:
    async with watched_gateway(**LOGGED) as gateway:
        gateway.client.headers.update(STREAM)
        assert await gateway.ask("qwen3-32b", text="Secret.") == 200
        (row,) = (await first_state(gateway))["ended"]
        answer = await timeline_of(gateway, row["timeline"])
        for shown in (answer.text, frames_of(answer.text)):
            assert SECRET not in shown
        assert "x" * len(SECRET) in frames_of(answer.text)


async def test_expired_stream_has_no_timeline() -> None:
    log = LogConfig(url="memory:", ttl_s=1.0)
    async with watched_gateway(log=log, dashboard=OPTIONS) as gateway:
        gateway.client.headers.update(STREAM)
        assert await gateway.ask("qwen3-32b") == 200
        (row,) = (await first_state(gateway))["ended"]
        await asyncio.sleep(1.1)
        answer = await timeline_of(gateway, row["timeline"])
        assert answer.status_code == 404
        assert answer.text == "a stream that has expired, expected one of the log\n"


async def test_broken_stream_is_shown_with_its_end() -> None:
    async with watched_gateway(**LOGGED) as gateway:
        gateway.client.headers.update(STREAM)
        await gateway.ask("qwen3-32b", text="Cut.")
        (row,) = (await first_state(gateway))["ended"]
        answer = await timeline_of(gateway, row["timeline"])
        assert answer.status_code == 200
        assert "connection lost" in answer.text


@pytest.mark.parametrize("name", ["", "1@host-1", "../x", "x" * 3000])
async def test_unknown_timeline_is_none(name: str) -> None:
    async with watched_gateway(**LOGGED) as gateway:
        await log_in(gateway)
        answer = await timeline_of(gateway, name)
        assert answer.status_code == 404


async def test_stream_without_an_answer_has_no_timeline() -> None:
    async with watched_gateway(**LOGGED) as gateway:
        gateway.client.headers.update(STREAM)
        assert await gateway.ask("qwen3-32b", text="Fail.") == 529
        (row,) = (await first_state(gateway))["ended"]
        assert (await timeline_of(gateway, row["timeline"])).status_code == 404


async def test_timeline_needs_the_session() -> None:
    async with watched_gateway(**LOGGED) as gateway:
        gateway.client.headers.update(STREAM)
        assert await gateway.ask("qwen3-32b") == 200
        (row,) = (await first_state(gateway))["ended"]
        gateway.client.cookies.clear()
        answer = await timeline_of(gateway, row["timeline"])
        assert answer.status_code == 401
        assert "snows" not in answer.text


async def test_timelines_are_off_unless_asked_for() -> None:
    async with watched_gateway(log=LogConfig(url="memory:")) as gateway:
        gateway.client.headers.update(STREAM)
        assert await gateway.ask("qwen3-32b") == 200
        (row,) = (await first_state(gateway))["ended"]
        assert "timeline" not in row
        assert "stream" not in row


async def test_timelines_without_a_log_stop_the_start() -> None:
    with pytest.raises(ConfigError, match=r"dashboard.timelines: without a log, expected \[log\]"):
        async with opened(dashboard=OPTIONS, environ=ENVIRON):
            pass
