"""Compare what pages get from streamnorm and from pydantic-ai's adapters, of the same agent.

    pip install 'pydantic-ai-slim[ag-ui]'
    npm ci --prefix tests/acceptance/node
    python tests/compliance/pages.py [--upstream anthropic]

Both agents ask the same scripted provider and have the same tool.  The clients of the pages, `ai` 7
and `@ag-ui/client` 1.0.0, say what they make of each answer.  Prints the tables of
`docs/compliance.md`, one for each dialect of the provider.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import warnings
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import httpx
from msgspec import structs
from pydantic_ai import Agent, WebSearchTool
from pydantic_ai.capabilities import NativeTool
from pydantic_ai.ui.ag_ui import AGUIAdapter
from pydantic_ai.ui.vercel_ai import VercelAIAdapter
from starlette.requests import Request

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from acceptance.frameworks import pydantic_model  # noqa: E402
from acceptance.node_sdks import ask, missing  # noqa: E402
from acceptance.transcoding_clients import SDKS  # noqa: E402
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
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
SEARCH = {"type": "web_search_20250305", "name": "web_search"}
SECRET = "host db-7 is down"  # noqa: S105 - of an exception of the tool


async def get_weather(city: str) -> str:
    """Return the weather of a city."""
    if city == "Atlantis":
        raise RuntimeError(SECRET)
    return f"weather of {city}"


class Upstream(NamedTuple):
    """The provider that both agents ask.

    Attributes:
        dialect: Its dialect.
        model: The model that they ask for.
        thoughts: Reasoning of the first answer, and of the second.
        secrets: Signatures in what the provider has sent.
        cut_event: Number of the event within arguments at which an answer with a call is cut; None
            if calls come whole.
        found: A recorded answer with sources.
        has_search: Whether both agents can offer its search beside a tool.
    """

    dialect: str
    model: str
    thoughts: tuple[list[Any], list[Any]]
    secrets: dict[str, str]
    cut_event: int | None
    found: str
    has_search: bool = False

    def task(self) -> list[Any]:
        """Return the answers of a task with two calls."""
        first, second = self.thoughts
        return [
            [*first, "One moment.", *self._calls()],
            [*second, "It snows."],
            "Tomorrow, too.",
        ]

    def _calls(self) -> list[Any]:
        if self.dialect != "gemini":
            return [OSLO, ROME]
        return [structs.replace(OSLO, signature="c2lnLWNhbGw=", issuer="google"), ROME]


# The two agents


async def answer_ours(
    provider: FakeProvider, upstream: Upstream, page: str, request: Request
) -> Any:
    body = await request.body()
    search = decode_tools([SEARCH], "anthropic") if upstream.has_search else ()
    tools = (Tool("get_weather", "The weather of a city", CITY), *search)
    asked = structs.replace(decode_request(body, page), model=upstream.model, tools=tools)
    run = run_agent(provider, upstream.dialect, Conversation(asked))
    return EventStreamResponse(stream_run(run, to=page, request=asked))


async def run_agent(provider: FakeProvider, to: str, chat: Conversation) -> AsyncIterator[Any]:
    async with provider.client(httpx.AsyncClient) as client:
        while True:
            sent = chat.dump(to, arguments="raw")
            url = f"https://provider.test{sent.path}"
            async with connect(client, "POST", url, json=sent.body) as stream:
                with chat.append_stream(dialect=to, reply=sent.reply) as answer:
                    async for event in stream:
                        for restored in answer.push(event):
                            yield restored
            if not chat.open_tool_calls():
                return
            results = await run_tools(answer.message, {"get_weather": get_weather})
            chat.append(InputMessage("user", results))
            yield results


async def answer_theirs(
    provider: FakeProvider, upstream: Upstream, page: str, request: Request
) -> Any:
    sdk = SDKS[upstream.dialect]
    client = sdk.async_client(provider.client(sdk.http.AsyncClient))
    model = pydantic_model(upstream.dialect, client, upstream.model)
    search = [NativeTool(WebSearchTool())] if upstream.has_search else []
    agent = Agent(model, tools=[get_weather], capabilities=search)
    if page == UI:
        return await VercelAIAdapter.dispatch_request(request, agent=agent, sdk_version=7)
    return await AGUIAdapter.dispatch_request(request, agent=agent)


class Backend:
    """The backend of a page.

    Args:
        name: Which of the two agents answers.
        upstream: The provider.
        page: Dialect of the page.
        script: Answers of the provider.
    """

    def __init__(self, name: str, upstream: Upstream, page: str, script: list[Any]) -> None:
        self.provider = FakeProvider(script)
        self.upstream = upstream
        self.page = page
        self._answer = answer_ours if name == BACKENDS[0] else answer_theirs

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            request = Request(scope, receive)
            response = await self._answer(self.provider, self.upstream, self.page, request)
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


async def hear(name: str, upstream: Upstream, page: str, script: list[Any]) -> Heard:
    """Return the answer of a backend to one question."""
    backend = Backend(name, upstream, page, script)
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


async def converse(name: str, upstream: Upstream, page: str) -> dict[str, Any]:
    """Return the body that the provider gets with the second question of a page."""
    backend = Backend(name, upstream, page, upstream.task())
    script_name, client_name = ("ui_chat", "ai7") if page == UI else ("ag_ui_thread", "1")
    async with served(backend, strict=False) as url:
        job = {"url": url, "questions": ["Weather?", "And tomorrow?"], "tool": "-"}
        (said,) = await asyncio.to_thread(ask, script_name, client_name, [job])
    assert "messages" in said, said
    body: dict[str, Any] = backend.provider.requests[-1].body
    return body


# Cases


OSLO, ROME = tool_call("get_weather", city="Oslo"), tool_call("get_weather", city="Rome")
REDACTED = RedactedReasoning("c2VjcmV0", "anthropic")
THOUGHTS = ([Reasoning(("Think.",))], [Reasoning(("Go on.",))])
UPSTREAMS = (
    Upstream(
        "anthropic",
        "claude-sonnet-4-5",
        (
            [Reasoning(("Think.",), "c2lnLTE=", "anthropic"), REDACTED],
            [Reasoning(("Go on.",), "c2lnLTI=", "anthropic")],
        ),
        {"c2lnLTE=": "", "c2lnLTI=": "", "c2VjcmV0": "the redacted"},
        cut_event=7,
        found="anthropic/anthropic/web-search",
        has_search=True,
    ),
    Upstream(
        "openai_chat",
        "gpt-4.1",
        THOUGHTS,
        {},
        cut_event=5,
        found="openai_chat/openai/url-citations",
    ),
    Upstream(
        "openai_responses",
        "gpt-5",
        (
            [Reasoning(("Think.",), "gAAAAAB1", "openai", "rs_1")],
            [Reasoning(("Go on.",), "gAAAAAB2", "openai", "rs_2")],
        ),
        {"gAAAAAB1": "the first", "gAAAAAB2": "the second"},
        cut_event=11,
        found="openai_responses/openai/web-search",
        has_search=True,
    ),
    Upstream(
        "gemini",
        "gemini-3-pro-preview",
        THOUGHTS,
        {"c2lnLWNhbGw=": "that of the call"},
        cut_event=None,
        found="gemini/google/grounding",
    ),
)
OVERLOADED = StreamError("upstream", "Overloaded.", "overloaded_error", 529)
CLOSED = [["It snows in", StreamError("truncated", "cut")]]
LONG = [Message(blocks=(Text("It snows in"),), stop_reason="max_tokens")]
BROKEN_TOOL = [tool_call("get_weather", city="Atlantis"), "Nobody knows."]


def whole_task(heard: Heard) -> str:
    """Return how much of the task the page has: texts, reasoning, calls with their results."""
    said = json.dumps(heard.said["parts" if heard.page == UI else "messages"], ensure_ascii=False)
    wanted = ["One moment.", "It snows.", "Think.", "Go on.", "weather of Oslo", "weather of Rome"]
    return f"{sum(said.count(text) == 1 for text in wanted)} of {len(wanted)}"


async def signatures(name: str, upstream: Upstream, page: str) -> str:
    text = json.dumps(await converse(name, upstream, page))
    lost = [what for secret, what in upstream.secrets.items() if secret not in text]
    count = len(upstream.secrets)
    return f"{count - len(lost)} of {count}{' without ' if lost else ''}{', '.join(lost)}"


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
        count = len({chunk["url"] for chunk in heard.chunks if chunk["type"] == "source-url"})
        return f"{count} sources"
    return "citations of the text" if '"citations"' in heard.body else "–"


def broken_tool(heard: Heard) -> str:
    if heard.error is None:
        return "the next answer; the model reads the error"
    return "the text of the exception" if SECRET in heard.error else "an error"


Case: TypeAlias = tuple[str, list[Any], Callable[[Heard], str]]


def cases(upstream: Upstream) -> list[Case]:
    task = upstream.task()
    cut_calls: list[Case] = []
    if upstream.cut_event is not None:
        cut_call = [["One moment.", OSLO, faults.cut(event=upstream.cut_event)]]
        what = "the connection breaks within the arguments of a call"
        cut_calls.append((what, cut_call, offered_calls))
    found = [ROOT / f"recordings/{upstream.found}.sse"]
    return [
        ("texts, reasoning and results of a task", task, whole_task),
        ("the provider closes the connection within a text", CLOSED, shown_error),
        *cut_calls,
        ("the provider refuses with 529", [OVERLOADED], refusal),
        ("the provider fails within a text", [["It", OVERLOADED]], shown_error),
        ("a tool raises an exception", BROKEN_TOOL, broken_tool),
        ("the answer ends by `max_tokens`", LONG, stop_reason),
        ("usage", task, usage),
        ("the provider's id of the message", task, message_id),
        ("sources of a web search", found, sources),
    ]


async def compare(upstream: Upstream) -> None:
    cells = [(page, name) for page in (UI, AG_UI) for name in BACKENDS]
    print(f"| {upstream.dialect} | " + " | ".join(f"{page}, {name}" for page, name in cells) + " |")
    print("|---" * (len(cells) + 1) + "|")
    if upstream.secrets:
        row = [await signatures(name, upstream, page) for page, name in cells]
        print("| signatures that come back to the provider | " + " | ".join(row) + " |", flush=True)
    for what, script, judge in cases(upstream):
        row = [judge(await hear(name, upstream, page, script)) for page, name in cells]
        print(f"| {what} | " + " | ".join(row) + " |", flush=True)
    print()


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    known = {upstream.dialect: upstream for upstream in UPSTREAMS}
    parser.add_argument("--upstream", choices=known, action="append", help="default: all")
    for name in parser.parse_args().upstream or known:
        await compare(known[name])


if __name__ == "__main__":
    assert not missing(), missing()
    warnings.simplefilter("ignore")
    asyncio.run(main())
