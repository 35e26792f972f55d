"""Compare what pages get from streamnorm and from pydantic-ai's adapters, of the same agent.

    pip install 'pydantic-ai-slim[ag-ui]'
    npm ci --prefix tests/acceptance/node
    python tests/compliance/pages.py

Both agents ask the same scripted provider, in Anthropic's dialect, and have the same tool.  The
clients of the pages, `ai` 7 and `@ag-ui/client` 1.0.0, say what they make of each answer.  Prints
the table of `docs/compliance.md`.
"""

from __future__ import annotations

import asyncio
import json
import sys
import warnings
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, NamedTuple

import anthropic
import httpx
from msgspec import structs
from pydantic_ai import Agent, WebSearchTool
from pydantic_ai.capabilities import NativeTool
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.ui.ag_ui import AGUIAdapter
from pydantic_ai.ui.vercel_ai import VercelAIAdapter
from starlette.requests import Request

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from acceptance.node_sdks import ask, missing  # noqa: E402
from support.gateway.servers import served  # noqa: E402

from streamnorm import (  # noqa: E402
    Conversation,
    InputMessage,
    Message,
    Reasoning,
    RedactedReasoning,
    StreamError,
    Text,
    Tool,
    connect,
    decode_request,
    run_tools,
)
from streamnorm.asgi import EventStreamResponse  # noqa: E402
from streamnorm.frontend import stream_run  # noqa: E402
from streamnorm.testing import FakeProvider, faults, tool_call  # noqa: E402
from streamnorm.tools import decode_tools  # noqa: E402

UI, AG_UI = "ui_message_stream", "ag_ui"
BACKENDS = ("streamnorm", "pydantic-ai")
MODEL = "claude-sonnet-4-5"
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
SEARCH = {"type": "web_search_20250305", "name": "web_search"}
SECRET = "host db-7 is down"  # noqa: S105 - of an exception of the tool


async def get_weather(city: str) -> str:
    """Return the weather of a city."""
    if city == "Atlantis":
        raise RuntimeError(SECRET)
    return f"weather of {city}"


# The two agents


async def answer_ours(provider: FakeProvider, page: str, request: Request) -> Any:
    body = await request.body()
    tools = (
        Tool("get_weather", "The weather of a city", CITY),
        *decode_tools([SEARCH], "anthropic"),
    )
    asked = structs.replace(decode_request(body, page), model=MODEL, tools=tools)
    run = run_agent(provider, Conversation(asked))
    return EventStreamResponse(stream_run(run, to=page, request=asked))


async def run_agent(provider: FakeProvider, chat: Conversation) -> AsyncIterator[Any]:
    async with provider.client(httpx.AsyncClient) as client:
        while True:
            sent = chat.dump("anthropic", arguments="raw")
            url = f"https://api.anthropic.com{sent.path}"
            async with connect(client, "POST", url, json=sent.body) as stream:
                with chat.append_stream(dialect="anthropic", reply=sent.reply) as answer:
                    async for event in stream:
                        for restored in answer.push(event):
                            yield restored
            if not chat.open_tool_calls():
                return
            results = await run_tools(answer.message, {"get_weather": get_weather})
            chat.append(InputMessage("user", results))
            yield results


async def answer_theirs(provider: FakeProvider, page: str, request: Request) -> Any:
    http = provider.client(anthropic.DefaultAsyncHttpxClient)
    client = anthropic.AsyncAnthropic(api_key="-", http_client=http, max_retries=0)
    model = AnthropicModel(MODEL, provider=AnthropicProvider(anthropic_client=client))
    agent = Agent(model, tools=[get_weather], capabilities=[NativeTool(WebSearchTool())])
    if page == UI:
        return await VercelAIAdapter.dispatch_request(request, agent=agent, sdk_version=7)
    return await AGUIAdapter.dispatch_request(request, agent=agent)


class Backend:
    """The backend of a page.

    Args:
        name: Which of the two agents answers.
        page: Dialect of the page.
        script: Answers of the provider.
    """

    def __init__(self, name: str, page: str, script: list[Any]) -> None:
        self.provider = FakeProvider(script)
        self.page = page
        self._answer = answer_ours if name == BACKENDS[0] else answer_theirs

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            request = Request(scope, receive)
            response = await self._answer(self.provider, self.page, request)
            await response(scope, receive, send)
            return
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await send({"type": "lifespan.shutdown.complete"})


# What a client makes of an answer


class Heard(NamedTuple):
    """An answer, and what the page's client makes of it."""

    page: str
    status: int
    body: str
    said: dict[str, Any]

    @property
    def chunks(self) -> list[dict[str, Any]]:
        lines = [line[6:] for line in self.body.splitlines() if line.startswith("data: {")]
        return [json.loads(line) for line in lines]

    @property
    def error(self) -> str | None:
        """The text of the error that the page shows; None if it shows none."""
        if self.status != 200:
            return f"status {self.status}: {self.body}"
        if self.page == UI:
            return self.said.get("failure") or self.said.get("error")
        failed = self.said.get("error")
        return failed[0] if isinstance(failed, list) else failed


async def hear(name: str, page: str, script: list[Any]) -> Heard:
    """Return the answer of a backend to one question."""
    backend = Backend(name, page, script)
    text = "Weather?"
    question: dict[str, Any]
    if page == UI:
        message = {"id": "1", "role": "user", "parts": [{"type": "text", "text": text}]}
        question = {"id": "c", "trigger": "submit-message", "messages": [message]}
    else:
        message = {"id": "1", "role": "user", "content": text}
        question = {"threadId": "t", "runId": "r", "messages": [message], "tools": []}
        question |= {"context": [], "state": {}, "forwardedProps": {}}
    transport = httpx.ASGITransport(backend, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://page") as client:
        got = await client.post("/", json=question, headers={"accept": "text/event-stream"})
    script_name, client_name = ("ui", "ai7") if page == UI else ("ag_ui", "1")
    (said,) = await asyncio.to_thread(ask, script_name, client_name, [{"body": got.text}])
    return Heard(page, got.status_code, got.text, said)


async def converse(name: str, page: str) -> list[dict[str, Any]]:
    """Return the messages that the provider gets with the second question of a page."""
    backend = Backend(name, page, TASK)
    script_name, client_name = ("ui_chat", "ai7") if page == UI else ("ag_ui_thread", "1")
    async with served(backend, strict=False) as url:
        job = {"url": url, "questions": ["Weather?", "And tomorrow?"], "tool": "-"}
        (said,) = await asyncio.to_thread(ask, script_name, client_name, [job])
    assert "messages" in said, said
    messages: list[dict[str, Any]] = backend.provider.requests[-1].body["messages"]
    return messages


# Cases


def claude(thought: str, signature: str) -> Reasoning:
    return Reasoning((thought,), signature, "anthropic")


OSLO, ROME = tool_call("get_weather", city="Oslo"), tool_call("get_weather", city="Rome")
REDACTED = RedactedReasoning("c2VjcmV0", "anthropic")
TASK = [
    [claude("Think.", "c2lnLTE="), REDACTED, "One moment.", OSLO, ROME],
    [claude("Go on.", "c2lnLTI="), "It snows."],
    "Tomorrow, too.",
]
OVERLOADED = StreamError("upstream", "Overloaded.", "overloaded_error", 529)
CLOSED = [["It snows in", StreamError("truncated", "cut")]]
CUT_CALL = [["One moment.", OSLO, faults.cut(event=7)]]
LONG = [Message(blocks=(Text("It snows in"),), stop_reason="max_tokens")]
BROKEN_TOOL = [tool_call("get_weather", city="Atlantis"), "Nobody knows."]
FOUND = [ROOT / "recordings/anthropic/anthropic/web-search.sse"]


def whole_task(heard: Heard) -> str:
    """Return how much of the task the page has: texts, reasoning, calls with their results."""
    said = json.dumps(heard.said["parts" if heard.page == UI else "messages"], ensure_ascii=False)
    wanted = ["One moment.", "It snows.", "Think.", "Go on.", "weather of Oslo", "weather of Rome"]
    return f"{sum(said.count(text) == 1 for text in wanted)} of {len(wanted)}"


async def signatures(name: str, page: str) -> str:
    text = json.dumps(await converse(name, page))
    found = [each for each in ("c2lnLTE=", "c2lnLTI=", "c2VjcmV0") if each in text]
    lost = " without the redacted" if "c2VjcmV0" not in found else ""
    return f"{len(found)} of 3{lost}"


def shown_error(heard: Heard) -> str:
    match heard.error:
        case None:
            return "nothing: it looks complete"
        case text if "model_name" in text:
            return "an error with the name of the model and the body of the response"
        case text if "Overloaded." in text:
            return "the provider's sentence"
        case text:
            return f"`{text}`"


def refusal(heard: Heard) -> str:
    return f"status {heard.status}, {shown_error(heard)}"


def offered_calls(heard: Heard) -> str:
    if heard.page == UI:
        inputs = [c["input"] for c in heard.chunks if c["type"] == "tool-input-available"]
        return f"the call, with `{json.dumps(inputs[0])}`" if inputs else "no call"
    ends = any(chunk["type"] == "TOOL_CALL_END" for chunk in heard.chunks)
    return "the end of the call" if ends else "no end of the call"


def stop_reason(heard: Heard) -> str:
    last = heard.chunks[-1]
    found = heard.said.get("finish") or (last.get("metadata") or {}).get("stopReason")
    return f"`{found}`" if found else "–"


def usage(heard: Heard) -> str:
    *_, last = heard.chunks
    found = (last.get("messageMetadata") or last).get("usage")
    return "yes" if found else "–"


def message_id(heard: Heard) -> str:
    first = heard.chunks[0]
    metadata = first.get("metadata") or first.get("messageMetadata") or {}
    return "yes" if {"id", "messageId"} & metadata.keys() else "–"


def sources(heard: Heard) -> str:
    if heard.page == UI:
        count = sum(chunk["type"] == "source-url" for chunk in heard.chunks)
        return f"{count} sources"
    return "citations of the text" if '"citations"' in heard.body else "–"


def broken_tool(heard: Heard) -> str:
    if heard.error is None:
        return "the next answer; the model reads the error"
    return "the text of the exception" if SECRET in heard.error else "an error"


CASES: list[tuple[str, list[Any], Callable[[Heard], str]]] = [
    ("texts, reasoning and results of a task", TASK, whole_task),
    ("the provider closes the connection within a text", CLOSED, shown_error),
    ("the connection breaks within the arguments of a call", CUT_CALL, offered_calls),
    ("the provider refuses with 529", [OVERLOADED], refusal),
    ("the provider fails within a text", [["It", OVERLOADED]], shown_error),
    ("a tool raises an exception", BROKEN_TOOL, broken_tool),
    ("the answer ends by `max_tokens`", LONG, stop_reason),
    ("usage", TASK, usage),
    ("the provider's id of the message", TASK, message_id),
    ("sources of a web search", FOUND, sources),
]


async def main() -> None:
    cells = [(page, name) for page in (UI, AG_UI) for name in BACKENDS]
    print("| | " + " | ".join(f"{page}, {name}" for page, name in cells) + " |")
    print("|---" * (len(cells) + 1) + "|")
    row = [await signatures(name, page) for page, name in cells]
    print("| signatures that come back to the provider | " + " | ".join(row) + " |", flush=True)
    for what, script, judge in CASES:
        row = [judge(await hear(name, page, script)) for page, name in cells]
        print(f"| {what} | " + " | ".join(row) + " |", flush=True)


if __name__ == "__main__":
    assert not missing(), missing()
    warnings.simplefilter("ignore")
    asyncio.run(main())
