"""Official clients and frameworks that ask a provider which only says what it is told."""

from __future__ import annotations

import json
from pathlib import Path

import anthropic
import anyio
import httpx2
import openai
import pytest
from acceptance.provider_clients import (
    CALLS,
    CHAT,
    CONTENT,
    MESSAGES,
    TURNS,
    anthropic_calls,
    anthropic_client,
    chat_calls,
    genai_calls,
    genai_client,
    openai_client,
)
from google.genai import errors, types
from support.http.strict_upstreams import strict_provider

from streamnorm import StreamError
from streamnorm.recording import Recording
from streamnorm.recording.faults import cut, http
from streamnorm.testing import FakeProvider, tool_call

RECORDINGS = Path(__file__).parents[2] / "recordings"

# The SDK of OpenAI leaves its generators to the garbage collector, which trio complains about.


def async_openai_client(provider: FakeProvider) -> openai.AsyncOpenAI:
    http_client = provider.client(openai.DefaultAsyncHttpxClient)
    return openai.AsyncOpenAI(api_key="-", http_client=http_client, max_retries=0)


# OpenAI


def test_openai_reads_text_as_it_is_said() -> None:
    with openai_client(strict_provider("It snows in Oslo.")) as client:
        chunks = list(client.chat.completions.create(**CHAT, stream=True))
    words = [chunk.choices[0].delta.content for chunk in chunks if chunk.choices]
    assert [word for word in words if word] == ["It", " snows", " in", " Oslo."]
    assert {chunk.model for chunk in chunks} == {"m-1"}


def test_openai_helper_reads_text_calls_and_tokens() -> None:
    provider = strict_provider(TURNS)
    completions = []
    with openai_client(provider) as client:
        for _ in TURNS:
            with client.chat.completions.stream(
                **CHAT, stream_options={"include_usage": True}
            ) as stream:
                stream.until_done()
                completions.append(stream.get_final_completion())
    called, told = completions
    assert called.choices[0].message.content == "One moment."
    assert chat_calls(called) == CALLS
    assert called.choices[0].finish_reason == "tool_calls"
    assert told.choices[0].message.content == "It snows in Oslo."
    assert told.choices[0].finish_reason == "stop"
    assert told.usage is not None
    assert told.usage.completion_tokens == 5  # of 17 characters
    assert provider.losses == ()


@pytest.mark.on_asyncio
@pytest.mark.anyio
async def test_asynchronous_openai_reads_the_same() -> None:
    async with async_openai_client(strict_provider(TURNS)) as client:
        async with client.chat.completions.stream(**CHAT) as stream:
            assert chat_calls(await stream.get_final_completion()) == CALLS
        raw = await client.chat.completions.create(**CHAT, stream=True)
        words = [chunk.choices[0].delta.content or "" async for chunk in raw]
    assert "".join(words) == "It snows in Oslo."


@pytest.mark.on_asyncio
@pytest.mark.anyio
async def test_many_requests_at_once_get_an_answer_each() -> None:
    provider = strict_provider(lambda request: request.body["messages"][0]["content"].upper())
    answers: dict[int, str] = {}

    async def ask(client: openai.AsyncOpenAI, number: int) -> None:
        question = [{"role": "user", "content": f"is it {number}?"}]
        async with client.chat.completions.stream(model="m", messages=question) as stream:
            completion = await stream.get_final_completion()
        answers[number] = completion.choices[0].message.content

    async with async_openai_client(provider) as client, anyio.create_task_group() as tasks:
        for number in range(12):
            tasks.start_soon(ask, client, number)
    assert answers == {number: f"IS IT {number}?" for number in range(12)}
    assert len(provider.requests) == 12


def test_openai_helper_reads_responses() -> None:
    provider = strict_provider(TURNS)
    with openai_client(provider) as client:
        answers = []
        for _ in TURNS:
            with client.responses.stream(model="m-1", input="Snow?") as stream:
                answers.append(stream.until_done().get_final_response())
    called, told = answers
    calls = [item for item in called.output if item.type == "function_call"]
    assert [(c.call_id, c.name, json.loads(c.arguments)) for c in calls] == CALLS
    assert (told.output_text, told.model) == ("It snows in Oslo.", "m-1")
    assert told.usage is not None
    assert told.usage.output_tokens == 5
    assert provider.losses == ()


# Anthropic


def test_anthropic_helper_reads_text_calls_and_tokens() -> None:
    provider = strict_provider(TURNS)
    answers = []
    with anthropic_client(provider) as client:
        for _ in TURNS:
            with client.messages.stream(**MESSAGES) as stream:
                answers.append(stream.get_final_message())
    called, told = answers
    assert called.content[0].text == "One moment."
    assert anthropic_calls(called) == CALLS
    assert (called.stop_reason, told.stop_reason) == ("tool_use", "end_turn")
    assert (told.content[0].text, told.model) == ("It snows in Oslo.", "m-1")
    assert told.usage.output_tokens == 5
    assert told.usage.input_tokens > 0
    assert provider.losses == ()


def test_anthropic_reads_text_as_it_is_said() -> None:
    with (
        anthropic_client(strict_provider("It snows in Oslo.")) as client,
        client.messages.stream(**MESSAGES) as stream,
    ):
        assert list(stream.text_stream) == ["It", " snows", " in", " Oslo."]


@pytest.mark.anyio
async def test_asynchronous_anthropic_reads_the_same_through_the_application() -> None:
    provider = strict_provider(TURNS)
    http_client = httpx2.AsyncClient(transport=httpx2.ASGITransport(provider.app()))
    async with anthropic.AsyncAnthropic(
        api_key="-", base_url="http://fake", http_client=http_client
    ) as client:
        async with client.messages.stream(**MESSAGES) as stream:
            assert anthropic_calls(await stream.get_final_message()) == CALLS
        raw = await client.messages.create(**MESSAGES, stream=True)
        deltas = [event.delta async for event in raw if event.type == "content_block_delta"]
    assert "".join(delta.text for delta in deltas) == "It snows in Oslo."
    assert [request.path for request in provider.requests] == ["/v1/messages"] * 2


def test_genai_reads_text_calls_and_tokens() -> None:
    provider = strict_provider(TURNS)
    client = genai_client(provider)
    called, told = (list(client.models.generate_content_stream(**CONTENT)) for _ in TURNS)
    assert genai_calls(called) == CALLS
    assert [chunk.text for chunk in told if chunk.text] == ["It", " snows", " in", " Oslo."]
    last = told[-1]
    assert last.candidates is not None
    assert last.candidates[0].finish_reason == types.FinishReason.STOP
    assert last.usage_metadata is not None
    assert last.usage_metadata.candidates_token_count == 5
    assert {chunk.model_version for chunk in told} == {"m-1"}
    assert provider.losses == ()


@pytest.mark.on_asyncio
@pytest.mark.anyio
async def test_asynchronous_genai_reads_the_same() -> None:
    client = genai_client(strict_provider(TURNS))
    stream = await client.aio.models.generate_content_stream(**CONTENT)
    assert genai_calls([chunk async for chunk in stream]) == CALLS


def test_genai_is_told_of_errors_in_its_own_words() -> None:
    error = StreamError("upstream", "Overloaded.", status_hint=503)
    provider = strict_provider(
        [error, ["It snows", error], StreamError("upstream", "Hm.", status_hint=400)]
    )
    client = genai_client(provider)
    for _ in range(2):
        with pytest.raises(errors.ServerError) as busy:
            list(client.models.generate_content_stream(**CONTENT))
        assert (busy.value.code, busy.value.status) == (503, "UNAVAILABLE")
        assert busy.value.message == "Overloaded."
    with pytest.raises(errors.ClientError) as refused:
        list(client.models.generate_content_stream(**CONTENT))
    assert (refused.value.code, refused.value.status) == (400, "INVALID_ARGUMENT")


# What goes wrong


def test_client_tries_again_what_may_succeed_later() -> None:
    provider = strict_provider([http(529), StreamError("upstream", "Hm.", status_hint=400)])
    with anthropic_client(provider, max_retries=1) as client:
        client._calculate_retry_timeout = lambda *_: 0  # type: ignore[method-assign]  # no waiting
        with pytest.raises(anthropic.BadRequestError, match=r"Hm\."):
            client.messages.create(**MESSAGES, stream=True)
    assert len(provider.requests) == 2


def test_both_clients_read_an_error_within_the_stream() -> None:
    error = StreamError("upstream", "Overloaded.", status_hint=529)
    provider = strict_provider([["It snows", error]] * 2)
    with (
        openai_client(provider) as client,
        pytest.raises(openai.APIError, match="Overloaded"),
        client.chat.completions.stream(**CHAT) as chunks,
    ):
        chunks.until_done()
    with (
        anthropic_client(provider) as other,
        pytest.raises(anthropic.APIStatusError, match="Overloaded"),
        other.messages.stream(**MESSAGES) as stream,
    ):
        stream.until_done()


def test_broken_connection_reaches_the_client() -> None:
    provider = strict_provider([["It snows", cut(event=-1)]])
    with (
        anthropic_client(provider) as client,
        pytest.raises(httpx2.ReadError),
        client.messages.stream(**MESSAGES) as stream,
    ):
        stream.until_done()


# Recordings


def test_recording_of_one_dialect_is_read_by_the_client_of_the_other() -> None:
    path = RECORDINGS / "openai_chat" / "openai" / "parallel-tools-interleaved-two.sse"
    expected = [
        (call.id, call.name, call.input()) for call in Recording.load(path).message().tool_calls
    ]
    assert len(expected) == 2
    provider = strict_provider(path)
    with anthropic_client(provider) as client, client.messages.stream(**MESSAGES) as stream:
        assert anthropic_calls(stream.get_final_message()) == expected
    with openai_client(provider) as chat, chat.chat.completions.stream(**CHAT) as completions:
        assert chat_calls(completions.get_final_completion()) == expected


# Agents


def test_pydantic_ai_runs_a_tool_between_two_turns() -> None:
    from pydantic_ai import Agent
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    provider = strict_provider(
        [
            [tool_call("get_weather", city="Oslo"), tool_call("get_weather", city="Rome")],
            "Snow, sun.",
        ]
    )
    asked = []

    async def run() -> None:
        client = async_openai_client(provider)
        agent = Agent(OpenAIChatModel("m-1", provider=OpenAIProvider(openai_client=client)))

        @agent.tool_plain
        def get_weather(city: str) -> str:
            asked.append(city)
            return {"Oslo": "snow", "Rome": "sun"}[city]

        async with client, agent.run_stream("How is the weather?") as result:
            assert await result.get_output() == "Snow, sun."

    anyio.run(run)
    assert sorted(asked) == ["Oslo", "Rome"]
    first, second = provider.requests
    assert [tool["function"]["name"] for tool in first.body["tools"]] == ["get_weather"]
    answers = {
        m["tool_call_id"]: m["content"] for m in second.body["messages"] if m["role"] == "tool"
    }
    assert answers == {"call_1": "snow", "call_2": "sun"}


def test_openai_agents_run_a_tool_between_two_turns() -> None:
    import agents

    agents.set_tracing_disabled(True)
    provider = strict_provider([tool_call("get_weather", city="Oslo"), "It snows."])

    @agents.function_tool
    def get_weather(city: str) -> str:
        """Return the weather."""
        return f"snow in {city}"

    async def run() -> str:
        async with async_openai_client(provider) as client:
            model = agents.OpenAIChatCompletionsModel("m-1", client)
            agent = agents.Agent("weather", model=model, tools=[get_weather])
            result = agents.Runner.run_streamed(agent, "Snow?")
            async for _ in result.stream_events():
                pass
        return str(result.final_output)

    assert anyio.run(run) == "It snows."
    last = provider.requests[1].body["messages"][-1]
    assert (last["role"], last["tool_call_id"]) == ("tool", "call_1")
    assert last["content"] == "snow in Oslo"
