"""Agent frameworks on boto3, on an upstream of each dialect; and all frameworks on Bedrock.

python -m pytest -m "" tests/acceptance/test_bedrock_frameworks.py
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from acceptance.bedrock_clients import BEDROCK_SDKS
from acceptance.frameworks import (
    ANSWER,
    FRAMEWORKS,
    TASK,
    Framework,
    assert_tools_were_run,
    get_weather,
)
from acceptance.gateways import Gateways
from acceptance.test_gateway_bedrock import KEYS, gateway_to_bedrock, operations
from acceptance.transcoding_clients import SCHEMA, SDKS
from support.bedrock.signatures import set_credentials
from support.bedrock.upstream import BedrockUpstream
from support.http.strict_upstreams import COMPATIBLE, strict_provider

pytestmark = [pytest.mark.anyio, pytest.mark.on_asyncio]


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    set_credentials(monkeypatch, tmp_path)


# Of another model, they take tools and reasoning for text.
CLAUDE = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"

Agent: TypeAlias = Callable[[Any, bool], Awaitable[str]]
"""Runs the task with a client of boto3, by streams or by whole bodies; returns the answer."""


async def run_pydantic_ai(client: Any, stream: bool) -> str:
    from pydantic_ai import Agent as PydanticAgent
    from pydantic_ai.models.bedrock import BedrockConverseModel
    from pydantic_ai.providers.bedrock import BedrockProvider

    async def read(_: object, events: Any) -> None:
        async for _event in events:
            pass

    model = BedrockConverseModel(CLAUDE, provider=BedrockProvider(bedrock_client=client))
    agent = PydanticAgent(model)
    agent.tool_plain(get_weather)
    run = await agent.run("Snow?", event_stream_handler=read if stream else None)
    return str(run.output)


async def run_converse_of_langchain(client: Any, stream: bool) -> str:
    from langchain_aws import ChatBedrockConverse

    model = ChatBedrockConverse(model=CLAUDE, client=client, provider="anthropic")
    return await _run_langchain(model, stream=stream)


async def run_invoke_of_langchain(client: Any, stream: bool) -> str:
    from langchain_aws import ChatBedrock

    model = ChatBedrock(model=CLAUDE, client=client)
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


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@operations
@pytest.mark.parametrize("run", AGENTS.values(), ids=AGENTS)
async def test_agent_finishes_a_task_on_bedrock(run: Agent, dialect: str, stream: bool) -> None:
    """Both sides are signed, each with a key and a region of its own."""
    provider = strict_provider(TASK)
    upstream = BedrockUpstream(provider.app())
    async with gateway_to_bedrock(upstream, dialect, **KEYS) as url:
        client = BEDROCK_SDKS["boto3"].async_client(None, url)
        try:
            assert await run(client, stream) == ANSWER
        finally:
            client.close()
    assert_tools_were_run(provider)
    assert '"c2ln"' in json.dumps(upstream.requests[1].body)  # the signature of the reasoning


@pytest.mark.slow
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@operations
@pytest.mark.parametrize(
    ("run", "spoken"),
    [
        pytest.param(run, spoken, id=f"{name}-{spoken}")
        for name, (run, dialects) in FRAMEWORKS.items()
        for spoken in dialects
    ],
)
async def test_framework_of_another_dialect_finishes_a_task_on_bedrock(
    run: Framework, spoken: str, dialect: str, stream: bool
) -> None:
    provider = strict_provider(TASK)
    upstream = BedrockUpstream(provider.app())
    http = SDKS[spoken].http.AsyncClient()
    async with gateway_to_bedrock(upstream, dialect) as url, http:
        assert await run(spoken, http, url, stream=stream) == ANSWER
    assert_tools_were_run(provider)
