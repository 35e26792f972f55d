"""Agent frameworks on a provider of another dialect, by the client that they are given.

They are imported where they are used, as each takes a second or more.
"""

from __future__ import annotations

import json
from typing import Any

import httpx2
import openai
import pytest

from streamnorm.testing import FakeProvider, tool_call
from streamnorm.transports.httpx2 import TranscodingTransport

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


UPSTREAMS = ["anthropic", "gemini"]
TURNS = [["One moment.", tool_call("get_weather", city="Oslo")], "It snows in Oslo."]


def transport(provider: FakeProvider, client: str, upstream: str) -> TranscodingTransport:
    return TranscodingTransport(
        provider.transport("httpx2"),
        client=client,
        upstream=upstream,
        base_url="https://provider.test",
    )


def openai_client(provider: FakeProvider, client: str, upstream: str) -> openai.AsyncOpenAI:
    http_client = httpx2.AsyncClient(transport=transport(provider, client, upstream))
    return openai.AsyncOpenAI(api_key="-", http_client=http_client, max_retries=0)


def assert_tool_was_run(provider: FakeProvider) -> None:
    assert len(provider.requests) == 2
    sent = json.dumps(provider.requests[1].body)
    assert all(text in sent for text in ("Snow?", "get_weather", "Oslo", "a lot of it"))


@pytest.mark.parametrize("upstream", UPSTREAMS)
@pytest.mark.parametrize("client", ["openai_chat", "openai_responses"])
async def test_pydantic_ai_runs_a_tool(client: str, upstream: str) -> None:
    from pydantic_ai import Agent
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
    from pydantic_ai.providers.openai import OpenAIProvider

    provider = FakeProvider(TURNS)
    known = OpenAIProvider(openai_client=openai_client(provider, client, upstream))
    kind = OpenAIChatModel if client == "openai_chat" else OpenAIResponsesModel
    agent = Agent(kind("m", provider=known))

    @agent.tool_plain
    def get_weather(city: str) -> str:
        return f"{city}: a lot of it"

    assert (await agent.run("Snow?")).output == "It snows in Oslo."
    assert_tool_was_run(provider)


@pytest.mark.parametrize("upstream", UPSTREAMS)
@pytest.mark.parametrize("client", ["openai_chat", "openai_responses"])
@pytest.mark.parametrize("refers", [False, True], ids=["whole input", "previous response"])
async def test_openai_agents_run_a_tool(client: str, upstream: str, refers: bool) -> None:
    import agents

    agents.set_tracing_disabled(True)
    provider = FakeProvider(TURNS)
    http_client = openai_client(provider, client, upstream)
    kind: Any = (
        agents.OpenAIChatCompletionsModel
        if client == "openai_chat"
        else agents.OpenAIResponsesModel
    )

    @agents.function_tool
    def get_weather(city: str) -> str:
        return f"{city}: a lot of it"

    agent = agents.Agent("a", tools=[get_weather], model=kind("m", http_client))
    options: dict[str, Any] = {}
    if refers and client == "openai_responses":
        options = {"auto_previous_response_id": True}
    result = agents.Runner.run_streamed(agent, "Snow?", **options)
    async for _ in result.stream_events():
        pass
    assert result.final_output == "It snows in Oslo."
    assert_tool_was_run(provider)


@pytest.mark.parametrize("upstream", UPSTREAMS)
@pytest.mark.parametrize("client", ["openai_chat", "openai_responses"])
def test_langchain_calls_a_tool(client: str, upstream: str) -> None:
    from langchain_core.messages import HumanMessage, ToolMessage
    from langchain_openai import ChatOpenAI
    from pydantic import SecretStr

    provider = FakeProvider(TURNS)
    with httpx2.Client(transport=transport(provider, client, upstream)) as http_client:
        known: Any = ChatOpenAI(
            model="m",
            api_key=SecretStr("-"),
            http_client=http_client,
            max_retries=0,
            use_responses_api=client == "openai_responses",
        )
        tool = {
            "title": "get_weather",
            "type": "object",
            "properties": {"city": {"type": "string"}},
        }
        model = known.bind_tools([{**tool, "description": "Weather"}])
        said: list[Any] = [HumanMessage("Snow?")]
        said.append(model.invoke(said))
        (call,) = said[-1].tool_calls
        assert (call["name"], call["args"]) == ("get_weather", {"city": "Oslo"})
        said.append(ToolMessage("a lot of it", tool_call_id=call["id"]))
        assert model.invoke(said).text == "It snows in Oslo."
    assert_tool_was_run(provider)
