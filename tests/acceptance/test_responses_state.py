"""Responses clients that let the server store the conversation, on providers that store none."""

from __future__ import annotations

import json
from typing import Any

import openai
import pytest
from acceptance.stateful_gateway import StatefulGateway
from support.http.provider_requests import PATHS
from support.http.strict_upstreams import strict_provider

import streamnorm
from streamnorm import Message, Reasoning, Request, StreamError, Text, ToolCall
from streamnorm.testing import FakeProvider, tool_call

# The SDKs leave generators to the garbage collector, which trio complains about.
pytestmark = [pytest.mark.anyio, pytest.mark.on_asyncio]

SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
TOOL = {"type": "function", "name": "get_weather", "parameters": SCHEMA, "strict": False}
OPTIONS: dict[str, Any] = {"model": "m-1", "tools": [TOOL]}
TURNS: list[Any] = [["One moment.", tool_call("get_weather", city="Oslo")], "It snows in Oslo."]

each_target = pytest.mark.parametrize("target", PATHS)
each_form = pytest.mark.parametrize("stream", [True, False], ids=["as a stream", "as a body"])


def sent(provider: FakeProvider, number: int) -> Request:
    request = provider.requests[number]
    return streamnorm.decode_request(request.body, request.dialect, path=request.path)


def assert_whole(request: Request) -> None:
    """The request has the question, the answer with its call, and the result."""
    question, answer, result = request.messages
    assert [block.text for block in question.blocks if isinstance(block, Text)] == ["Snow?"]
    assert [block.text for block in answer.blocks if isinstance(block, Text)] == ["One moment."]
    (call,) = answer.tool_calls
    assert (call.name, call.input()) == ("get_weather", {"city": "Oslo"})
    (told,) = result.tool_results
    assert told.tool_call_id == call.id
    assert "snow" in str(told.content)
    assert request.state is None


async def respond(client: openai.AsyncOpenAI, *, stream: bool, **body: Any) -> Any:
    if not stream:
        return await client.responses.create(**OPTIONS, **body)
    async with client.responses.stream(**OPTIONS, **body) as events:
        return await events.get_final_response()


@each_form
@each_target
async def test_client_sends_results_alone(target: str, stream: bool) -> None:
    provider = strict_provider(TURNS)
    gateway = StatefulGateway(provider, target)
    async with gateway.client() as client:
        first = await respond(client, stream=stream, input="Snow?", instructions="Be brief.")
        (call,) = (item for item in first.output if item.type == "function_call")
        output = {"type": "function_call_output", "call_id": call.call_id, "output": "snow"}
        second = await respond(client, stream=stream, input=[output], previous_response_id=first.id)
    assert second.output_text == "It snows in Oslo."
    assert (second.previous_response_id, second.store) == (first.id, True)
    assert gateway.asked[1]["input"] == [output]
    assert_whole(sent(provider, 1))
    assert "Be brief." in str(provider.requests[0].body)
    assert "Be brief." not in str(provider.requests[1].body)  # instructions are not inherited


@each_form
@each_target
async def test_agent_continues_by_reference(target: str, stream: bool) -> None:
    """The Agents SDK with `auto_previous_response_id`."""
    import agents

    @agents.function_tool
    def get_weather(city: str) -> str:
        return f"snow in {city}"

    provider = strict_provider(TURNS)
    gateway = StatefulGateway(provider, target)
    async with gateway.client() as client:
        model = agents.OpenAIResponsesModel("m-1", client)
        agent = agents.Agent("Weather", tools=[get_weather], model=model)
        config = agents.RunConfig(tracing_disabled=True)
        options: Any = {"run_config": config, "auto_previous_response_id": True}
        if stream:
            run: Any = agents.Runner.run_streamed(agent, "Snow?", **options)
            async for _ in run.stream_events():
                pass
        else:
            run = await agents.Runner.run(agent, "Snow?", **options)
    assert run.final_output == "It snows in Oslo."
    second = gateway.asked[1]
    assert second["previous_response_id"].startswith("resp_")
    assert [item["type"] for item in second["input"]] == ["function_call_output"]
    assert_whole(sent(provider, 1))


@each_target
async def test_ai_sdk_refers_to_items(target: str) -> None:
    """The second step as `@ai-sdk/openai` 4 sends it: text by reference, calls and results not."""
    provider = strict_provider(TURNS)
    gateway = StatefulGateway(provider, target)
    question = {"role": "user", "content": [{"type": "input_text", "text": "Snow?"}]}
    async with gateway.client() as client:
        first = await respond(client, stream=True, input=[question])
        message, call = (item for item in first.output if item.type != "reasoning")
        items = [
            question,
            {"type": "item_reference", "id": message.id},
            call.model_dump(include={"type", "call_id", "name", "arguments"}),
            {"type": "function_call_output", "call_id": call.call_id, "output": "snow"},
        ]
        second = await respond(client, stream=True, input=items)
    assert second.output_text == "It snows in Oslo."
    assert_whole(sent(provider, 1))


async def test_referred_reasoning_reaches_its_issuer_as_it_was_issued() -> None:
    thought = Reasoning(("Look it up.",), "EqQB", "anthropic")
    call = ToolCall("toolu_1", "get_weather", '{"city":"Oslo"}')
    provider = strict_provider([[thought, call], "It snows in Oslo."])
    gateway = StatefulGateway(provider, "anthropic")
    async with gateway.client() as client:
        first = await respond(client, stream=True, input="Snow?")
        items: list[Any] = [{"role": "user", "content": "Snow?"}]
        items += [{"type": "item_reference", "id": item.id} for item in first.output]
        items.append({"type": "function_call_output", "call_id": "toolu_1", "output": "snow"})
        await respond(client, stream=True, input=items)
    _, answer, _ = provider.requests[1].body["messages"]
    assert [item.type for item in first.output] == ["reasoning", "function_call"]
    assert answer["content"] == [
        {"type": "thinking", "thinking": "Look it up.", "signature": "EqQB"},
        {"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": {"city": "Oslo"}},
    ]


@each_target
async def test_answers_under_one_id_of_the_provider_are_two(target: str) -> None:
    answers = [Message("same", "m-1", (Text(text),), "end_turn") for text in ("One.", "Two.")]
    provider = strict_provider([*answers, "Three."])
    gateway = StatefulGateway(provider, target)
    async with gateway.client() as client:
        first = await respond(client, stream=True, input="a")
        second = await respond(client, stream=True, input="b")
        await respond(client, stream=True, input="c", previous_response_id=first.id)
    assert first.id != second.id
    said = json.dumps(provider.requests[2].body)
    assert "One." in said
    assert "Two." not in said


async def test_stored_response_is_served() -> None:
    provider = strict_provider(["Hello."])
    gateway = StatefulGateway(provider, "anthropic")
    async with gateway.client() as client, gateway.client("other") as stranger:
        made = await respond(client, stream=True, input="Hi")
        again = await client.responses.retrieve(made.id)
        assert (again.id, again.output_text) == (made.id, "Hello.")
        (item,) = [item async for item in client.responses.input_items.list(made.id)]
        assert item.model_dump()["content"][0]["text"] == "Hi"
        with pytest.raises(openai.NotFoundError):
            await stranger.responses.retrieve(made.id)
        with pytest.raises(openai.NotFoundError):
            await stranger.responses.delete(made.id)
        with pytest.raises(openai.BadRequestError, match="synchronous"):
            await client.responses.cancel(made.id)
        await client.responses.delete(made.id)
        with pytest.raises(openai.NotFoundError):
            await client.responses.retrieve(made.id)


@each_form
async def test_unknown_response_is_the_vendor_s_error(stream: bool) -> None:
    provider = strict_provider(["Hello.", "Never asked."])
    gateway = StatefulGateway(provider, "anthropic")
    async with gateway.client() as client, gateway.client("other") as stranger:
        made = await respond(client, stream=stream, input="Hi")
        for caller, id in ((client, "resp_1"), (stranger, made.id)):
            with pytest.raises(openai.BadRequestError) as caught:
                await respond(caller, stream=stream, input="b", previous_response_id=id)
            assert caught.value.code == "previous_response_not_found"
            assert caught.value.param == "previous_response_id"
    assert len(provider.requests) == 1


async def test_answer_that_broke_off_is_not_stored() -> None:
    provider = strict_provider([["Hello.", StreamError("truncated", "cut")]])
    gateway = StatefulGateway(provider, "anthropic")
    async with gateway.client() as client:
        stream = await client.responses.create(**OPTIONS, input="Hi", stream=True)
        id = (await anext(stream)).response.id
        with pytest.raises(openai.APIError, match="connection lost"):
            [event async for event in stream]
        with pytest.raises(openai.BadRequestError, match="not found"):
            await respond(client, stream=False, input="b", previous_response_id=id)
    assert len(gateway.store) == 0


async def test_answer_that_is_not_to_be_stored_is_not() -> None:
    gateway = StatefulGateway(strict_provider(["Hello."]), "anthropic")
    async with gateway.client() as client:
        made = await respond(client, stream=True, input="Hi", store=False)
    assert made.store is False
    assert len(gateway.store) == 0
