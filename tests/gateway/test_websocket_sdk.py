"""Responses over a WebSocket with the SDK of OpenAI, on real servers and every upstream."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack
from typing import Any

import agents
import pytest
from acceptance.node_sdks import ask, missing
from anyio import to_thread
from openai import AsyncOpenAI
from openai.lib.responses_websocket import (
    AsyncResponsesWebSocketSession,
    ResponsesWebSocketError,
    ResponsesWebSocketLimits,
)
from support.gateway.servers import SERVERS, ServerName, served_gateway
from support.gateway.sockets import create
from websockets.exceptions import InvalidStatus

from streamnorm.testing import FakeProvider, faults, tool_call

pytestmark = pytest.mark.anyio

UPSTREAMS = (
    *("openai_chat", "anthropic", "gemini", "openai_responses", "bedrock_converse"),
    "gemini_interactions",
)
LIMITS = ResponsesWebSocketLimits(
    max_lanes=8,
    max_events_per_lane=128,
    max_events=512,
    max_bytes_per_lane=1024 * 1024,
    max_bytes=1024 * 1024,
)


def client_of(url: str, key: str = "k") -> AsyncOpenAI:
    return AsyncOpenAI(api_key=key, base_url=f"{url}/v1", max_retries=0)


async def answer_to(connection: Any, message: dict[str, Any]) -> Any:
    """Send a create, and return the last event of its answer."""
    await connection.send(message)
    async for event in connection:
        if event.type in ("response.completed", "response.failed", "error"):
            return event
    raise AssertionError("the connection was closed")


@pytest.mark.parametrize("server", SERVERS)
async def test_two_turns_of_which_the_second_sends_only_what_is_new(server: ServerName) -> None:
    for dialect in UPSTREAMS:
        provider = FakeProvider(["It snows.", "Take a coat."])
        async with (
            served_gateway(provider.app(), dialect, server=server, has_websockets=True) as gateway,
            client_of(gateway.url) as client,
            client.responses.connect() as connection,
        ):
            first = await answer_to(connection, create("Weather?"))
            assert first.response.output_text == "It snows.", dialect
            second = await answer_to(
                connection, create("What to wear?", previous_response_id=first.response.id)
            )
        assert second.response.output_text == "Take a coat.", dialect
        assert second.response.previous_response_id == first.response.id, dialect
        said = str(provider.requests[-1].body)
        places = [said.find(text) for text in ("Weather?", "It snows.", "What to wear?")]
        assert -1 not in places, dialect
        assert places == sorted(places), dialect


async def test_agent_that_calls_a_tool_over_the_connection() -> None:
    schema = {"type": "object", "properties": {"city": {"type": "string"}}}
    tools = [{"type": "function", "name": "get_weather", "parameters": schema}]
    for dialect in UPSTREAMS:
        provider = FakeProvider([tool_call("get_weather", city="Oslo"), "It snows there."])
        async with (
            served_gateway(provider.app(), dialect, has_websockets=True) as gateway,
            client_of(gateway.url) as client,
            client.responses.connect() as connection,
        ):
            first = await answer_to(connection, create("Where?", tools=tools))
            (call,) = first.response.output
            assert json.loads(call.arguments) == {"city": "Oslo"}, dialect
            result = {"type": "function_call_output", "call_id": call.call_id, "output": "snow"}
            second = await answer_to(
                connection,
                create([result], tools=tools, previous_response_id=first.response.id),  # type: ignore[arg-type]
            )
        assert second.response.output_text == "It snows there.", dialect
        sent = str(provider.requests[-1].body)
        places = [sent.find(text) for text in ("Where?", "Oslo", "snow")]
        assert -1 not in places, dialect
        assert places == sorted(places), dialect


async def test_lanes_of_a_session_are_answered_side_by_side() -> None:
    provider = FakeProvider(lambda request: f"Hi {request.body['messages'][-1]['content']}.")
    async with (
        served_gateway(provider.app(), has_websockets=True) as gateway,
        client_of(gateway.url) as client,
        client.responses.connect() as connection,
        AsyncResponsesWebSocketSession(connection, limits=LIMITS) as session,
    ):
        lanes = {name: session.lane(name) for name in ("a", "b", "c")}
        for name, lane in lanes.items():
            await lane.send(create(name))  # type: ignore[arg-type]
        answers = await asyncio.gather(*[lane.get_final_response() for lane in lanes.values()])
    assert [answer.output_text for answer in answers] == ["Hi a.", "Hi b.", "Hi c."]


async def test_unknown_response_is_an_error_after_which_the_connection_goes_on() -> None:
    provider = FakeProvider("Hi.")
    async with (
        served_gateway(provider.app(), has_websockets=True) as gateway,
        client_of(gateway.url) as client,
        client.responses.connect() as connection,
        AsyncResponsesWebSocketSession(connection, limits=LIMITS) as session,
    ):
        lane = session.default
        await lane.send(create("Hello", previous_response_id="resp_gone"))  # type: ignore[arg-type]
        with pytest.raises(ResponsesWebSocketError) as refused:
            await lane.get_final_response()
        event: Any = refused.value.event
        assert (event.status, event.error.code) == (400, "previous_response_not_found")
        await lane.send(create("Hello"))  # type: ignore[arg-type]
        assert (await lane.get_final_response()).output_text == "Hi."


async def test_model_of_openai_agents_runs_a_tool_over_the_connection() -> None:
    @agents.function_tool
    def get_weather(city: str) -> str:
        """Return the weather."""
        return f"snow in {city}"

    for dialect in UPSTREAMS:
        provider = FakeProvider([tool_call("get_weather", city="Oslo"), "It snows in Oslo."])
        async with (
            served_gateway(provider.app(), dialect, has_websockets=True) as gateway,
            client_of(gateway.url) as client,
        ):
            model = agents.OpenAIResponsesWSModel("m", client)
            agent: agents.Agent[None] = agents.Agent(name="a", tools=[get_weather], model=model)
            config = agents.RunConfig(tracing_disabled=True)
            result = await agents.Runner.run(agent, "Oslo?", run_config=config)
            await model.close()
        assert result.final_output == "It snows in Oslo.", dialect
        assert "snow in Oslo" in str(provider.requests[-1].body), dialect


@pytest.mark.outside
@pytest.mark.skipif(bool(missing()), reason=missing())
async def test_sdk_for_node_sends_only_what_is_new_and_goes_on_behind_an_error() -> None:
    prompts = ["Weather?", "What to wear?", "Once more?"]
    providers = {
        dialect: FakeProvider(["It snows.", "Take a coat.", faults.http(429)])
        for dialect in UPSTREAMS
    }
    jobs: list[dict[str, Any]] = []
    async with AsyncExitStack() as stack:
        for dialect, provider in providers.items():
            serving = served_gateway(provider.app(), dialect, has_websockets=True)
            gateway = await stack.enter_async_context(serving)
            jobs.append({"url": gateway.url, "prompts": prompts})
        heard = await to_thread.run_sync(ask, "openai_ws", "converse", jobs)
    completed = "response.completed"
    for (dialect, provider), said in zip(providers.items(), heard, strict=True):
        assert said == {
            "said": [
                {"type": completed, "text": "It snows."},
                {"type": completed, "text": "Take a coat."},
                {"type": "error", "status": 429, "code": "rate_limit_exceeded", "text": ""},
            ]
        }, dialect
        sent = str(provider.requests[1].body)
        places = [sent.find(text) for text in (prompts[0], "It snows.", prompts[1])]
        assert -1 not in places, dialect
        assert places == sorted(places), dialect


@pytest.mark.parametrize("server", SERVERS)
async def test_refused_handshake_has_the_status_at_which_clients_use_http(
    server: ServerName,
) -> None:
    """Codex goes on over HTTP at status 426, and at any other one only after retries."""
    app = FakeProvider("Hi.").app()
    async with (
        served_gateway(app, server=server, has_websockets=True, websockets=False) as gateway,
        client_of(gateway.url) as client,
    ):
        with pytest.raises(InvalidStatus) as refused:
            async with client.responses.connect():
                pass
    assert refused.value.response.status_code == 426
