"""What a response in the background says of itself before, while and after it is made."""

from __future__ import annotations

import asyncio
from typing import Any

import openai
import pytest
from support.gateway.background import gateway_with_log, polled, sdk
from support.gateway.stateful_clients import UPSTREAMS
from support.gateway.upstreams import ANSWER, StepUpstream

from streamnorm.testing import FakeProvider, faults

pytestmark = pytest.mark.anyio

WEATHER: dict[str, Any] = {
    "type": "function",
    "name": "weather",
    "description": "The weather.",
    "parameters": {"type": "object", "properties": {}},
    "strict": False,
}
REQUEST: dict[str, Any] = {
    "model": "m",
    "input": "Snow?",
    "background": True,
    "instructions": "Be brief.",
    "tools": [WEATHER],
    "max_output_tokens": 99,
    "temperature": 0.5,
}
ECHOED = ("instructions", "tools", "max_output_tokens", "temperature", "created_at")


def echoed(response: Any) -> dict[str, Any]:
    """Return what a response repeats of its request, with its time."""
    found: dict[str, Any] = response.to_dict()
    return {name: found[name] for name in (*ECHOED, "previous_response_id", "store", "background")}


async def streamed(client: openai.AsyncOpenAI, id: str, **query: Any) -> list[Any]:
    """Return the events of a response, as the SDK reads them."""
    return [event async for event in await client.responses.retrieve(id, stream=True, **query)]


async def test_response_repeats_its_request_at_all_times() -> None:
    gate = asyncio.Event()
    upstream = StepUpstream([gate, ANSWER[0], 60.0])
    async with gateway_with_log(upstream) as gateway, sdk(gateway) as client:
        begun = await client.responses.create(**REQUEST)
        assert begun.created_at > 1_700_000_000
        assert (begun.max_output_tokens, begun.temperature) == (99, 0.5)
        assert begun.tools[0].to_dict() == WEATHER
        expected = echoed(begun)
        await upstream.asked.wait()
        for status in ("queued", "in_progress", "cancelled"):
            async with asyncio.timeout(30):
                while (found := await client.responses.retrieve(begun.id)).status != status:  # noqa: ASYNC110 - it is polled
                    await asyncio.sleep(0.01)
            assert echoed(found) == expected
            assert found.model == ("m" if status == "queued" else "gpt")  # as the upstream says
            if status == "queued":
                gate.set()
            elif status == "in_progress":
                await client.responses.cancel(begun.id)


@pytest.mark.parametrize("steps", [[60.0], [ANSWER[0], 60.0]], ids=["unbegun", "begun"])
async def test_cancelled_response_is_itself_until_it_is_deleted(steps: list[Any]) -> None:
    upstream = StepUpstream(steps)
    async with gateway_with_log(upstream) as gateway, sdk(gateway) as client:
        begun = await client.responses.create(**REQUEST)
        await upstream.asked.wait()
        cancelled = await client.responses.cancel(begun.id)
        assert cancelled.status == "cancelled"
        assert cancelled.error is None
        assert echoed(cancelled) == echoed(begun)
        assert await client.responses.retrieve(begun.id) == cancelled
        await client.responses.delete(begun.id)
        for ask in (client.responses.retrieve, client.responses.cancel, client.responses.delete):
            with pytest.raises(openai.NotFoundError):
                await ask(begun.id)
        with pytest.raises(openai.NotFoundError):
            await client.responses.retrieve(begun.id, stream=True)


@pytest.mark.parametrize("steps", [[60.0], [ANSWER[0], 60.0]], ids=["unbegun", "begun"])
async def test_stream_of_a_cancelled_response_ends_as_cancelled(steps: list[Any]) -> None:
    """OpenAI has no event for it; its SDK accepts this one as an end."""
    upstream = StepUpstream(steps)
    async with gateway_with_log(upstream) as gateway, sdk(gateway) as client:
        begun = await client.responses.create(**REQUEST)
        await upstream.asked.wait()
        follower = asyncio.create_task(streamed(client, begun.id))
        if len(steps) > 1:
            async with asyncio.timeout(30):
                while (await client.responses.retrieve(begun.id)).status == "queued":  # noqa: ASYNC110 - it is polled
                    await asyncio.sleep(0.01)
        cancelled = await client.responses.cancel(begun.id)
        events = await streamed(client, begun.id)
        assert await follower == events
        assert [event.sequence_number for event in events] == list(range(len(events)))
        assert [event.type for event in events[:2]] == ["response.created", "response.in_progress"]
        assert {event.type for event in events[2:-1]} <= {
            "response.output_item.added",
            "response.content_part.added",
            "response.output_text.delta",
        }
        assert (len(events) > 3) is (len(steps) > 1)
        assert echoed(events[0].response) == echoed(begun)
        assert events[-1].type == "response.failed"
        assert events[-1].response == cancelled
        for number in range(len(events)):
            assert await streamed(client, begun.id, starting_after=number) == events[number + 1 :]


async def test_stream_of_a_request_that_is_cancelled_ends_as_cancelled() -> None:
    upstream = StepUpstream([ANSWER[0], 60.0])
    async with gateway_with_log(upstream) as gateway, sdk(gateway) as client:
        events = []
        async for event in await client.responses.create(**REQUEST, stream=True):
            events.append(event)
            if event.type == "response.output_text.delta":
                await client.responses.cancel(events[0].response.id)
        assert events[-1].type == "response.failed"
        assert events[-1].response == await client.responses.retrieve(events[0].response.id)
        assert events[-1].response.status == "cancelled"


async def test_failed_response_is_itself_until_it_is_deleted() -> None:
    provider = FakeProvider([faults.http(429), ["Hello there.", faults.cut(event=2)]])
    async with gateway_with_log(provider.app(), retries=0) as gateway, sdk(gateway) as client:
        for _ in range(2):
            begun = await client.responses.create(**REQUEST)
            failed = await polled(client, begun.id)
            assert failed.status == "failed"
            assert failed.error is not None
            assert echoed(failed) == echoed(begun)
            assert await client.responses.cancel(begun.id) == failed
            await client.responses.delete(begun.id)
            with pytest.raises(openai.NotFoundError):
                await client.responses.retrieve(begun.id)


@pytest.mark.parametrize("dialect", UPSTREAMS)
async def test_time_of_a_response_is_one(dialect: str) -> None:
    provider = FakeProvider(["It snows.", "It rains."])
    request = {"model": "m", "input": "Snow?", "background": True}
    async with (
        gateway_with_log(provider.app(), dialect=dialect) as gateway,
        sdk(gateway) as client,
    ):
        begun = await client.responses.create(**request)
        assert (await polled(client, begun.id)).created_at == begun.created_at
        stream = await client.responses.retrieve(begun.id, stream=True)
        times = {event.response.created_at async for event in stream if hasattr(event, "response")}
        assert times == {begun.created_at}
        whole = [
            await client.responses.create(
                model="m", input="Rain?", extra_headers={"idempotency-key": "i-2"}
            )
            for _ in range(2)
        ]
        assert whole[0] == whole[1]
        if dialect != "openai_responses":  # the time of the provider, which is 0 here
            assert whole[0].created_at > 1_700_000_000
        assert (await client.responses.retrieve(whole[0].id)).created_at == whole[0].created_at


async def test_input_is_listed_while_the_response_is_made() -> None:
    upstream = StepUpstream([60.0])
    async with gateway_with_log(upstream) as gateway, sdk(gateway) as client:
        begun = await client.responses.create(**REQUEST)
        [item] = [item async for item in client.responses.input_items.list(begun.id)]
        assert item.to_dict()["content"] == [{"type": "input_text", "text": "Snow?"}]
        with pytest.raises(openai.BadRequestError, match="no complete output"):
            await client.responses.create(model="m", input="And?", previous_response_id=begun.id)


async def test_repeated_request_is_answered_by_the_response_as_it_is() -> None:
    gate = asyncio.Event()
    provider = StepUpstream([gate, *ANSWER])
    async with gateway_with_log(provider) as gateway, sdk(gateway) as client:

        async def ask() -> Any:
            headers = {"idempotency-key": "i-1"}
            return await client.responses.create(**REQUEST, extra_headers=headers)

        begun = await ask()
        assert await ask() == begun
        gate.set()
        done = await polled(client, begun.id)
        assert await ask() == done
        assert (done.status, done.output_text) == ("completed", "ab")
    assert len(provider.requests) == 1
