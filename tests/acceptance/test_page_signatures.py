"""Signatures go to a page and come back to the provider that issued them.

The chat of `useChat` and AG-UI's client run a task of two questions: signed reasoning, parallel
calls of the page's tool, signed reasoning again, and one more question.  What the provider gets in
the end is written by hand, as its reference has it; a strict one refuses all else.
"""

from __future__ import annotations

import json
from functools import partial
from typing import Any, NamedTuple

import httpx
import pytest
from acceptance.node_sdks import ask, missing
from anyio import to_thread
from msgspec import structs
from starlette.requests import Request
from starlette.responses import Response
from support.gateway.servers import served
from support.http.strict_upstreams import strict_provider
from support.openai_chat.chunks import DONE, call, calls, content, detail

from streamnorm import (
    Conversation,
    Reasoning,
    RedactedReasoning,
    Text,
    Tool,
    ToolCall,
    connect,
    decode_request,
)
from streamnorm.asgi import EventStreamResponse
from streamnorm.frontend import stream_run
from streamnorm.recording import Recording
from streamnorm.testing import FakeProvider, tool_call

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.on_asyncio,
    pytest.mark.outside,
    pytest.mark.skipif(bool(missing()), reason=missing()),
]

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS = (Tool("get_weather", "The weather of a city", SCHEMA),)
QUESTIONS = ["Snow in Oslo and Rome?", "And tomorrow?"]
TEXT = "It snows in Oslo."
OSLO, ROME = tool_call("get_weather", city="Oslo"), tool_call("get_weather", city="Rome")
TOMORROW = "Tomorrow, too."


class Task(NamedTuple):
    """A task on one provider.

    Attributes:
        model: Name of the model.
        script: The provider's answers.
        expected: What the last request holds between the two questions.
        server: Name of the server; None is the dialect's vendor.
    """

    model: str
    script: list[Any]
    expected: list[dict[str, Any]]
    server: str | None = None


def claude(thought: str, signature: str) -> Reasoning:
    return Reasoning((thought,), signature, "anthropic")


CLAUDE = [
    [claude("I ask twice.", "c2lnLTE="), RedactedReasoning("c2VjcmV0", "anthropic"), OSLO, ROME],
    [claude("Both are known.", "c2lnLTI="), TEXT],
    TOMORROW,
]

ANTHROPIC = Task(
    "claude-sonnet-4-5",
    CLAUDE,
    [
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "I ask twice.", "signature": "c2lnLTE="},
                {"type": "redacted_thinking", "data": "c2VjcmV0"},
                {
                    "type": "tool_use",
                    "id": "call_1",
                    "name": "get_weather",
                    "input": {"city": "Oslo"},
                },
                {
                    "type": "tool_use",
                    "id": "call_2",
                    "name": "get_weather",
                    "input": {"city": "Rome"},
                },
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "call_1", "content": "weather of Oslo"},
                {"type": "tool_result", "tool_use_id": "call_2", "content": "weather of Rome"},
            ],
        },
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Both are known.", "signature": "c2lnLTI="},
                {"type": "text", "text": TEXT},
            ],
        },
    ],
)

BEDROCK = Task(
    "anthropic.claude-sonnet-4-5-20250929-v1:0",
    CLAUDE,
    [
        {
            "role": "assistant",
            "content": [
                {
                    "reasoningContent": {
                        "reasoningText": {"text": "I ask twice.", "signature": "c2lnLTE="}
                    }
                },
                # A blob, of the text that the vendor has issued.
                {"reasoningContent": {"redactedContent": "YzJWamNtVjA="}},
                {
                    "toolUse": {
                        "toolUseId": "call_1",
                        "name": "get_weather",
                        "input": {"city": "Oslo"},
                    }
                },
                {
                    "toolUse": {
                        "toolUseId": "call_2",
                        "name": "get_weather",
                        "input": {"city": "Rome"},
                    }
                },
            ],
        },
        {
            "role": "user",
            "content": [
                {"toolResult": {"toolUseId": "call_1", "content": [{"text": "weather of Oslo"}]}},
                {"toolResult": {"toolUseId": "call_2", "content": [{"text": "weather of Rome"}]}},
            ],
        },
        {
            "role": "assistant",
            "content": [
                {
                    "reasoningContent": {
                        "reasoningText": {"text": "Both are known.", "signature": "c2lnLTI="}
                    }
                },
                {"text": TEXT},
            ],
        },
    ],
)


def gpt(encrypted: str, id: str, *thoughts: str) -> Reasoning:
    return Reasoning(thoughts, encrypted, "openai", id)


RESPONSES = Task(
    "gpt-5",
    [
        [gpt("ZW5jLTE=", "rs_1", "I ask twice."), OSLO, ROME],
        [gpt("ZW5jLTI=", "rs_2", "One is known.", "The other, too.", "Both are known."), TEXT],
        TOMORROW,
    ],
    [
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [{"type": "summary_text", "text": "I ask twice."}],
            "encrypted_content": "ZW5jLTE=",
        },
        {
            "type": "function_call",
            "call_id": "call_1",
            "name": "get_weather",
            "arguments": '{"city":"Oslo"}',
        },
        {
            "type": "function_call",
            "call_id": "call_2",
            "name": "get_weather",
            "arguments": '{"city":"Rome"}',
        },
        {"type": "function_call_output", "call_id": "call_1", "output": "weather of Oslo"},
        {"type": "function_call_output", "call_id": "call_2", "output": "weather of Rome"},
        {
            "type": "reasoning",
            "id": "rs_2",
            "summary": [
                {"type": "summary_text", "text": "One is known."},
                {"type": "summary_text", "text": "The other, too."},
                {"type": "summary_text", "text": "Both are known."},
            ],
            "encrypted_content": "ZW5jLTI=",
        },
        {"role": "assistant", "content": TEXT},
    ],
)


def gemini_call(call: ToolCall, signature: str | None = None) -> ToolCall:
    return structs.replace(call, signature=signature, issuer="google" if signature else None)


# Of parallel calls the first is signed, and the last part of a text.
GEMINI = Task(
    "gemini-3-pro",
    [
        [gemini_call(OSLO, "c2lnLTE="), gemini_call(ROME)],
        [Text(TEXT, signature="c2lnLTI=", issuer="google")],
        TOMORROW,
    ],
    [
        {
            "role": "model",
            "parts": [
                {
                    "functionCall": {
                        "id": "call_1",
                        "name": "get_weather",
                        "args": {"city": "Oslo"},
                    },
                    "thoughtSignature": "c2lnLTE=",
                },
                {"functionCall": {"id": "call_2", "name": "get_weather", "args": {"city": "Rome"}}},
            ],
        },
        {
            "role": "user",
            "parts": [
                {
                    "functionResponse": {
                        "id": "call_1",
                        "name": "get_weather",
                        "response": {"output": "weather of Oslo"},
                    }
                },
                {
                    "functionResponse": {
                        "id": "call_2",
                        "name": "get_weather",
                        "response": {"output": "weather of Rome"},
                    }
                },
            ],
        },
        {"role": "model", "parts": [{"text": TEXT, "thoughtSignature": "c2lnLTI="}]},
    ],
)


def open_router(thought: str, signature: str, *rest: bytes) -> Recording:
    """Return an answer with OpenRouter's `reasoning_details`, as it streams those of Claude."""
    form = {"type": "reasoning.text", "format": "anthropic-claude-v1", "index": 0}
    head = [detail(**form, text=thought), detail(**form, signature=signature)]
    return Recording(b"".join([*head, *rest, DONE]))


def routed(thought: str, signature: str) -> dict[str, Any]:
    form = {"type": "reasoning.text", "format": "anthropic-claude-v1", "index": 0}
    return {**form, "text": thought, "signature": signature}


# All of its answers have one id, as some of Ollama's do: it draws `chatcmpl-N` from 999 numbers.
CHAT = Task(
    "anthropic/claude-sonnet-4.5",
    [
        open_router(
            "I ask twice.",
            "c2lnLTE=",
            calls(call(0, "call_1", "get_weather", '{"city":"Oslo"}')),
            calls(call(1, "call_2", "get_weather", '{"city":"Rome"}'), finish="tool_calls"),
        ),
        open_router("Both are known.", "c2lnLTI=", content(TEXT, "stop")),
        Recording(content(TOMORROW, "stop") + DONE),
    ],
    [
        {
            "role": "assistant",
            "reasoning_details": [routed("I ask twice.", "c2lnLTE=")],
            "tool_calls": [
                {
                    "id": "call_1",
                    "type": "function",
                    "function": {"name": "get_weather", "arguments": '{"city":"Oslo"}'},
                },
                {
                    "id": "call_2",
                    "type": "function",
                    "function": {"name": "get_weather", "arguments": '{"city":"Rome"}'},
                },
            ],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": "weather of Oslo"},
        {"role": "tool", "tool_call_id": "call_2", "content": "weather of Rome"},
        {
            "role": "assistant",
            "content": TEXT,
            "reasoning_details": [routed("Both are known.", "c2lnLTI=")],
        },
    ],
    "openrouter",
)

TASKS = {
    "anthropic": ANTHROPIC,
    "bedrock_converse": BEDROCK,
    "gemini": GEMINI,
    "openai_chat": CHAT,
    "openai_responses": RESPONSES,
}
# Where the messages of a request stand.
FIELDS = {"openai_responses": "input", "gemini": "contents"}


class Backend:
    """The backend of a page, with a provider of each dialect, named by the path."""

    def __init__(self, page: str, tasks: dict[str, Task]) -> None:
        self.page = page
        self.tasks = tasks
        self.providers = {
            dialect: strict_provider(task.script, server=task.server)
            for dialect, task in tasks.items()
        }

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            request = Request(scope, receive)
            response = await self.answer(scope["path"].strip("/"), await request.body())
            await response(scope, receive, send)
            return
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await send({"type": "lifespan.shutdown.complete"})

    async def answer(self, dialect: str, body: bytes) -> Response:
        task = self.tasks[dialect]
        asked = decode_request(body, self.page)
        chat = Conversation(structs.replace(asked, model=task.model, tools=TOOLS))
        stream = stream_run(self._ask(dialect, task, chat), to=self.page, request=asked)
        return EventStreamResponse(stream)

    async def _ask(self, dialect: str, task: Task, chat: Conversation) -> Any:
        sent = chat.dump(dialect, server=task.server)
        async with self.providers[dialect].client(httpx.AsyncClient) as client:
            url = f"https://provider.example{sent.path}"
            headers = dict(sent.headers)
            options = {"json": sent.body, "headers": headers, "dialect": dialect}
            async with connect(client, "POST", url, **options) as stream:
                async for event in stream:
                    yield event


async def run_tasks(
    page: str, script: str, client: str, tasks: dict[str, Task] = TASKS
) -> dict[str, FakeProvider]:
    """Return the providers, once a client has run a task on each."""
    backend = Backend(page, tasks)
    async with served(backend, strict=False) as url:
        jobs = [
            {"url": f"{url}/{dialect}", "questions": QUESTIONS, "tool": "weather"}
            for dialect in tasks
        ]
        answers = await to_thread.run_sync(partial(ask, script, client, jobs))
    for dialect, heard in zip(tasks, answers, strict=True):
        assert "error" not in heard, (dialect, heard, backend.providers[dialect].violations)
        assert TOMORROW in json.dumps(heard["messages"][-1]), dialect
    return backend.providers


def assert_signatures_came_back(providers: dict[str, FakeProvider]) -> None:
    for dialect, task in TASKS.items():
        provider = providers[dialect]
        assert provider.violations == (), dialect
        assert len(provider.requests) == 3, dialect
        messages = provider.requests[2].body[FIELDS.get(dialect, "messages")]
        assert messages[1:-1] == task.expected, dialect


@pytest.mark.parametrize("client", ["ai5", "ai6", "ai7"])
async def test_use_chat_brings_signatures_back(client: str) -> None:
    assert_signatures_came_back(await run_tasks("ui_message_stream", "ui_chat", client))


@pytest.mark.parametrize("client", ["0", "1"])
async def test_ag_ui_brings_signatures_back(client: str) -> None:
    assert_signatures_came_back(await run_tasks("ag_ui", "ag_ui_thread", client))


def numbered_call(city: str) -> ToolCall:
    return structs.replace(tool_call("get_weather", city=city), id="get_weather-0")


# Each answer numbers its calls from 0, as Kimi K2 does the calls of a tool.
REPEATED = Task(
    "claude-sonnet-4-5", [[numbered_call("Oslo")], TEXT, [numbered_call("Rome")], TOMORROW], []
)


@pytest.mark.parametrize(
    ("page", "script", "client"),
    [("ui_message_stream", "ui_chat", "ai7"), ("ag_ui", "ag_ui_thread", "1")],
)
async def test_calls_of_one_id_in_two_answers_stay_apart(
    page: str, script: str, client: str
) -> None:
    """`useChat` gives a result to all calls of its id, AG-UI's client appends to the first."""
    tasks = {"anthropic": REPEATED}
    provider = (await run_tasks(page, script, client, tasks))["anthropic"]
    messages = provider.requests[-1].body["messages"]
    blocks = [block for each in messages for block in each["content"] if isinstance(block, dict)]
    cities = {b["id"]: b["input"]["city"] for b in blocks if b["type"] == "tool_use"}
    results = {b["tool_use_id"]: b["content"] for b in blocks if b["type"] == "tool_result"}
    assert sorted(cities.values()) == ["Oslo", "Rome"]
    assert results == {id: f"weather of {city}" for id, city in cities.items()}
    assert provider.violations == ()
