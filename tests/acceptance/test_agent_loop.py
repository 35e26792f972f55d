"""A whole agent in ten lines, on each provider and on several of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from support.http.strict_upstreams import strict_provider

from streamnorm import (
    Completed,
    Conversation,
    InputMessage,
    Request,
    Text,
    Tool,
    ToolResult,
    connect,
    decode_request,
    run_tools,
)
from streamnorm._registry import framing_of
from streamnorm.codec import SSE
from streamnorm.recording import Recording
from streamnorm.testing import FakeProvider, tool_call

pytestmark = pytest.mark.anyio

RECORDINGS = Path(__file__).parents[2] / "recordings"
DIALECTS = [
    *("anthropic", "openai_chat", "openai_responses"),
    *("gemini", "gemini_interactions", "bedrock_converse"),
]
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS = (Tool("get_weather", "Weather of a city", SCHEMA),)
QUESTION = InputMessage("user", (Text("Snow in Oslo and in Rome?"),))
CALLS = [
    "One moment.",
    tool_call("get_weather", city="Oslo"),
    tool_call("get_weather", town="Rome"),
]
# Made of what a later version may send, which that version takes back.
WITH_UNKNOWN_PARTS = [("google", "tools-of-the-server.sse")]


async def get_weather(city: str, **others: object) -> dict[str, object]:
    return {"city": city, "snow": True}


async def run_agent(
    client: httpx.AsyncClient, chat: Conversation, dialects: list[str], server: str | None = None
) -> None:
    """Ask until no tool is called; each turn goes to the next provider."""
    while True:
        dialect = dialects.pop(0)
        request = chat.dump(dialect, arguments="raw", server=server)
        url = f"https://api.example{request.path}"
        # An event stream of AWS is never guessed from its bytes.
        named = None if framing_of(dialect) is SSE else dialect
        async with connect(client, "POST", url, json=request.body, dialect=named) as stream:
            with chat.append_stream(dialect=dialect, reply=request.reply) as answer:
                async for event in stream:
                    answer.push(event)
        if not chat.open_tool_calls():
            return
        results = await run_tools(answer.message, {"get_weather": get_weather}, tools=TOOLS)
        chat.append(InputMessage("user", results))


def ask(*tools: Tool) -> Conversation:
    """Return a conversation with a question."""
    offered = (*TOOLS, *tools)
    return Conversation(Request(model="m-1", messages=(QUESTION,), tools=offered, stream=True))


def sent(provider: FakeProvider, number: int, dialect: str) -> Request:
    request = provider.requests[number]
    return decode_request(json.dumps(request.body), dialect)


def assert_answered(request: Request) -> None:
    """The request of the second turn has both calls, and a result for each."""
    calls = [call for message in request.messages for call in message.tool_calls]
    results = [result for message in request.messages for result in message.tool_results]
    assert [call.input() for call in calls] == [{"city": "Oslo"}, {"town": "Rome"}]
    assert [result.tool_call_id for result in results] == [call.id for call in calls]
    assert [result.is_error for result in results] == [False, True]
    first, second = (text_of(result) for result in results)
    assert json.loads(first) == {"city": "Oslo", "snow": True}
    assert "$: 'city' is a required property" in second


def text_of(result: ToolResult) -> str:
    return "".join(block.text for block in result.content if isinstance(block, Text))


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_an_agent_on_one_provider(dialect: str) -> None:
    provider = strict_provider([CALLS, "It snows in Oslo."])
    chat = ask()
    async with provider.client(httpx.AsyncClient) as client:
        await run_agent(client, chat, [dialect, dialect])
    assert [message.role for message in chat.messages] == ["user", "assistant", "user", "assistant"]
    assert chat.messages[1].text == "One moment."
    assert chat.messages[3].text == "It snows in Oslo."
    # The messages of Converse have no id and no model.
    assert {loss.feature for loss in provider.losses} <= {"identity"}
    assert not provider.losses or dialect == "bedrock_converse"
    assert_answered(sent(provider, 1, dialect))


@pytest.mark.parametrize("second", DIALECTS)
@pytest.mark.parametrize("first", DIALECTS)
async def test_the_provider_is_switched_in_the_middle_of_the_loop(first: str, second: str) -> None:
    provider = strict_provider([CALLS, "It snows in Oslo."])
    chat = ask()
    async with provider.client(httpx.AsyncClient) as client:
        await run_agent(client, chat, [first, second])
    assert chat.messages[-1].text == "It snows in Oslo."
    assert_answered(sent(provider, 1, second))


async def test_each_turn_is_another_provider() -> None:
    cities = ("Oslo", "Rome", "Bern", "Faro")
    turns: list[Any] = [[tool_call("get_weather", city=name)] for name in cities]
    provider = strict_provider([*turns, "It snows in Oslo."])
    chat = ask()
    async with provider.client(httpx.AsyncClient) as client:
        await run_agent(client, chat, [*DIALECTS])
    calls = [call for message in chat.messages for call in message.tool_calls]
    assert [call.input()["city"] for call in calls] == list(cities)
    assert len(chat.messages) == 10
    last = sent(provider, 4, DIALECTS[4])
    assert sum(len(message.tool_results) for message in last.messages) == 4


def recordings_with_calls() -> list[Path]:
    """Return the recordings whose answer a client would execute calls of."""
    found: list[Path] = []
    for path in sorted(
        [*RECORDINGS.glob("*/*/*.sse"), *RECORDINGS.glob("bedrock_*/*/*.eventstream")]
    ):
        dialect = path.parts[-3]
        if dialect not in DIALECTS:
            continue
        recording = Recording.load(path)
        if isinstance(recording.outcome, Completed) and recording.message().tool_calls:
            found.append(path)
    return found


@pytest.mark.parametrize(
    "path", recordings_with_calls(), ids=lambda path: "-".join(path.parts[-3:])
)
async def test_an_agent_on_a_recording(path: Path) -> None:
    """The first answer is a recorded one, whatever its tools are called; each provider goes on.

    In its own dialect the recorded server does: the ids that Copilot mints, OpenAI refuses.
    """
    dialect, server = path.parts[-3:-1]
    # Anthropic refuses the results of a tool search that found a tool which is not offered.
    names = {call.name for call in Recording.load(path).message().tool_calls}
    tools = [Tool(name, "Recorded", {"type": "object"}) for name in sorted(names - {"get_weather"})]
    for second in DIALECTS:
        asked = server if second == dialect else None
        is_known = second != dialect or path.parts[-2:] not in WITH_UNKNOWN_PARTS
        provider = strict_provider([path, "Done."], server=asked, strict=is_known)
        chat = ask(*tools)
        async with provider.client(httpx.AsyncClient) as client:
            await run_agent(client, chat, [dialect, second], asked)
        calls = chat.messages[1].tool_calls
        assert calls
        assert [result.tool_call_id for result in chat.messages[2].tool_results] == [
            call.id for call in calls
        ]
        assert chat.messages[3].text == "Done."
        request = sent(provider, 1, second)
        names = [call.name for message in request.messages for call in message.tool_calls]
        for name, call in zip(names, calls, strict=True):  # a namespace may stand before it
            assert name.endswith(call.name)
        assert sum(len(message.tool_results) for message in request.messages) == len(calls)
