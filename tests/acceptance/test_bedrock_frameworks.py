"""Agent frameworks on boto3, through a gateway in front of an upstream of each dialect.

python -m pytest -m "" tests/acceptance/test_bedrock_frameworks.py
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import pytest
from acceptance.bedrock_clients import BEDROCK_SDKS
from acceptance.frameworks import ANSWER, TASK, assert_tools_were_run, get_weather
from acceptance.gateways import Gateways
from acceptance.transcoding_clients import SCHEMA, SDKS
from support.http.strict_upstreams import COMPATIBLE, strict_provider

pytestmark = [pytest.mark.anyio, pytest.mark.on_asyncio]

Agent: TypeAlias = Callable[[Any, bool], Awaitable[str]]
"""Runs the task with a client of boto3, by streams or by whole bodies; returns the answer."""


async def run_pydantic_ai(client: Any, stream: bool) -> str:
    from pydantic_ai import Agent as PydanticAgent
    from pydantic_ai.models.bedrock import BedrockConverseModel
    from pydantic_ai.providers.bedrock import BedrockProvider

    async def read(_: object, events: Any) -> None:
        async for _event in events:
            pass

    model = BedrockConverseModel("m-1", provider=BedrockProvider(bedrock_client=client))
    agent = PydanticAgent(model)
    agent.tool_plain(get_weather)
    run = await agent.run("Snow?", event_stream_handler=read if stream else None)
    return str(run.output)


async def run_converse_of_langchain(client: Any, stream: bool) -> str:
    from langchain_aws import ChatBedrockConverse

    model = ChatBedrockConverse(model="m-1", client=client, provider="anthropic")
    return await _run_langchain(model, stream=stream)


async def run_invoke_of_langchain(client: Any, stream: bool) -> str:
    from langchain_aws import ChatBedrock

    # Of other names it takes tools for text.
    model = ChatBedrock(model="anthropic.claude-sonnet-4-v1:0", client=client)
    return await _run_langchain(model, stream=stream)


async def _run_langchain(known: Any, *, stream: bool) -> str:
    from langchain_core.messages import HumanMessage, ToolMessage

    model = known.bind_tools([{"title": "get_weather", "description": "Weather", **SCHEMA}])

    async def ask(said: list[Any]) -> Any:
        if not stream:
            return await model.ainvoke(said)
        chunks = [chunk async for chunk in model.astream(said)]
        return sum(chunks[1:], chunks[0])

    said: list[Any] = [HumanMessage("Snow?")]
    said.append(await ask(said))
    for call in said[-1].tool_calls:
        assert call["name"] == "get_weather"
        said.append(ToolMessage(get_weather(**call["args"]), tool_call_id=call["id"]))
    return str((await ask(said)).text)


AGENTS: dict[str, Agent] = {
    "pydantic-ai": run_pydantic_ai,
    "langchain-converse": run_converse_of_langchain,
    "langchain-invoke": run_invoke_of_langchain,
}


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("target", SDKS)
@pytest.mark.parametrize("run", AGENTS.values(), ids=AGENTS)
async def test_agent_finishes_a_task(
    run: Agent, target: str, stream: bool, running: Gateways
) -> None:
    provider = strict_provider(TASK, server=COMPATIBLE)
    running.upstream.app = provider.app()
    client = BEDROCK_SDKS["boto3"].async_client(None, running.urls[target])
    try:
        assert await run(client, stream) == ANSWER
    finally:
        client.close()
    assert_tools_were_run(provider)
