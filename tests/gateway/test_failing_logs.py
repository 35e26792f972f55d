"""A gateway whose log answers late, or not at all."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest
from support.gateway.servers import RunningGateway, served_gateway
from support.gateway.upstreams import ANSWER, REQUESTS, Records, StepUpstream

from streamnorm import Abandoned, Completed
from streamnorm.gateway import LogConfig, storing
from streamnorm.log import Log
from streamnorm.log.memory import MemoryLogStore
from streamnorm.state import StoreError
from streamnorm.testing import FakeProvider

pytestmark = pytest.mark.anyio

LOG = LogConfig(url="memory:")
KEYS: Any = {"client_keys": "env:KEYS", "environ": {"KEYS": "k"}}


async def asked(gateway: RunningGateway, client: str, id: str = "s-1") -> httpx.Response:
    path, body = REQUESTS[client]
    async with httpx.AsyncClient() as http:
        headers = {"x-streamnorm-stream": id, "authorization": "Bearer k"}
        return await http.post(gateway.url + path, json=body, headers=headers)


class FailingLog(MemoryLogStore):
    """The store of a log that is down."""

    def __init__(self) -> None:
        super().__init__(ttl_s=100)

    async def aclaim(self, *_: Any, **__: Any) -> Any:
        raise StoreError("down")


class SlowLog(MemoryLogStore):
    """The store of a log that answers late."""

    def __init__(self) -> None:
        super().__init__(ttl_s=100)
        self.gate = asyncio.Event()

    async def aclaim(self, *args: Any, **options: Any) -> Any:
        await self.gate.wait()
        return await super().aclaim(*args, **options)


async def test_client_that_leaves_before_its_id_is_claimed(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What its stream costs is in its record, and a refusal ends it, too."""
    store, records = SlowLog(), Records()
    monkeypatch.setattr(storing, "open_log", lambda *_, **__: Log(store))
    async with served_gateway(
        StepUpstream(ANSWER), log=LOG, observers=(records,), **KEYS
    ) as gateway:
        for client in ("openai_chat", "anthropic"):  # of which the second has another request
            task = asyncio.create_task(asked(gateway, client))
            await asyncio.sleep(0.3)
            task.cancel()
        await asyncio.sleep(0.1)
        assert not records.ended
        store.gate.set()
        await records.wait_for(2)
    found = {record.client: record.outcome for record in records.ended}
    assert isinstance(found["openai_chat"], Completed)
    assert isinstance(found["anthropic"], Abandoned)
    assert "failed" not in caplog.text


@pytest.mark.parametrize("mode", ["require", "best_effort"])
async def test_log_that_is_down(mode: Any, monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    monkeypatch.setattr(storing, "open_log", lambda *_, **__: Log(FailingLog()))
    provider = FakeProvider(["It snows."])
    log = LogConfig(url="memory:", mode=mode)
    async with served_gateway(provider.app(), log=log) as gateway:
        answer = await asked(gateway, "anthropic")
    if mode == "require":
        assert (answer.status_code, answer.json()["type"]) == (503, "error")
        assert not provider.requests
    else:
        assert b"message_stop" in answer.content
        assert b"\nid: " not in answer.content
        assert "nobody can resume it" in caplog.text
