"""The official SDK with a gateway that stores its answers, over real connections."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import openai
import pytest
from support.gateway.servers import served_gateway
from support.gateway.stateful_clients import KEY, OTHER_KEY, WEATHER

from streamnorm.testing import FakeProvider, tool_call

pytestmark = pytest.mark.anyio

TURNS: list[Any] = [
    ["One moment.", tool_call("get_weather", city="Oslo"), tool_call("get_weather", city="Bergen")],
    "Snow and rain.",
    "Bye.",
]
streams = pytest.mark.parametrize("stream", [False, True])


@asynccontextmanager
async def served(
    state: str, dialect: str = "openai_chat"
) -> AsyncIterator[tuple[openai.AsyncOpenAI, openai.AsyncOpenAI, FakeProvider]]:
    """Provide two clients with different keys, and the provider."""
    provider = FakeProvider(TURNS)
    async with served_gateway(provider.app(), dialect, state=state) as gateway:
        url = f"{gateway.url}/v1"
        async with (
            openai.AsyncOpenAI(api_key=KEY, base_url=url, max_retries=0) as client,
            openai.AsyncOpenAI(api_key=OTHER_KEY, base_url=url, max_retries=0) as other,
        ):
            yield client, other, provider


async def respond(client: openai.AsyncOpenAI, input: Any, *, stream: bool, **more: Any) -> Any:
    options: dict[str, Any] = {"model": "m", "tools": [WEATHER], "input": input, **more}
    if not stream:
        return await client.responses.create(**options)
    async with client.responses.stream(**options) as events:
        return await events.get_final_response()


def results(response: Any) -> list[dict[str, Any]]:
    calls = [item for item in response.output if item.type == "function_call"]
    outputs = zip(calls, ("snow", "rain"), strict=True)
    return [
        {"type": "function_call_output", "call_id": call.call_id, "output": text}
        for call, text in outputs
    ]


def said_to(provider: FakeProvider) -> list[tuple[str, Any]]:
    messages: list[dict[str, Any]] = provider.requests[-1].body["messages"]
    return [(message["role"], message.get("content")) for message in messages]


WHOLE = [
    ("user", "Weather?"),
    ("assistant", "One moment."),
    ("tool", "snow"),
    ("tool", "rain"),
    ("assistant", "Snow and rain."),
    ("user", "Thanks."),
]


@streams
async def test_three_turns_by_previous_response_id(state: str, *, stream: bool) -> None:
    async with served(state) as (client, other, provider):
        first = await respond(client, "Weather?", stream=stream)
        second = await respond(client, results(first), stream=stream, previous_response_id=first.id)
        third = await respond(client, "Thanks.", stream=stream, previous_response_id=second.id)
        assert said_to(provider) == WHOLE
        assert third.output_text == "Bye."
        assert len(provider.requests) == 3

        assert (await client.responses.retrieve(third.id)).output_text == "Bye."
        items = [item async for item in client.responses.input_items.list(third.id, order="asc")]
        kinds = ["message", "message", *["function_call"] * 2, *["function_call_output"] * 2]
        assert [item.type for item in items] == [*kinds, "message", "message"]
        pages = [item async for item in client.responses.input_items.list(third.id, limit=3)]
        assert [item.id for item in pages] == [item.id for item in reversed(items)]
        with pytest.raises(openai.NotFoundError):
            await other.responses.retrieve(third.id)
        with pytest.raises(openai.BadRequestError, match="Previous response with id"):
            await respond(other, "Hi.", stream=stream, previous_response_id=third.id)
        with pytest.raises(openai.BadRequestError, match="Cannot cancel a synchronous response"):
            await client.responses.cancel(third.id)
        await client.responses.delete(third.id)
        with pytest.raises(openai.NotFoundError):
            await client.responses.retrieve(third.id)


@streams
async def test_three_turns_by_item_references(*, stream: bool) -> None:
    """The whole input each time, items of answers by their ids, as the AI SDK sends it."""
    async with served("memory:") as (client, _, provider):
        input: list[Any] = [{"role": "user", "content": "Weather?"}]
        for more in (results, lambda _: [{"role": "user", "content": "Thanks."}]):
            answer = await respond(client, input, stream=stream)
            input += [{"type": "item_reference", "id": item.id} for item in answer.output]
            input += more(answer)
        await respond(client, input, stream=stream)
        assert said_to(provider) == WHOLE
        assert len(provider.requests) == 3
