"""Example backend of two pages: one agent for `useChat` and for AG-UI's client.

    npm ci && npm run build
    ANTHROPIC_API_KEY=... uvicorn server:app

`demo.py` is the same with a fake provider.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
from fastapi import FastAPI, Request
from fastapi.responses import PlainTextResponse
from fastapi.staticfiles import StaticFiles
from msgspec import structs

from streamnorm import (
    Conversation,
    DecodeError,
    EncodeError,
    InputMessage,
    Text,
    Tool,
    connect,
    decode_request,
    run_tools,
)
from streamnorm.asgi import EventStreamResponse
from streamnorm.frontend import RunItem, stream_run

PROVIDER, MODEL = "anthropic", "claude-sonnet-5"
SYSTEM = "You know the weather. Let the user choose where a city is not clear."
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
OPTIONS = {
    "type": "object",
    "properties": {"options": {"type": "array", "items": {"type": "string"}}},
    "required": ["options"],
}
TOOLS = (
    Tool("get_weather", "The weather of a city", CITY),
    Tool("choose", "Let the user choose one of several options", OPTIONS),
)


async def get_weather(city: str) -> str:
    """Return the weather of a city."""
    return "-3 °C, snow" if city == "Oslo" else "16 °C, sun"


FUNCTIONS = {"get_weather": get_weather}  # `choose` is the page's

key = os.environ.get("ANTHROPIC_API_KEY", "")
upstream = httpx.AsyncClient(headers={"x-api-key": key}, timeout=60)


async def run_agent(chat: Conversation) -> AsyncIterator[RunItem]:
    """Ask the model until it calls no server tool; a page's tool ends the run."""
    while True:
        request = chat.dump(PROVIDER, arguments="raw", repair="fill")
        url = f"https://api.anthropic.com{request.path}"
        headers = dict(request.headers)
        async with connect(upstream, "POST", url, json=request.body, headers=headers) as stream:
            with chat.append_stream(dialect=PROVIDER, reply=request.reply) as answer:
                async for event in stream:
                    for restored in answer.push(event):
                        yield restored
        choices = {call.id for call in answer.message.tool_calls if call.name == "choose"}
        results = [
            result
            for result in await run_tools(answer.message, FUNCTIONS)
            if result.tool_call_id not in choices
        ]
        if results:
            chat.append(InputMessage("user", tuple(results)))
            yield results
        if choices or not results:
            return


def answer(body: bytes, page: str) -> EventStreamResponse:
    """Return the agent's run for a page's request, which contains the whole chat."""
    asked = decode_request(body, page)
    # All of it may be forged: model, instructions and tools are the server's.
    if any(message.role in ("system", "developer") for message in asked.messages):
        raise DecodeError("instructions of a page, expected none", path="$.messages")
    chat = Conversation(structs.replace(asked, model=MODEL, system=(Text(SYSTEM),), tools=TOOLS))
    run = stream_run(run_agent(chat), to=page, request=asked)
    return EventStreamResponse(run, keepalive_s=15)


app = FastAPI()


@app.post("/api/chat")
async def answer_chat(request: Request) -> EventStreamResponse:
    """Answer a request of `useChat`."""
    return answer(await request.body(), "ui_message_stream")


@app.post("/api/run")
async def answer_run(request: Request) -> EventStreamResponse:
    """Answer a request of AG-UI's client."""
    return answer(await request.body(), "ag_ui")


@app.exception_handler(DecodeError)
@app.exception_handler(EncodeError)
async def refuse(_request: Request, error: Exception) -> PlainTextResponse:
    """Refuse an invalid request with a text that both clients show."""
    return PlainTextResponse(str(error), 400)


app.mount("/", StaticFiles(directory=Path(__file__).parent / "static", html=True))
