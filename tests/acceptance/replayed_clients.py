"""The official SDKs, unmodified, over a transport of ours; and streams for those dialects
that no recording of this project speaks yet."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import anthropic
import httpx2
import openai
from google import genai
from google.genai import types
from support.http.families import FAMILIES, FamilyUnderTest
from support.streams.corpus import recordings

__all__ = ["CLIENTS", "Client"]

URL = "http://model.test"
TIMEOUT_S = 5.0
HTTPX, HTTPX2 = FAMILIES

MESSAGES: Any = [{"role": "user", "content": "Say hello."}]
CHAT: Any = {"model": "m", "messages": MESSAGES, "stream": True}
RESPONSE: Any = {"model": "m", "input": "Say hello."}
ANTHROPIC: Any = {"model": "m", "max_tokens": 100, "messages": MESSAGES}
GEMINI: Any = {"model": "gemini-2.5-flash", "contents": "Say hello."}


class Client(NamedTuple):
    """One SDK, with one way to ask.

    Attributes:
        name: For people.
        family: Of its HTTP client.
        body: A stream that it reads.
        path: Where it asks.
        word: What stands in the answer.
        ask: Asks through a transport, and returns all that the SDK made of the answer.
        ask_async: The same with the asynchronous client.
        cut: What it raises where the connection breaks.
        stalled: What it raises where nothing comes.
    """

    name: str
    family: FamilyUnderTest
    body: bytes
    path: str
    word: str
    ask: Callable[[Any], Any]
    ask_async: Callable[[Any], Awaitable[Any]]
    cut: type[Exception]
    stalled: type[Exception]

    def __str__(self) -> str:
        return self.name


# openai


def open_ai(family: FamilyUnderTest, transport: Any) -> openai.OpenAI:
    http = family.http.Client(transport=transport, timeout=TIMEOUT_S)
    return openai.OpenAI(api_key="-", base_url=f"{URL}/v1", http_client=http, timeout=TIMEOUT_S)


def async_open_ai(family: FamilyUnderTest, transport: Any) -> openai.AsyncOpenAI:
    http = family.http.AsyncClient(transport=transport, timeout=TIMEOUT_S)
    return openai.AsyncOpenAI(
        api_key="-", base_url=f"{URL}/v1", http_client=http, timeout=TIMEOUT_S
    )


def chat(family: FamilyUnderTest) -> tuple[Callable[[Any], Any], Callable[[Any], Awaitable[Any]]]:
    def ask(transport: Any) -> Any:
        with open_ai(family, transport) as client, client.chat.completions.create(**CHAT) as stream:
            return [chunk.model_dump() for chunk in stream]

    async def ask_async(transport: Any) -> Any:
        async with (
            async_open_ai(family, transport) as client,
            await client.chat.completions.create(**CHAT) as stream,
        ):
            return [chunk.model_dump() async for chunk in stream]

    return ask, ask_async


def ask_responses(transport: Any) -> Any:
    with open_ai(HTTPX2, transport) as client, client.responses.stream(**RESPONSE) as stream:
        return stream.get_final_response().model_dump()


async def ask_responses_async(transport: Any) -> Any:
    async with (
        async_open_ai(HTTPX2, transport) as client,
        client.responses.stream(**RESPONSE) as stream,
    ):
        return (await stream.get_final_response()).model_dump()


# anthropic


def ask_anthropic(transport: Any) -> Any:
    http = httpx2.Client(transport=transport, timeout=TIMEOUT_S)
    with (
        anthropic.Anthropic(api_key="-", base_url=URL, http_client=http) as client,
        client.messages.stream(**ANTHROPIC) as stream,
    ):
        return stream.get_final_message().model_dump()


async def ask_anthropic_async(transport: Any) -> Any:
    http = httpx2.AsyncClient(transport=transport, timeout=TIMEOUT_S)
    async with (
        anthropic.AsyncAnthropic(api_key="-", base_url=URL, http_client=http) as client,
        client.messages.stream(**ANTHROPIC) as stream,
    ):
        return (await stream.get_final_message()).model_dump()


# google-genai

AT_ONCE = types.HttpRetryOptions(
    attempts=2, initial_delay=0.0, jitter=0.0, max_delay=0.0, http_status_codes=[529]
)


def ask_gemini(transport: Any) -> Any:
    options = types.HttpOptions(
        base_url=URL,
        client_args={"transport": transport},
        retry_options=AT_ONCE,
        timeout=int(TIMEOUT_S * 1000),
    )
    with genai.Client(api_key="-", http_options=options) as client:
        return [chunk_of(chunk) for chunk in client.models.generate_content_stream(**GEMINI)]


async def ask_gemini_async(transport: Any) -> Any:
    options = types.HttpOptions(
        base_url=URL,
        async_client_args={"transport": transport},
        retry_options=AT_ONCE,
        timeout=int(TIMEOUT_S * 1000),
    )
    async with genai.Client(api_key="-", http_options=options).aio as client:
        chunks = await client.models.generate_content_stream(**GEMINI)
        return [chunk_of(chunk) async for chunk in chunks]


def chunk_of(chunk: types.GenerateContentResponse) -> Any:
    return chunk.model_dump(exclude={"sdk_http_response"})


# Streams


def recording(dialect: str, name: str) -> bytes:
    return next(r.body for r in recordings(dialect) if r.name == name)


def responses_stream(text: list[str]) -> bytes:
    """A message of OpenAI's Responses API, whose text comes in such pieces."""
    whole = "".join(text)
    head: dict[str, Any] = {
        "id": "resp_fjord01",
        "object": "response",
        "created_at": 1764100000,
        "model": "m",
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "output": [],
        "status": "in_progress",
    }
    part = {"type": "output_text", "text": whole, "annotations": []}
    item = {"id": "msg_fjord01", "type": "message", "role": "assistant"}
    place = {"item_id": item["id"], "output_index": 0, "content_index": 0}
    done = {**item, "status": "completed", "content": [part]}
    usage = {
        "input_tokens": 9,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 3,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 12,
    }
    finished = {**head, "status": "completed", "output": [done], "usage": usage}
    begun = {**item, "status": "in_progress", "content": []}
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": head},
        {"type": "response.output_item.added", "output_index": 0, "item": begun},
        {"type": "response.content_part.added", **place, "part": {**part, "text": ""}},
        *(
            {"type": "response.output_text.delta", **place, "delta": piece, "logprobs": []}
            for piece in text
        ),
        {"type": "response.output_text.done", **place, "text": whole, "logprobs": []},
        {"type": "response.content_part.done", **place, "part": part},
        {"type": "response.output_item.done", "output_index": 0, "item": done},
        {"type": "response.completed", "response": finished},
    ]
    return b"".join(
        b"event: %b\ndata: %b\n\n"
        % (event["type"].encode(), json.dumps({**event, "sequence_number": number}).encode())
        for number, event in enumerate(events)
    )


def gemini_stream(text: list[str]) -> bytes:
    """An answer of Gemini, whose text comes in such pieces, with its line ends."""
    chunks: list[dict[str, Any]] = [
        {"candidates": [{"content": {"parts": [{"text": piece}], "role": "model"}, "index": 0}]}
        for piece in text
    ]
    chunks[-1]["candidates"][0]["finishReason"] = "STOP"
    chunks[-1]["usageMetadata"] = {"promptTokenCount": 9, "candidatesTokenCount": 3}
    return b"".join(
        b"data: %b\r\n\r\n" % json.dumps({**chunk, "responseId": "f1"}).encode() for chunk in chunks
    )


WORDS = ["Hel", "lo, fj", "ørd", "."]
CHAT_BODY = recording("openai_chat", "openai/text")

CLIENTS = (
    *(
        Client(
            f"openai-chat-{family}",
            family,
            CHAT_BODY,
            "/v1/chat/completions",
            "Grüß",
            *chat(family),
            openai.APIConnectionError,
            openai.APITimeoutError,
        )
        for family in FAMILIES
    ),
    Client(
        "openai-responses",
        HTTPX2,
        responses_stream(WORDS),
        "/v1/responses",
        "fjørd",
        ask_responses,
        ask_responses_async,
        openai.APIConnectionError,
        openai.APITimeoutError,
    ),
    Client(
        "anthropic",
        HTTPX2,
        recording("anthropic", "anthropic/text"),
        "/v1/messages",
        "Sognefjorden",
        ask_anthropic,
        ask_anthropic_async,
        httpx2.ReadError,
        httpx2.ReadTimeout,
    ),
    *(
        Client(
            f"google-genai-{family}",
            family,
            gemini_stream(WORDS),
            "/v1/models/gemini-2.5-flash:streamGenerateContent",
            "ørd",
            ask_gemini,
            ask_gemini_async,
            family.http.ReadError,
            family.http.ReadTimeout,
        )
        for family in FAMILIES
    ),
)
