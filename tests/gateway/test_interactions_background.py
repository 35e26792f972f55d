"""Interactions in the background: polled, resumed behind an event, and cancelled."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from google.genai._interactions_errors import APIError, BadRequestError, NotFoundError
from support.gateway.interactions import create, sdk
from support.gateway.servers import served_gateway
from support.gateway.stateful_clients import UPSTREAMS
from support.gateway.upstreams import ANSWER, StepUpstream
from support.openai_chat.chunks import content

from streamnorm.gateway import LogConfig
from streamnorm.sse import SSEDecoder
from streamnorm.testing import FakeProvider, faults, tool_call

pytestmark = pytest.mark.anyio

LOG: dict[str, Any] = {"log": LogConfig(url="memory:"), "state": "memory:"}


async def polled(client: Any, id: str) -> Any:
    """Return an interaction once it is no longer under way."""
    async with asyncio.timeout(60):
        while (found := await client.get(id)).status == "in_progress":  # noqa: ASYNC110 - it is polled
            await asyncio.sleep(0.01)
        return found


async def begun(client: Any, input: str = "Snow?", **more: Any) -> Any:
    return await client.create(model="m", input=input, background=True, **more)


@pytest.mark.parametrize("dialect", UPSTREAMS)
async def test_interaction_is_polled_and_continued(dialect: str) -> None:
    provider = FakeProvider(["It snows.", "Bye."])
    async with (
        served_gateway(provider.app(), dialect, **LOG) as gateway,
        sdk(gateway.url) as client,
    ):
        first = await begun(client)
        assert (first.status, first.model, first.output_text) == ("in_progress", "m", "")
        done = await polled(client, first.id)
        assert (done.id, done.status, done.output_text) == (first.id, "completed", "It snows.")
        assert first.created
        assert done.created == first.created
        again = await create(client, "Thanks.", previous_interaction_id=first.id)
        assert (await client.get(again)).output_text == "Bye."
        await client.delete(first.id)
        for stream in (False, True):
            with pytest.raises(NotFoundError):
                await client.get(first.id, stream=stream)
    assert "It snows." in str(provider.requests[-1].body)


@pytest.mark.parametrize("dialect", UPSTREAMS)
async def test_stream_goes_on_behind_each_event(dialect: str) -> None:
    provider = FakeProvider([["One moment.", tool_call("f", city="Oslo")]])
    async with (
        served_gateway(provider.app(), dialect, **LOG) as gateway,
        sdk(gateway.url) as client,
    ):
        events = [event async for event in await begun(client, stream=True)]
        ids = [event.event_id for event in events]
        assert len(set(ids)) == len(ids)
        assert all(ids)
        id = events[0].interaction.id
        assert events[-1].interaction.id == id
        assert events[-1].interaction.status == "requires_action"
        for number, event_id in enumerate(ids):
            rest = await client.get(id, stream=True, last_event_id=event_id)
            assert [event async for event in rest] == events[number + 1 :]
        whole = await client.get(id, stream=True)
        assert [event async for event in whole] == events


async def test_event_that_no_decoder_knows_has_one_id() -> None:
    """That of the gateway, behind which the client can read on, and not that of the upstream."""
    events: dict[str, Any] = {
        "interaction.created": {"interaction": {"id": "v1_x", "status": "in_progress"}},
        "step.start": {"index": 0, "step": {"type": "model_output"}},
        "step.delta": {"index": 0, "delta": {"type": "arrows", "event_id": "of the delta"}},
        "step.stop": {"index": 0},
        "weather.changed": {"wind": 1.5, "note": 'no "event_id"'},
        "interaction.completed": {"interaction": {"id": "v1_x", "status": "completed"}},
    }
    steps = [
        b"event: %b\ndata: %b\n\n"
        % (kind.encode(), json.dumps({**event, "event_type": kind, "event_id": "up"}).encode())
        for kind, event in events.items()
    ]
    body = {"model": "m", "input": "Wind?", "background": True, "stream": True}
    async with (
        served_gateway(StepUpstream(steps), "gemini_interactions", **LOG) as gateway,
        httpx.AsyncClient(timeout=60) as http,
    ):
        answer = await http.post(f"{gateway.url}/v1beta/interactions", json=body)
    found: dict[str, list[tuple[str, Any]]] = {}
    for frame in SSEDecoder().feed(answer.content):
        if frame.event != "done":
            pairs = json.loads(frame.data, object_pairs_hook=list)
            found[frame.event] = pairs
            assert [value for name, value in pairs if name == "event_id"] == [frame.id]
    assert found.keys() >= events.keys()
    assert ("wind", 1.5) in found["weather.changed"]
    assert ("event_id", "of the delta") in dict(found["step.delta"])["delta"]


async def test_stream_is_resumed_while_it_grows() -> None:
    gate = asyncio.Event()
    upstream = StepUpstream([ANSWER[0], gate, content("c"), *ANSWER[1:]])
    async with served_gateway(upstream, **LOG) as gateway, sdk(gateway.url) as client:
        stream = await begun(client, stream=True)
        first = await anext(aiter(stream))
        id = first.interaction.id
        waiting = await client.get(id)
        assert (waiting.id, waiting.status) == (id, "in_progress")
        with pytest.raises(BadRequestError, match="cancel it"):
            await client.delete(id)
        rest = await client.get(id, stream=True, last_event_id=first.event_id)
        kinds = []
        async for event in rest:
            kinds.append(event.event_type)
            gate.set()
        assert (kinds[0], kinds[-1]) == ("interaction.status_update", "interaction.completed")
        assert (await polled(client, id)).output_text == "acb"


@pytest.mark.parametrize("steps", [[60.0], [ANSWER[0], 60.0]], ids=["unbegun", "begun"])
async def test_cancelling(steps: list[Any]) -> None:
    upstream = StepUpstream(steps)
    async with served_gateway(upstream, **LOG) as gateway, sdk(gateway.url) as client:
        first = await begun(client)
        await upstream.asked.wait()
        waiting = await client.get(first.id)
        assert waiting.created == first.created
        assert waiting.model
        cancelled = await client.cancel(first.id)
        assert (cancelled.id, cancelled.status) == (first.id, "cancelled")
        assert not cancelled.errors
        async with asyncio.timeout(30):
            await upstream.closed.wait()
        assert (await client.cancel(first.id)).status == "cancelled"
        last = await client.get(first.id)
        assert (last.status, last.created) == ("cancelled", first.created)
        assert last.model == ("m" if len(steps) == 1 else "gpt")  # as the upstream says
        # The last event is the same for every status.
        events = [event async for event in await client.get(first.id, stream=True)]
        assert events[0].event_type == "interaction.created"
        assert events[-1].event_type == "interaction.completed"
        ended = events[-1].interaction
        assert (ended.id, ended.status, ended.model) == (first.id, "cancelled", last.model)
        assert bool(events[-1].event_id) is (len(steps) > 1)  # of one that never began is nothing
        await client.delete(first.id)
        for ask in (client.get, client.cancel, client.delete):
            with pytest.raises(NotFoundError):
                await ask(first.id)


async def test_refused_or_cut_request_is_a_failed_interaction() -> None:
    provider = FakeProvider([faults.http(429), ["Hello there.", faults.cut(event=2)]])
    async with (
        served_gateway(provider.app(), retries=0, **LOG) as gateway,
        sdk(gateway.url) as client,
    ):
        refused = await begun(client)
        failed = await polled(client, refused.id)
        assert (failed.id, failed.status, failed.model) == (refused.id, "failed", "m")
        assert "injected" in failed.errors[0].message
        stream = await client.get(refused.id, stream=True)
        events = [event async for event in stream]
        assert events[-1].event_type == "error"
        cut = await polled(client, (await begun(client)).id)
        assert (cut.status, len(cut.errors)) == ("failed", 1)


async def test_log_alone_tells_that_an_interaction_failed(tmp_path: Path) -> None:
    upstream = FakeProvider([faults.http(429)]).app()
    settings: dict[str, Any] = {
        **LOG,
        "log": LogConfig(url=f"sqlite:{tmp_path / 'log.db'}"),
        "retries": 0,
    }
    async with (
        served_gateway(upstream, **settings) as one,
        served_gateway(upstream, **settings) as other,
        sdk(one.url) as first,
        sdk(other.url) as second,
    ):
        id = (await polled(first, (await begun(first)).id)).id
        failed = await second.get(id)  # of a store of its own
        assert (failed.id, failed.status) == (id, "failed")
        assert "injected" in failed.errors[0].message
        await second.delete(id)
        for ask in (second.get, second.delete):
            with pytest.raises(NotFoundError):
                await ask(id)


async def test_interaction_that_no_upstream_began_before_the_gateway_stopped(
    tmp_path: Path,
) -> None:
    upstream = StepUpstream([60.0])
    settings: dict[str, Any] = {
        "log": LogConfig(url=f"sqlite:{tmp_path / 'log.db'}"),
        "state": f"sqlite:{tmp_path / 'state.db'}",
    }
    async with served_gateway(upstream, **settings) as gateway, sdk(gateway.url) as client:
        first = await begun(client)
        await upstream.asked.wait()
    async with served_gateway(upstream, **settings) as gateway, sdk(gateway.url) as client:
        failed = await client.get(first.id)
        assert (failed.id, failed.status) == (first.id, "failed")
        assert failed.errors


async def test_same_request_under_one_key_is_one_interaction() -> None:
    provider = FakeProvider(["It snows."] * 2)
    headers = {"idempotency-key": "i-1"}
    async with (
        served_gateway(provider.app(), **LOG) as gateway,
        sdk(gateway.url) as client,
    ):
        several = [await begun(client, extra_headers=headers) for _ in range(2)]
        assert several[0].id == several[1].id
        assert (await polled(client, several[0].id)).output_text == "It snows."
        # Whole answers of the log, without the background.
        more = {"extra_headers": {"idempotency-key": "i-2"}}
        whole = [await client.create(model="m", input="Hi", **more) for _ in range(2)]
        assert whole[0].id == whole[1].id
        assert whole[0].output_text == whole[1].output_text == "It snows."
        assert (await client.get(whole[0].id)).output_text == "It snows."
    assert len(provider.requests) == 2


async def test_refusals() -> None:
    provider = FakeProvider(["It snows."])
    settings = {**LOG, "client_keys": "env:KEYS", "environ": {"KEYS": "a,b"}}
    async with (
        served_gateway(provider.app(), **settings) as gateway,
        sdk(gateway.url, "a") as client,
        sdk(gateway.url, "b") as other,
        httpx.AsyncClient(base_url=gateway.url) as http,
    ):
        with pytest.raises(BadRequestError, match="store"):
            await begun(client, store=False)
        id = (await begun(client)).id
        for ask in (other.get, other.cancel, other.delete):
            with pytest.raises(NotFoundError):
                await ask(id)
        await polled(client, id)
        with pytest.raises(APIError) as raised:
            await client.get(id, stream=True, last_event_id="5")
        assert raised.value.status_code == 400
        assert (await client.cancel(id)).status == "completed"
        # Of another dialect, whose clients have ids of their own.
        headers = {"authorization": "Bearer a"}
        for path in (f"/v1/responses/{id}", f"/v1/responses/{id}?stream=true"):
            assert (await http.get(path, headers=headers)).status_code == 404


async def test_without_a_log_it_is_refused() -> None:
    provider = FakeProvider(["Hi."])
    async with (
        served_gateway(provider.app(), state="memory:") as gateway,
        sdk(gateway.url) as client,
    ):
        with pytest.raises(BadRequestError, match="background"):
            await begun(client)
