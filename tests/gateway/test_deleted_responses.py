"""Requests that are sent again after the response to them was deleted, or forgotten."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from support.gateway.background import gateway_with_log, sdk

from streamnorm._core.errors import StoreError
from streamnorm.gateway import LogConfig, storing
from streamnorm.log import Log
from streamnorm.log.memory import MemoryLogStore
from streamnorm.log.records import Record
from streamnorm.testing import FakeProvider

pytestmark = pytest.mark.anyio

REQUEST: dict[str, Any] = {"model": "m", "input": "Snow?"}
KEYED: dict[str, Any] = {**REQUEST, "extra_headers": {"idempotency-key": "i-1"}}
KEYS: dict[str, Any] = {"client_keys": "env:KEYS", "environ": {"KEYS": "k"}}
CLIENT_KEYS = pytest.mark.parametrize("settings", [KEYS, {}], ids=["keys", "none"])
STREAMS = pytest.mark.parametrize("is_stream", [False, True], ids=["whole", "stream"])


async def asked(client: openai.AsyncOpenAI, *, is_stream: bool = False) -> Any:
    """Return the response to the request under the key."""
    if not is_stream:
        return await client.responses.create(**KEYED)
    events = [event async for event in await client.responses.create(**KEYED, stream=True)]
    return events[-1].response


@CLIENT_KEYS
@STREAMS
async def test_response_that_the_store_lacks_is_not_paid_for_again(
    settings: dict[str, Any], tmp_path: Path, *, is_stream: bool
) -> None:
    """Each gateway has a store of its own, as after a restart."""
    provider = FakeProvider(["It snows.", "It rains.", "It hails."])
    shared = {"log": LogConfig(url=f"sqlite:{tmp_path / 'log.db'}"), **settings}
    async with (
        gateway_with_log(provider.app(), **shared) as one,
        gateway_with_log(provider.app(), **shared) as other,
        sdk(one) as first,
        sdk(other) as second,
    ):
        other_response = await first.responses.create(**REQUEST)
        await first.responses.delete(other_response.id)
        done = await asked(first, is_stream=is_stream)
        assert done.output_text == "It rains."
        assert await asked(second, is_stream=is_stream) == done
    assert len(provider.requests) == 2


@CLIENT_KEYS
@STREAMS
async def test_request_of_a_deleted_response_is_answered_anew_at_another_gateway(
    settings: dict[str, Any], tmp_path: Path, *, is_stream: bool
) -> None:
    provider = FakeProvider(["It snows.", "It rains.", "It hails."])
    shared = {"log": LogConfig(url=f"sqlite:{tmp_path / 'log.db'}"), **settings}
    async with (
        gateway_with_log(provider.app(), **shared) as one,
        gateway_with_log(provider.app(), **shared) as other,
        sdk(one) as first,
        sdk(other) as second,
    ):
        done = await asked(first, is_stream=is_stream)
        assert done.output_text == "It snows."
        await first.responses.delete(done.id)
        anew = await asked(second, is_stream=is_stream)
        assert anew.output_text == "It rains."
        for client in (second, first):
            assert await asked(client, is_stream=is_stream) == anew
        await second.responses.delete(anew.id)
        assert (await asked(first, is_stream=is_stream)).output_text == "It hails."
    assert len(provider.requests) == 3


class FailingLog(MemoryLogStore):
    """The store of a log that fails while it is told to."""

    def __init__(self) -> None:
        super().__init__(ttl_s=100)
        self.refuses_claims = self.refuses_appends = False
        self.claims: list[str] = []

    async def aclaim(self, scope: str, id: str, record: Record, **options: Any) -> Any:
        if self.refuses_claims:
            raise StoreError("down")
        self.claims.append(id)
        return await super().aclaim(scope, id, record, **options)

    async def aappend(self, appends: Any) -> Any:
        if self.refuses_appends:
            raise StoreError("down")
        return await super().aappend(appends)


@pytest.fixture
def log_store(monkeypatch: pytest.MonkeyPatch) -> FailingLog:
    store = FailingLog()
    monkeypatch.setattr(storing, "open_log", lambda *_, **__: Log(store))
    return store


async def test_response_is_kept_where_the_log_does_not_learn_of_its_deletion(
    log_store: FailingLog,
) -> None:
    provider = FakeProvider(["It snows.", "It rains."])
    async with gateway_with_log(provider.app(), **KEYS) as gateway, sdk(gateway) as client:
        done = await asked(client)
        log_store.refuses_claims = True
        with pytest.raises(openai.InternalServerError) as raised:
            await client.responses.delete(done.id)
        assert raised.value.status_code == 503
        assert raised.value.code == "store_unavailable"
        assert await client.responses.retrieve(done.id) == done
        log_store.refuses_claims = False
        assert await asked(client) == done
        await client.responses.delete(done.id)
        assert (await asked(client)).output_text == "It rains."
    assert len(provider.requests) == 2


async def test_deletion_is_known_from_its_first_step_on(log_store: FailingLog) -> None:
    provider = FakeProvider(["It snows.", "It rains."])
    async with gateway_with_log(provider.app(), **KEYS) as gateway, sdk(gateway) as client:
        done = await asked(client)
        log_store.refuses_appends = True
        await client.responses.delete(done.id)
        log_store.refuses_appends = False
        for _ in range(2):
            assert (await asked(client)).output_text == "It rains."


async def test_log_learns_of_no_deletion_of_what_is_not_stored(log_store: FailingLog) -> None:
    provider = FakeProvider(["It snows."])
    async with gateway_with_log(provider.app(), **KEYS) as gateway, sdk(gateway) as client:
        for id in ("resp_1", "x"):
            with pytest.raises(openai.NotFoundError):
                await client.responses.delete(id)
    assert log_store.claims == []


async def test_clients_cannot_name_the_record_of_a_deletion(log_store: FailingLog) -> None:
    provider = FakeProvider(["It snows.", "It rains."])
    async with gateway_with_log(provider.app(), **KEYS) as gateway, sdk(gateway) as client:
        done = await asked(client)
        await client.responses.delete(done.id)
        assert (await asked(client)).output_text == "It rains."
        for id in set(log_store.claims) - {"i-1"}:
            with pytest.raises(openai.BadRequestError):
                await client.responses.create(**REQUEST, extra_headers={"idempotency-key": id})
            async with httpx.AsyncClient(headers={"authorization": "Bearer k"}) as http:
                for method in ("GET", "DELETE"):
                    answer = await http.request(method, f"{gateway.url}/streams/{id}")
                    assert answer.status_code in (400, 404)
    assert len(log_store.claims) > 2


async def test_answers_that_are_not_stored_are_repeated_after_a_deletion() -> None:
    provider = FakeProvider(["It snows.", "It rains."])
    async with gateway_with_log(provider.app(), **KEYS) as gateway, sdk(gateway) as client:
        await client.responses.delete((await client.responses.create(**REQUEST)).id)
        request: dict[str, Any] = {**KEYED, "store": False}
        several = [await client.responses.create(**request) for _ in range(2)]
    assert several[0] == several[1]
    assert len(provider.requests) == 2
