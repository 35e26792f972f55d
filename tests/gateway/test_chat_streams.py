"""Chats of a page that outlive it: resumed after a reload, replaced by the next message."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from support.gateway.calls import CANARY
from support.gateway.logs import logged
from support.gateway.servers import RunningGateway, gateway_config
from support.gateway.upstreams import ANSWER, StepUpstream

from streamnorm import StreamError
from streamnorm.gateway import ConfigError, Gateway, PageConfig
from streamnorm.testing import FakeProvider

pytestmark = pytest.mark.anyio

CHAT_ID = "aBcDeFgHiJkLmNoP"
PAGES = {"ui_message_stream": PageConfig(model="m", resume=True)}


def chat_body(text: str = "Hello", id: str = CHAT_ID) -> dict[str, Any]:
    message = {"id": "1", "role": "user", "parts": [{"type": "text", "text": text}]}
    return {"id": id, "trigger": "submit-message", "messages": [message]}


@asynccontextmanager
async def chat(
    upstream: Any, **settings: Any
) -> AsyncIterator[tuple[RunningGateway, httpx.AsyncClient]]:
    """Provide a gateway whose chats survive a reload, and a page."""
    async with (
        logged(upstream, client_keys=None, pages=PAGES, **settings) as gateway,
        httpx.AsyncClient(base_url=gateway.url, timeout=30) as page,
    ):
        yield gateway, page


async def test_chat_is_resumed_after_a_reload() -> None:
    gate = asyncio.Event()
    async with chat(StepUpstream([ANSWER[0], gate, *ANSWER[1:]])) as (_, page):
        assert (await page.get(f"/ui/chat/{CHAT_ID}/stream")).status_code == 204
        async with page.stream("POST", "/ui/chat", json=chat_body()) as answer:
            first = await anext(answer.aiter_raw())
        async with page.stream("GET", f"/ui/chat/{CHAT_ID}/stream") as resumed:
            assert resumed.headers["x-vercel-ai-ui-message-stream"] == "v1"
            chunks = resumed.aiter_raw()
            begun = await anext(chunks)
            gate.set()
            whole = begun + b"".join([chunk async for chunk in chunks])
        assert whole.startswith(first)
        assert b'"finish"' in whole
        ended = await page.get(f"/ui/chat/{CHAT_ID}/stream")
    assert (ended.status_code, ended.content) == (204, b"")


async def test_next_message_of_a_chat_takes_the_place_of_its_answer(
    caplog: pytest.LogCaptureFixture,
) -> None:
    upstream = StepUpstream([ANSWER[0], 60.0], ANSWER)
    async with chat(upstream) as (_, page):
        async with page.stream("POST", "/ui/chat", json=chat_body()) as answer:
            await anext(answer.aiter_raw())
        second = await page.post("/ui/chat", json=chat_body("And now?"))
        assert b'"finish"' in second.content
        async with asyncio.timeout(10):
            await upstream.closed.wait()
    assert len(upstream.requests) == 2
    assert "could not be stored" not in caplog.text  # as by a store that fails


async def test_chats_are_bounded_as_other_streams() -> None:
    upstream = StepUpstream([ANSWER[0], 60.0], ANSWER)
    async with chat(upstream, max_streams=1) as (_, page):
        async with page.stream("POST", "/ui/chat", json=chat_body()) as answer:
            await anext(answer.aiter_raw())
        refused = await page.post("/ui/chat", json=chat_body(id="b" * 16))
        assert refused.status_code == 429
        second = await page.post("/ui/chat", json=chat_body("And now?"))  # in place of the first
        assert b'"finish"' in second.content


async def test_same_message_of_a_chat_is_answered_anew_once_it_has_ended() -> None:
    gate = asyncio.Event()
    upstream = StepUpstream([ANSWER[0], gate, *ANSWER[1:]], ANSWER)
    async with chat(upstream) as (_, page), asyncio.TaskGroup() as tasks:
        both = [tasks.create_task(page.post("/ui/chat", json=chat_body())) for _ in range(2)]
        await upstream.asked.wait()
        gate.set()
        bodies = {(await each).content for each in both}
        assert len(bodies) == len(upstream.requests) == 1
        again = await page.post("/ui/chat", json=chat_body())
        assert again.status_code == 200
    assert len(upstream.requests) == 2


async def test_chat_that_is_cancelled() -> None:
    upstream = StepUpstream([ANSWER[0], 60.0])
    async with chat(upstream) as (_, page):
        async with page.stream("POST", "/ui/chat", json=chat_body()) as answer:
            await anext(answer.aiter_raw())
        assert (await page.delete(f"/ui/chat/{CHAT_ID}/stream")).status_code == 200
        async with asyncio.timeout(10):
            await upstream.closed.wait()


@pytest.mark.parametrize("id", ["1", "x" * 129, None, "a/b" * 9, "a b" * 9, "é" * 20])
async def test_chats_whose_id_may_be_guessed_are_not_resumed(id: Any) -> None:
    upstream = StepUpstream([ANSWER[0], 60.0])
    async with chat(upstream) as (_, page):
        body = {**chat_body(), "id": id}
        async with page.stream("POST", "/ui/chat", json=body) as answer:
            await anext(answer.aiter_raw())
        path = f"/ui/chat/{quote(str(id))}/stream"
        assert (await page.get(path)).status_code == 204
        assert (await page.delete(path)).status_code == 404
        async with asyncio.timeout(10):
            await upstream.closed.wait()  # the page has left


async def test_nor_are_they_where_visitors_share_the_key_of_a_page() -> None:
    upstream = StepUpstream([ANSWER[0], 60.0])
    headers = {"authorization": "Bearer key-of-a"}
    async with (
        logged(upstream, pages=PAGES) as gateway,
        httpx.AsyncClient(base_url=gateway.url, headers=headers, timeout=30) as page,
    ):
        async with page.stream("POST", "/ui/chat", json=chat_body(id="support")) as answer:
            await anext(answer.aiter_raw())
            assert (await page.get("/ui/chat/support/stream")).status_code == 204
            assert (await page.delete("/ui/chat/support/stream")).status_code == 404
        async with asyncio.timeout(10):
            await upstream.closed.wait()  # the page has left


async def test_chats_are_resumed_where_the_configuration_says_so() -> None:
    pages = {"ui_message_stream": PageConfig(model="m")}
    async with (
        logged(FakeProvider(["Hi."]).app(), client_keys=None, pages=pages) as gateway,
        httpx.AsyncClient(base_url=gateway.url) as page,
    ):
        assert (await page.get(f"/ui/chat/{CHAT_ID}/stream")).status_code == 404
    with pytest.raises(ConfigError, match="resume"):
        Gateway(gateway_config("http://127.0.0.1:9", pages=PAGES), environ={})


async def test_resumed_chat_says_nothing_of_the_operators_account() -> None:
    """Nor does its stream in any other dialect, of which the log has the provider's bytes."""
    error = StreamError("upstream", f"no such key: {CANARY}", "invalid_api_key", 401)
    async with chat(FakeProvider([["Hello", error]]).app()) as (_, page):
        answer = await page.post("/ui/chat", json=chat_body())
        id = answer.headers["x-streamnorm-stream"]
        answers = [answer] + [
            await page.get(f"/streams/{id}", params=to)
            for to in ({}, {"to": "openai_chat"}, {"to": "anthropic"})
        ]
    for each in answers:
        assert each.status_code == 200
        assert "Hello" in each.text
        assert "the provider refuses the gateway" in each.text
        assert CANARY not in each.text
