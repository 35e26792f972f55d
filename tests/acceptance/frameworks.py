"""Agent frameworks that run the tools of a task, each on the client of an official SDK.

They are imported where they are used, as each takes a second or more.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from acceptance.transcoding_clients import KEY, SCHEMA, SDKS

from streamnorm import Reasoning
from streamnorm.testing import FakeProvider, FakeRequest, tool_call

__all__ = [
    "ANSWER",
    "CALLS",
    "FRAMEWORKS",
    "TASK",
    "Framework",
    "assert_tools_were_run",
    "pydantic_model",
    "run_agents",
]

CALLS: list[Any] = [
    Reasoning(("It is winter.",)),
    "One moment.",
    tool_call("get_weather", city="Oslo"),
    tool_call("get_weather", city="Rome"),
]
ANSWER = "It snows in both."
_SIGNED = {
    "anthropic": Reasoning(("It is winter.",), "c2ln", "anthropic"),
    "bedrock_converse": Reasoning(("It is winter.",), "c2ln", "anthropic"),
    "openai_responses": Reasoning(("It is winter.",), "gAAAAAB0", "openai", id="rs_1"),
}


def _signed_calls(request: FakeRequest) -> list[Any]:
    """Return the calls, their reasoning signed where the vendor wants it back so."""
    signed = _SIGNED.get(request.dialect or "")
    return CALLS if signed is None else [signed, *CALLS[1:]]


TASK: list[Any] = [_signed_calls, ANSWER]

Framework: TypeAlias = Callable[..., Awaitable[str]]
"""Runs the task, and returns the answer.

Args:
    dialect: The client's dialect.
    http: The HTTP client.
    base_url: URL of a gateway; None for that of the vendor.
    stream: Whether to ask for streams.
    retries: How often the SDK repeats a request that failed.
"""


def get_weather(city: str) -> str:
    """Return the weather in a city."""
    return f"{city}: a lot of snow"


def assert_tools_were_run(provider: FakeProvider) -> None:
    """Assert that the provider got one request a turn, with both results in the second."""
    assert len(provider.requests) == 2
    sent = json.dumps(provider.requests[1].body)
    expected = ("Snow?", "get_weather", "Oslo: a lot of snow", "Rome: a lot of snow")
    assert [text for text in expected if text not in sent] == []


async def run_pydantic_ai(
    dialect: str, http: Any, base_url: str | None = None, *, stream: bool = True, retries: int = 0
) -> str:
    from pydantic_ai import Agent

    async def read(_: object, events: Any) -> None:
        async for _event in events:
            pass

    client = SDKS[dialect].async_client(http, base_url, retries=retries)
    agent = Agent(pydantic_model(dialect, client))
    agent.tool_plain(get_weather)
    run = await agent.run("Snow?", event_stream_handler=read if stream else None)
    return str(run.output)


def pydantic_model(dialect: str, client: Any, model: str = "m") -> Any:
    """Return pydantic-ai's model of a dialect, on a client of the vendor's SDK."""
    match dialect:
        case "anthropic":
            from pydantic_ai.models.anthropic import AnthropicModel
            from pydantic_ai.providers.anthropic import AnthropicProvider

            return AnthropicModel(model, provider=AnthropicProvider(anthropic_client=client))
        case "gemini":
            from pydantic_ai.models.google import GoogleModel
            from pydantic_ai.providers.google import GoogleProvider

            return GoogleModel(model, provider=GoogleProvider(client=client))
        case _:
            from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
            from pydantic_ai.providers.openai import OpenAIProvider

            kind: Any = OpenAIChatModel if dialect == "openai_chat" else OpenAIResponsesModel
            return kind(model, provider=OpenAIProvider(openai_client=client))


async def run_agents(
    dialect: str,
    http: Any,
    base_url: str | None = None,
    *,
    stream: bool = True,
    retries: int = 0,
    **options: Any,
) -> str:
    import agents

    agents.set_tracing_disabled(True)
    kind: Any = (
        agents.OpenAIChatCompletionsModel
        if dialect == "openai_chat"
        else agents.OpenAIResponsesModel
    )
    model = kind("m", SDKS[dialect].async_client(http, base_url, retries=retries))
    agent = agents.Agent("a", tools=[agents.function_tool(get_weather)], model=model)
    if not stream:
        return str((await agents.Runner.run(agent, "Snow?", **options)).final_output)
    result = agents.Runner.run_streamed(agent, "Snow?", **options)
    async for _ in result.stream_events():
        pass
    return str(result.final_output)


async def run_langchain(
    dialect: str, http: Any, base_url: str | None = None, *, stream: bool = True, retries: int = 0
) -> str:
    from langchain_core.messages import HumanMessage, ToolMessage
    from langchain_openai import ChatOpenAI

    options: dict[str, Any] = {} if base_url is None else {"base_url": f"{base_url}/v1"}
    known: Any = ChatOpenAI(
        model="m",
        api_key=KEY,
        http_async_client=http,
        max_retries=retries,
        use_responses_api=dialect == "openai_responses",
        **options,
    )
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


FRAMEWORKS: dict[str, tuple[Framework, tuple[str, ...]]] = {
    "pydantic-ai": (run_pydantic_ai, tuple(SDKS)),
    "openai-agents": (run_agents, ("openai_chat", "openai_responses")),
    "langchain": (run_langchain, ("openai_chat", "openai_responses")),
}
"""The frameworks, and the dialects that each speaks."""
