"""`useChat` gets the answer of its chat again after a reload, from a gateway without a backend."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import httpx
import pytest
from acceptance.node_sdks import ask, missing
from anyio import to_thread
from support.gateway.servers import served_gateway
from support.gateway.upstreams import ANSWER, Records, StepUpstream

from streamnorm.gateway import CallRecord, LogConfig, PageConfig

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.outside,
    pytest.mark.skipif(bool(missing()), reason=missing()),
]

ID = "aBcDeFgHiJkLmNoP"
MESSAGE = {"id": "1", "role": "user", "parts": [{"type": "text", "text": "Hello"}]}


class Resumed(Records):
    """An observer that lets the answer go on once it is asked for again.

    Attributes:
        second: Set when that request has begun.
    """

    def __init__(self) -> None:
        super().__init__()
        self.second = asyncio.Event()
        self._count = 0

    def begin(self, call: CallRecord) -> None:
        self._count += 1
        if self._count > 1:
            asyncio.get_running_loop().call_later(0.2, self.second.set)


@pytest.fixture
def anyio_backend() -> str:
    """Run on asyncio, as the gateway does."""
    return "asyncio"


async def resume(client: str, url: str) -> list[dict[str, Any]]:
    """Return the messages of a page that was loaded again."""
    [heard] = await to_thread.run_sync(
        partial(ask, "ui_chat", client, [{"url": url, "resumed": ID, "tool": ""}])
    )
    messages: list[dict[str, Any]] = heard["messages"]
    return messages


@pytest.mark.parametrize("client", ["ai5", "ai6", "ai7"])
async def test_answer_goes_on_after_a_reload(client: str) -> None:
    records = Resumed()
    upstream = StepUpstream([ANSWER[0], records.second, *ANSWER[1:]])
    settings: dict[str, Any] = {
        "observers": (records,),
        "log": LogConfig(url="memory:"),
        "pages": {"ui_message_stream": PageConfig(model="m", resume=True)},
    }
    async with served_gateway(upstream, **settings) as gateway, httpx.AsyncClient() as page:
        url = f"{gateway.url}/ui/chat"
        body = {"id": ID, "trigger": "submit-message", "messages": [MESSAGE]}
        async with page.stream("POST", url, json=body) as answer:
            await anext(answer.aiter_raw())
        [message] = await resume(client, url)
        texts = [part["text"] for part in message["parts"] if part["type"] == "text"]
        assert (message["role"], "".join(texts)) == ("assistant", "ab")
        assert await resume(client, url) == []
    assert len(upstream.requests) == 1
