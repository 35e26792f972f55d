"""Responses in the background, at a gateway with a log and a store."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from support.gateway.background import gateway_with_log, polled, sdk
from support.gateway.stateful_clients import UPSTREAMS
from support.gateway.upstreams import ANSWER, Records, StepUpstream
from support.openai_chat.chunks import content

from streamnorm import Completed
from streamnorm.gateway import LogConfig
from streamnorm.sse import SSEDecoder
from streamnorm.testing import FakeProvider, faults, tool_call

pytestmark = pytest.mark.anyio

BODY = {"model": "m", "input": "Hello", "background": True}
PING = "keepalive"  # also between events that a busy machine writes late


@pytest.mark.parametrize("dialect", UPSTREAMS)
async def test_response_is_polled_on_every_upstream(dialect: str) -> None:
    provider = FakeProvider(["It snows.", "Bye."])
    async with (
        gateway_with_log(provider.app(), dialect=dialect) as gateway,
        sdk(gateway) as client,
    ):
        begun = await client.responses.create(
            model="m", input="Snow?", background=True, instructions="Be brief."
        )
        assert (begun.status, begun.background, begun.output_text) == ("queued", True, "")
        assert (begun.model, begun.instructions) == ("m", "Be brief.")
        done = await polled(client, begun.id)
        assert (done.status, done.output_text, done.id) == ("completed", "It snows.", begun.id)
        assert (done.background, done.store) == (True, True)
        further = await client.responses.create(
            model="m", input="Thanks.", previous_response_id=done.id
        )
        assert further.output_text == "Bye."
    assert "It snows." in json.dumps(provider.requests[-1].body)


async def test_response_under_way() -> None:
    gates = [asyncio.Event(), asyncio.Event()]
    upstream = StepUpstream([gates[0], ANSWER[0], gates[1], *ANSWER[1:]])
    records = Records()
    async with (
        gateway_with_log(upstream, observers=(records,)) as gateway,
        sdk(gateway) as client,
    ):
        begun = await client.responses.create(model="m", input="Hello", background=True)
        await upstream.asked.wait()
        assert (await client.responses.retrieve(begun.id)).status == "queued"
        gates[0].set()
        async with asyncio.timeout(30):
            while (await client.responses.retrieve(begun.id)).status == "queued":  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        waiting = await client.responses.retrieve(begun.id)
        assert (waiting.status, waiting.id, waiting.output) == ("in_progress", begun.id, [])
        with pytest.raises(openai.BadRequestError, match="cancel it"):
            await client.responses.delete(begun.id)
        gates[1].set()
        assert (await polled(client, begun.id)).output_text == "ab"
        await client.responses.delete(begun.id)
        async with httpx.AsyncClient(headers={"authorization": "Bearer k"}, timeout=60) as http:
            for method in ("GET", "DELETE"):  # the log has it still
                found = await http.request(method, f"{gateway.url}/streams/{begun.id}")
                assert found.status_code == 404
        with pytest.raises(openai.NotFoundError):
            await client.responses.retrieve(begun.id)
        with pytest.raises(openai.NotFoundError):
            await client.responses.retrieve(begun.id, stream=True)
    [record] = [record for record in records.ended if record.attempts]
    assert (record.operation, record.upstream) == ("message", "local")
    assert isinstance(record.outcome, Completed)


@pytest.mark.parametrize("dialect", UPSTREAMS)
async def test_stream_goes_on_behind_each_number(dialect: str) -> None:
    provider = FakeProvider([tool_call("f", city="Oslo")])
    async with (
        gateway_with_log(provider.app(), dialect=dialect) as gateway,
        sdk(gateway) as client,
    ):
        stream = await client.responses.create(
            model="m", input="Snow?", background=True, stream=True
        )
        events = [event async for event in stream]
        numbers = [event.sequence_number for event in events]
        assert numbers == list(range(len(events)))
        id = events[0].response.id
        assert events[-1].type == "response.completed"
        for number in numbers:
            rest = await client.responses.retrieve(id, stream=True, starting_after=number)
            assert [event async for event in rest] == events[number + 1 :]
        whole = await client.responses.retrieve(id, stream=True)
        assert [event async for event in whole] == events


async def test_stream_is_resumed_while_it_grows() -> None:
    gate = asyncio.Event()
    upstream = StepUpstream([ANSWER[0], gate, content("c"), *ANSWER[1:]])
    async with gateway_with_log(upstream) as gateway, sdk(gateway) as client:
        stream = await client.responses.create(
            model="m", input="Hello", background=True, stream=True
        )
        first = await anext(aiter(stream))
        await stream.close()
        rest = await client.responses.retrieve(first.response.id, stream=True, starting_after=1)
        kinds = []
        async for event in rest:
            kinds.append(event.type)
            if event.type == "response.output_text.delta":
                gate.set()
        assert kinds[0] == "response.output_item.added"
        assert kinds[-1] == "response.completed"
    assert upstream.left == 0


async def test_client_learns_the_id_before_an_upstream_begins() -> None:
    gate = asyncio.Event()
    upstream = StepUpstream([gate, *ANSWER])
    async with (
        gateway_with_log(upstream, keepalive_s=0.02) as gateway,
        sdk(gateway) as client,
    ):
        stream = await client.responses.create(
            model="m", input="Hello", background=True, stream=True
        )
        events = [await anext(aiter(stream))]
        assert events[0].type == "response.created"
        id = events[0].response.id
        assert (await client.responses.retrieve(id)).status == "queued"
        await asyncio.sleep(0.1)  # pings that are no events
        gate.set()
        events += [event async for event in stream if event.type != PING]
        assert [event.sequence_number for event in events] == list(range(len(events)))
        assert events[-1].response.output_text == "ab"
        rest = await client.responses.retrieve(id, stream=True, starting_after=0)
        assert [event async for event in rest if event.type != PING] == events[1:]


async def test_pings_take_no_number_of_an_event() -> None:
    """A client goes on behind the last number that it has: each ping would cost it an event."""
    gate = asyncio.Event()
    upstream = StepUpstream([ANSWER[0], 0.2, content("c"), gate, *ANSWER[1:]])
    async with gateway_with_log(upstream, keepalive_s=0.02) as gateway, sdk(gateway) as client:
        stream = await client.responses.create(
            model="m", input="Hello", background=True, stream=True
        )
        before = []
        async for event in stream:
            before.append(event)
            if event.type == "response.output_text.delta" and event.delta == "c":
                break
        await stream.close()
        gate.set()
        id, last = before[0].response.id, before[-1].sequence_number
        behind = await client.responses.retrieve(id, stream=True, starting_after=last)
        sent = [event for event in before if event.type != PING]
        assert len(sent) < len(before)
        sent += [event async for event in behind if event.type != PING]
        whole = await client.responses.retrieve(id, stream=True)
        assert sent[1:] == [event async for event in whole if event.type != PING][1:]


@pytest.mark.parametrize("status", [429, 400])
async def test_refusal_behind_the_first_event_is_a_failed_response(status: int) -> None:
    gate = asyncio.Event()
    answered = FakeProvider([faults.http(status)]).app()

    async def upstream(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            await gate.wait()
        await answered(scope, receive, send)

    async with (
        gateway_with_log(upstream, keepalive_s=0.02) as gateway,
        sdk(gateway) as client,
    ):
        stream = await client.responses.create(
            model="m", input="Hello", background=True, stream=True
        )
        events = [await anext(aiter(stream))]
        gate.set()
        with pytest.raises(openai.APIError, match="injected as a fault"):
            events.extend([event async for event in stream])
        assert events[0].type == "response.created"
        assert (await client.responses.retrieve(events[0].response.id)).status == "failed"


async def test_cancelling() -> None:
    upstream = StepUpstream([ANSWER[0], 60.0])
    async with gateway_with_log(upstream) as gateway, sdk(gateway) as client:
        begun = await client.responses.create(model="m", input="Hello", background=True)
        await upstream.asked.wait()
        cancelled = await client.responses.cancel(begun.id)
        assert (cancelled.id, cancelled.status) == (begun.id, "cancelled")
        async with asyncio.timeout(10):
            await upstream.closed.wait()
        again = await client.responses.cancel(begun.id)
        assert again.status == "cancelled"
        assert (await client.responses.retrieve(begun.id)).status == "cancelled"


async def test_cancelling_before_an_upstream_answers() -> None:
    upstream = StepUpstream([60.0])
    async with gateway_with_log(upstream) as gateway, sdk(gateway) as client:
        begun = await client.responses.create(model="m", input="Hello", background=True)
        await upstream.asked.wait()
        cancelled = await client.responses.cancel(begun.id)
        assert (cancelled.id, cancelled.status, cancelled.output) == (begun.id, "cancelled", [])
        assert (await client.responses.retrieve(begun.id)).status == "cancelled"


async def test_response_that_no_upstream_began_before_the_gateway_stopped(tmp_path: Path) -> None:
    upstream = StepUpstream([60.0])
    log = LogConfig(url=f"sqlite:{tmp_path / 'log.db'}")
    store = f"sqlite:{tmp_path / 'state.db'}"
    async with gateway_with_log(upstream, log=log, state=store) as gateway, sdk(gateway) as client:
        begun = await client.responses.create(model="m", input="Hello", background=True)
        await upstream.asked.wait()
    async with gateway_with_log(upstream, log=log, state=store) as gateway, sdk(gateway) as client:
        failed = await client.responses.retrieve(begun.id)
        assert (failed.id, failed.status) == (begun.id, "failed")
        assert failed.error is not None


async def test_refused_request_is_a_failed_response() -> None:
    provider = FakeProvider([faults.http(429)])
    async with gateway_with_log(provider.app()) as gateway, sdk(gateway) as client:
        begun = await client.responses.create(model="m", input="Hello", background=True)
        failed = await polled(client, begun.id)
        assert failed.status == "failed"
        assert failed.error is not None
        stream = await client.responses.retrieve(begun.id, stream=True)
        with pytest.raises(openai.APIError, match="injected"):  # of the event `error`
            async for _ in stream:
                pass


async def test_cut_answer_is_a_failed_response() -> None:
    provider = FakeProvider([["Hello there.", faults.cut(event=2)]])
    async with gateway_with_log(provider.app()) as gateway, sdk(gateway) as client:
        begun = await client.responses.create(model="m", input="Hello", background=True)
        assert (await polled(client, begun.id)).status == "failed"


async def test_same_request_under_one_key_is_one_response() -> None:
    provider = FakeProvider(["It snows."])
    async with gateway_with_log(provider.app()) as gateway, sdk(gateway) as client:
        headers = {"idempotency-key": "i-1"}
        several = [
            await client.responses.create(
                model="m", input="Hello", background=True, extra_headers=headers
            )
            for _ in range(2)
        ]
        assert several[0].id == several[1].id
        assert (await polled(client, several[0].id)).output_text == "It snows."
    assert len(provider.requests) == 1


@pytest.mark.parametrize(
    "settings", [{"client_keys": "env:KEYS", "environ": {"KEYS": "a,b"}}, {}], ids=["keys", "none"]
)
async def test_responses_of_another_key_are_unknown(settings: dict[str, Any]) -> None:
    provider = FakeProvider(["It snows."])
    async with (
        gateway_with_log(provider.app(), **settings) as gateway,
        sdk(gateway, "a") as client,
        sdk(gateway, "b") as other,
    ):
        begun = await client.responses.create(model="m", input="Hello", background=True)
        for ask in (other.responses.retrieve, other.responses.cancel):
            with pytest.raises(openai.NotFoundError):
                await ask(begun.id)
        await polled(client, begun.id)


async def test_refusals() -> None:
    provider = FakeProvider(["It snows.", "Hi."])
    async with gateway_with_log(provider.app()) as gateway, sdk(gateway) as client:
        with pytest.raises(openai.BadRequestError, match="store"):
            await client.responses.create(model="m", input="Hi", background=True, store=False)
        begun = await client.responses.create(model="m", input="Hi", background=True)
        await polled(client, begun.id)
        async with httpx.AsyncClient() as http:
            url = f"{gateway.url}/v1/responses/{begun.id}?stream=true&starting_after="
            key = {"authorization": "Bearer k"}
            wrong = [
                await http.get(url + text, headers=key) for text in ("x", "-5", "1.5", "9" * 40)
            ]
        assert [answer.status_code for answer in wrong] == [400] * 4
        # https://platform.openai.com/docs/guides/background (read 2026-11-27): cancelling twice is
        # idempotent, "subsequent calls simply return the final Response object".
        final = await client.responses.cancel(begun.id)
        assert final == await client.responses.retrieve(begun.id)
        assert (final.status, final.output_text) == ("completed", "It snows.")
        at_once = await client.responses.create(model="m", input="Hi")
        with pytest.raises(openai.BadRequestError, match="synchronous"):
            await client.responses.cancel(at_once.id)


async def test_without_a_log_it_is_refused() -> None:
    async with (
        gateway_with_log(FakeProvider(["Hi."]).app(), log=None) as gateway,
        sdk(gateway) as client,
    ):
        with pytest.raises(openai.BadRequestError, match="background"):
            await client.responses.create(model="m", input="Hi", background=True)


async def test_another_gateway_answers_for_it(tmp_path: Path) -> None:
    gate = asyncio.Event()
    upstream = StepUpstream([ANSWER[0], gate, *ANSWER[1:]])
    settings = {
        "log": LogConfig(url=f"sqlite:{tmp_path}/log.db"),
        "state": f"sqlite:{tmp_path}/state.db",
    }
    async with (
        gateway_with_log(upstream, **settings) as one,
        gateway_with_log(StepUpstream(), **settings) as two,
        sdk(one) as first,
        sdk(two) as second,
    ):
        begun = await first.responses.create(model="m", input="Hello", background=True)
        async with asyncio.timeout(30):
            while (await second.responses.retrieve(begun.id)).status != "in_progress":  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        gate.set()
        stream = await second.responses.retrieve(begun.id, stream=True)
        assert [event.type async for event in stream][-1] == "response.completed"
        assert (await polled(second, begun.id)).output_text == "ab"


async def test_numbers_are_those_of_the_response() -> None:
    async with (
        gateway_with_log(FakeProvider(["Hi."]).app()) as gateway,
        httpx.AsyncClient() as http,
    ):
        url = f"{gateway.url}/v1/responses"
        begun = await http.post(url, json={**BODY, "stream": True})
        id = json.loads(SSEDecoder().feed(begun.content)[0].data)["response"]["id"]
        rest = await http.get(f"{url}/{id}", params={"stream": "true", "starting_after": "2"})
    [first, *_] = SSEDecoder().feed(rest.content)
    assert json.loads(first.data)["sequence_number"] == 3
