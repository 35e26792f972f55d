"""Responses in the background that are asked for again, deleted, or forgotten."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import openai
import pytest
from support.gateway.background import gateway_with_log, polled, sdk
from support.gateway.upstreams import ANSWER, StepUpstream

from streamnorm._core.errors import LogError
from streamnorm.gateway import LogConfig, storing
from streamnorm.log import Log
from streamnorm.log.memory import MemoryLogStore
from streamnorm.log.records import Reading, Record
from streamnorm.state import StoreError
from streamnorm.testing import FakeProvider, faults

pytestmark = pytest.mark.anyio

REQUEST: dict[str, Any] = {"model": "m", "input": "Snow?", "background": True}
KEYED: dict[str, Any] = {**REQUEST, "extra_headers": {"idempotency-key": "i-1"}}
KEYS: dict[str, Any] = {"client_keys": "env:KEYS", "environ": {"KEYS": "k"}}
CLIENT_KEYS = pytest.mark.parametrize("settings", [KEYS, {}], ids=["keys", "none"])


async def streamed(client: openai.AsyncOpenAI, **request: Any) -> Any:
    """Return the response of the last event of a stream."""
    events = [event async for event in await client.responses.create(**request, stream=True)]
    return events[-1].response


@CLIENT_KEYS
@pytest.mark.parametrize("is_stream", [False, True], ids=["whole", "stream"])
async def test_request_of_a_deleted_response_is_answered_anew(
    settings: dict[str, Any], *, is_stream: bool
) -> None:
    provider = FakeProvider(["It snows.", "It rains."])
    async with gateway_with_log(provider.app(), **settings) as gateway, sdk(gateway) as client:
        for text in ("It snows.", "It rains."):
            if is_stream:
                id = (await streamed(client, **KEYED)).id
            else:
                begun = await client.responses.create(**KEYED)
                assert (begun.status, begun.output) == ("queued", [])
                id = begun.id
            assert (await polled(client, id)).output_text == text
            await client.responses.delete(id)
            for _ in range(2):
                with pytest.raises(openai.NotFoundError):
                    await client.responses.retrieve(id)
                with pytest.raises(openai.NotFoundError):
                    await client.responses.delete(id)
    assert len(provider.requests) == 2


@CLIENT_KEYS
@pytest.mark.parametrize("is_stream", [False, True], ids=["whole", "stream"])
async def test_request_of_a_deleted_response_at_once_is_answered_anew(
    settings: dict[str, Any], *, is_stream: bool
) -> None:
    request = {name: value for name, value in KEYED.items() if name != "background"}
    provider = FakeProvider(["It snows.", "It rains."])
    async with gateway_with_log(provider.app(), **settings) as gateway, sdk(gateway) as client:
        for text in ("It snows.", "It rains."):
            for _ in range(2):
                ask = partial(streamed, client) if is_stream else client.responses.create
                done = await ask(**request)
                assert done.output_text == text
            await client.responses.delete(done.id)
    assert len(provider.requests) == 2


class SlowLog(MemoryLogStore):
    """The store of a log that is asked twice at once whether a response was deleted.

    It answers the second time late.
    """

    def __init__(self) -> None:
        super().__init__(ttl_s=100)
        self.deleted, self.lookups = "unknown", 0
        self.is_asked_twice, self.may_answer = asyncio.Event(), asyncio.Event()

    async def aread(self, scope: str, id: str, *rest: Any) -> Reading | None:
        found = await super().aread(scope, id, *rest)
        if not id.endswith(f"/{self.deleted}"):
            return found
        self.lookups += 1
        if self.lookups == 1:
            await self.is_asked_twice.wait()
        elif self.lookups == 2:
            self.is_asked_twice.set()
            await self.may_answer.wait()
        return found


async def test_repetitions_of_a_deleted_response_get_one_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The one that learns last of the deletion joins the answer that the other has begun."""
    store, go_on = SlowLog(), asyncio.Event()
    monkeypatch.setattr(storing, "open_log", lambda *_, **__: Log(store))
    upstream = StepUpstream([*ANSWER], [ANSWER[0], go_on, *ANSWER[1:]])
    request = {name: value for name, value in KEYED.items() if name != "background"}
    began: list[str] = []

    async def repeat(client: openai.AsyncOpenAI) -> Any:
        events = await client.responses.create(**request, stream=True)
        async for event in events:
            if event.type == "response.created":
                began.append(event.response.id)
                store.may_answer.set()
                if len(began) == 2:
                    go_on.set()
        return event.response

    async with gateway_with_log(upstream, **KEYS) as gateway, sdk(gateway) as client:
        store.deleted = (await streamed(client, **request)).id
        await client.responses.delete(store.deleted)
        one, other = await asyncio.gather(repeat(client), repeat(client))
    assert one == other
    assert (one.output_text, len(upstream.requests), upstream.left) == ("ab", 2, 0)


async def test_answer_that_has_ended_is_not_replaced_by_a_late_repetition(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It learns of the deletion before the other one asks, and of nothing that follows."""
    store = SlowLog()
    monkeypatch.setattr(storing, "open_log", lambda *_, **__: Log(store))
    provider = FakeProvider(["It snows.", "It rains.", "It hails."])
    request = {name: value for name, value in KEYED.items() if name != "background"}
    ended: list[Any] = []

    async def repeat(client: openai.AsyncOpenAI) -> Any:
        response = await client.responses.create(**request)
        ended.append(response)
        store.may_answer.set()
        return response

    async with gateway_with_log(provider.app(), **KEYS) as gateway, sdk(gateway) as client:
        store.deleted = (await client.responses.create(**request)).id
        await client.responses.delete(store.deleted)
        one, other = await asyncio.gather(repeat(client), repeat(client))
        assert one == other == await client.responses.retrieve(one.id)
        assert await client.responses.create(**request) == one
    assert (one.output_text, len(provider.requests)) == ("It rains.", 2)


async def test_response_that_is_not_stored_is_answered_once() -> None:
    provider = FakeProvider(["It snows."])
    request = {**KEYED, "background": False, "store": False}
    async with gateway_with_log(provider.app()) as gateway, sdk(gateway) as client:
        several = [await client.responses.create(**request) for _ in range(2)]
    assert several[0] == several[1]
    assert len(provider.requests) == 1


@CLIENT_KEYS
async def test_complete_answer_outlives_a_repetition_that_fails(
    settings: dict[str, Any], tmp_path: Path
) -> None:
    """The log has forgotten the response by then, and the store has it."""
    provider = FakeProvider(["It snows.", faults.http(429), "Bye."])
    stored = {"state": f"sqlite:{tmp_path / 'state.db'}", "retries": 0, **settings}
    async with (
        gateway_with_log(provider.app(), **stored) as one,
        gateway_with_log(provider.app(), **stored) as other,
        sdk(one) as first,
        sdk(other) as second,
    ):
        done = await polled(first, (await first.responses.create(**KEYED)).id)
        again = await second.responses.create(**KEYED)
        assert again.id == done.id
        assert await polled(second, done.id) == done
        further = await second.responses.create(
            model="m", input="Thanks.", previous_response_id=done.id
        )
        assert further.output_text == "Bye."


async def test_other_request_under_a_key_is_another_response() -> None:
    provider = FakeProvider(["It snows.", "It rains."])
    async with gateway_with_log(provider.app(), **KEYS) as gateway, sdk(gateway) as client:
        snow = await client.responses.create(**KEYED)
        assert (await polled(client, snow.id)).output_text == "It snows."
        rain = await client.responses.create(**{**KEYED, "input": "Rain?"})
        assert (await polled(client, rain.id)).output_text == "It rains."
        assert (await client.responses.retrieve(snow.id)).output_text == "It snows."


@pytest.mark.parametrize("ends", ["failed", "cut", "cancelled"])
async def test_log_alone_tells_how_a_response_ended(ends: str, tmp_path: Path) -> None:
    steps: dict[str, Any] = {"failed": [faults.http(429)], "cut": [["Hi.", faults.cut(event=2)]]}
    upstream = (
        StepUpstream([ANSWER[0], 60.0]) if ends == "cancelled" else FakeProvider(steps[ends]).app()
    )
    settings = {"log": LogConfig(url=f"sqlite:{tmp_path / 'log.db'}"), "retries": 0}
    async with (
        gateway_with_log(upstream, **settings) as one,
        gateway_with_log(upstream, **settings) as other,
        sdk(one) as first,
        sdk(other) as second,
    ):
        begun = await first.responses.create(**REQUEST)
        if ends == "cancelled":
            await first.responses.cancel(begun.id)
        status = (await polled(first, begun.id)).status
        found = await second.responses.retrieve(begun.id)  # of a store of its own
        assert (found.id, found.status) == (begun.id, status)
        assert status == ("cancelled" if ends == "cancelled" else "failed")
        await second.responses.delete(begun.id)
        for ask in (second.responses.retrieve, second.responses.delete):
            with pytest.raises(openai.NotFoundError):
                await ask(begun.id)
        with pytest.raises(openai.NotFoundError):
            await second.responses.retrieve(begun.id, stream=True)


@pytest.mark.parametrize("ends", ["refused", "cut", "unbegun", "cancelled"])
async def test_store_has_a_failed_response_when_the_log_has_forgotten_it(
    ends: str, tmp_path: Path
) -> None:
    steps: dict[str, Any] = {
        "refused": FakeProvider([faults.http(429)]).app(),
        "cut": FakeProvider([["Hi.", faults.cut(event=2)]]).app(),
        "unbegun": StepUpstream([60.0]),
        "cancelled": StepUpstream([ANSWER[0], 60.0]),
    }
    settings = {"state": f"sqlite:{tmp_path / 'state.db'}", "retries": 0}
    async with (
        gateway_with_log(steps[ends], **settings) as one,
        gateway_with_log(steps[ends], **settings) as other,  # with a log of its own
        sdk(one) as first,
        sdk(other) as second,
    ):
        begun = await first.responses.create(**REQUEST)
        if ends in ("unbegun", "cancelled"):
            await steps[ends].asked.wait()
            await first.responses.cancel(begun.id)
        failed = await polled(first, begun.id)
        async with asyncio.timeout(30):
            while True:
                with suppress(openai.NotFoundError):
                    found = await second.responses.retrieve(begun.id)
                    break
                await asyncio.sleep(0.01)
        assert found == failed == await second.responses.cancel(begun.id)
        assert await first.responses.retrieve(begun.id) == failed
        [item] = [item async for item in second.responses.input_items.list(begun.id)]
        assert item.type == "message"
        with pytest.raises(openai.BadRequestError, match="no complete output"):
            await second.responses.create(model="m", input="?", previous_response_id=begun.id)
        await first.responses.delete(begun.id)
        for client in (first, second):
            with pytest.raises(openai.NotFoundError):
                await client.responses.retrieve(begun.id)


async def test_failed_response_is_not_continued() -> None:
    provider = FakeProvider([faults.http(429)])
    async with gateway_with_log(provider.app(), retries=0) as gateway, sdk(gateway) as client:
        failed = await polled(client, (await client.responses.create(**REQUEST)).id)
        with pytest.raises(openai.BadRequestError, match="no complete output") as raised:
            await client.responses.create(model="m", input="?", previous_response_id=failed.id)
    assert raised.value.code == "previous_response_not_found"


class UnfreeingLog(MemoryLogStore):
    """The store of a log that releases no id."""

    async def afree(self, *_: Any) -> None:
        raise StoreError("down")


async def test_response_that_the_log_keeps_is_not_said_to_be_deleted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = UnfreeingLog(ttl_s=100)
    monkeypatch.setattr(storing, "open_log", lambda *_, **__: Log(store))
    provider = FakeProvider(["It snows."])
    async with gateway_with_log(provider.app()) as gateway, sdk(gateway) as client:
        begun = await client.responses.create(**REQUEST)
        await polled(client, begun.id)
        with pytest.raises(openai.InternalServerError) as raised:
            await client.responses.delete(begun.id)
    assert raised.value.status_code == 503


class LateLog(MemoryLogStore):
    """The store of a log whose first stream another gateway begins, and removes."""

    def __init__(self) -> None:
        super().__init__(ttl_s=100)
        self.is_taken = True

    async def aclaim(self, scope: str, id: str, record: Record, **options: Any) -> Any:
        claimed = await super().aclaim(scope, id, record, **options)
        if self.is_taken:
            self.is_taken = False
            await self.afree(scope, id, record.epoch)
            return record, False
        return claimed


async def test_request_that_joined_a_removed_response_is_answered_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = LateLog()
    monkeypatch.setattr(storing, "open_log", lambda *_, **__: Log(store))
    provider = FakeProvider(["It snows."])
    async with gateway_with_log(provider.app()) as gateway, sdk(gateway) as client:
        begun = await client.responses.create(**KEYED)
        assert (await polled(client, begun.id)).output_text == "It snows."
    assert len(provider.requests) == 1


class SlowRemoval(MemoryLogStore):
    """The store of a log that releases the id of a removed stream late."""

    def __init__(self) -> None:
        super().__init__(ttl_s=100)
        self.is_claimed, self.may_free = asyncio.Event(), asyncio.Event()

    async def afree(self, *args: Any) -> None:
        self.is_claimed.set()
        await self.may_free.wait()
        await super().afree(*args)


@pytest.mark.parametrize("is_stream", [False, True], ids=["whole", "stream"])
async def test_request_that_comes_while_its_response_is_removed_is_answered_anew(
    monkeypatch: pytest.MonkeyPatch, *, is_stream: bool
) -> None:
    store = SlowRemoval()
    monkeypatch.setattr(storing, "open_log", lambda *_, **__: Log(store))
    provider = FakeProvider(["It snows.", "It rains."])
    async with gateway_with_log(provider.app()) as gateway, sdk(gateway) as client:
        ask = partial(streamed, client) if is_stream else client.responses.create
        begun = await ask(**KEYED)
        await polled(client, begun.id)
        deleting = asyncio.create_task(client.responses.delete(begun.id))
        await store.is_claimed.wait()
        again = await ask(**KEYED)
        store.may_free.set()
        await deleting
        assert again.id == begun.id
        assert (await polled(client, begun.id)).output_text == "It rains."
    assert len(provider.requests) == 2


class HeldRemoval(MemoryLogStore):
    """The store of a log that a removal reaches late, or at first not at all."""

    def __init__(self) -> None:
        super().__init__(ttl_s=100)
        self.is_held, self.may_claim = asyncio.Event(), asyncio.Event()
        self.holds, self.fails_at = False, ""

    async def aclaim(self, *args: Any, **options: Any) -> Any:
        self.fail("claim")
        if self.holds:
            self.holds = False
            self.is_held.set()
            await self.may_claim.wait()
        return await super().aclaim(*args, **options)

    async def afree(self, *args: Any) -> None:
        self.fail("free")
        await super().afree(*args)

    def fail(self, operation: str) -> None:
        if operation == self.fails_at:
            self.fails_at = ""
            raise StoreError("down")


async def test_request_that_reads_a_response_while_it_is_removed_is_answered_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = HeldRemoval()
    monkeypatch.setattr(storing, "open_log", lambda *_, **__: Log(store))
    provider = FakeProvider(["It snows.", "It rains."])
    follow_answer = Log.follow_answer
    removal: asyncio.Task[Any] | None = None

    async def follow_removed(self: Log, id: str, **options: Any) -> Any:
        nonlocal removal
        if removal is not None:
            store.may_claim.set()
            await removal
            removal = None
        return await follow_answer(self, id, **options)

    async with gateway_with_log(provider.app()) as gateway, sdk(gateway) as client:
        begun = await client.responses.create(**KEYED)
        await polled(client, begun.id)
        store.holds = True
        deleting = asyncio.create_task(client.responses.delete(begun.id))
        await store.is_held.wait()
        removal = deleting
        monkeypatch.setattr(Log, "follow_answer", follow_removed)
        again = await client.responses.create(**KEYED)
        assert again.id == begun.id
        assert (await polled(client, begun.id)).output_text == "It rains."
    assert len(provider.requests) == 2


@pytest.mark.parametrize("operation", ["claim", "free"])
async def test_deletion_that_failed_in_the_log_may_be_repeated(
    operation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = HeldRemoval()
    monkeypatch.setattr(storing, "open_log", lambda *_, **__: Log(store, lease_s=0.2))
    provider = FakeProvider(["It snows."])
    async with gateway_with_log(provider.app()) as gateway, sdk(gateway) as client:
        begun = await client.responses.create(**REQUEST)
        await polled(client, begun.id)
        store.fails_at = operation
        refused: list[int] = []
        async with asyncio.timeout(30):
            while True:
                try:
                    await client.responses.delete(begun.id)
                    break
                except openai.InternalServerError as exc:
                    refused.append(exc.status_code)
                    await asyncio.sleep(0.01)
        assert {*refused} == {503}
        for ask in (client.responses.retrieve, client.responses.delete):
            with pytest.raises(openai.NotFoundError):
                await ask(begun.id)


async def test_repetition_reads_no_stream_that_another_one_has_replaced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """To learn whether its response was deleted; the stream that replaces it is the answer."""
    provider = FakeProvider(["It snows.", "It rains."])
    request = {name: value for name, value in KEYED.items() if name != "background"}
    follow_answer, is_gone = Log.follow_answer, False

    async def follow_gone(self: Log, id: str, **options: Any) -> Any:
        nonlocal is_gone
        if is_gone:
            is_gone = False
            raise LogError("the log no longer has the stream", code="trimmed")
        return await follow_answer(self, id, **options)

    monkeypatch.setattr(Log, "follow_answer", follow_gone)
    async with gateway_with_log(provider.app(), **KEYS) as gateway, sdk(gateway) as client:
        deleted = await client.responses.create(**request)
        await client.responses.delete(deleted.id)
        done = await client.responses.create(**request)
        is_gone = True
        assert await client.responses.create(**request) == done
    assert len(provider.requests) == 2
